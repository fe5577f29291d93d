//! Changes of names and lengths. They take effect here immediately, and in the store with the next commit, all
//! together.

use super::{WriteError, Writer};
use crate::format::Op;
use crate::format::op::{FileNo, RecordBytes};

const NAME_BYTES_MAX: usize = 4096;

impl Writer {
    fn change(&mut self, op: Op) {
        self.seq += 1;
        let applied = self.state.apply(&op, self.page_bytes, &mut self.emptied);
        assert!(applied.is_ok(), "{applied:?}");
        self.pending.push(op);
    }

    fn named(&self, name: &str) -> Result<FileNo, WriteError> {
        let file = self.state.names.get(name).copied();
        file.ok_or_else(|| WriteError::Absent(format!("file {name}")))
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// If there is one of that name, or the store is another's.
    pub fn create(&mut self, name: &str) -> Result<FileNo, WriteError> {
        self.open_or_why()?;
        check(name)?;
        if self.state.names.contains_key(name) {
            return Err(WriteError::Exists(format!("a file {name}")));
        }
        let file = self.state.next_file;
        let name = name.to_owned();
        self.change(Op::Create { file, name });
        Ok(file)
    }

    /// Gives a file another name. A file that had it is gone, in the same commit.
    ///
    /// # Errors
    /// If there is no such file, or the store is another's.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), WriteError> {
        self.open_or_why()?;
        check(to)?;
        let file = self.named(from)?;
        if let Some(&replaced) = self.state.names.get(to)
            && replaced != file
        {
            self.staging.cut(self.seq + 1, replaced, 0..u64::MAX, None);
        }
        let name = to.to_owned();
        self.change(Op::Rename { file, name });
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// If there is no such file, or the store is another's.
    pub fn remove(&mut self, name: &str) -> Result<(), WriteError> {
        self.open_or_why()?;
        let file = self.named(name)?;
        self.staging.cut(self.seq + 1, file, 0..u64::MAX, None);
        self.change(Op::Remove { file });
        Ok(())
    }

    /// Makes a file as long as this. What is behind is gone; what is new is zeros.
    ///
    /// # Errors
    /// If there is no such file, or the store is another's.
    pub fn set_len(&mut self, file: FileNo, bytes: u64) -> Result<(), WriteError> {
        self.open_or_why()?;
        let Some(before) = self.state.files.get(&file).map(|file| file.bytes) else {
            return Err(WriteError::Absent(format!("file {file}")));
        };
        let page_bytes = u64::from(self.page_bytes);
        if bytes < before {
            let kept = (bytes % page_bytes) as u32;
            let end = bytes.div_ceil(page_bytes)..u64::MAX;
            self.staging
                .cut(self.seq + 1, file, end, (kept > 0).then_some(kept));
        }
        if bytes != before {
            self.change(Op::Length { file, bytes });
        }
        Ok(())
    }

    /// Makes pages zeros; the length stays.
    ///
    /// # Errors
    /// If there is no such file, or the store is another's.
    pub fn punch(&mut self, file: FileNo, pages: std::ops::Range<u64>) -> Result<(), WriteError> {
        self.open_or_why()?;
        if !self.state.files.contains_key(&file) {
            return Err(WriteError::Absent(format!("file {file}")));
        }
        self.staging.cut(self.seq + 1, file, pages.clone(), None);
        let (from, to) = (pages.start, pages.end);
        self.change(Op::Punch { file, from, to });
        Ok(())
    }

    /// Sets a record, or removes it.
    ///
    /// # Errors
    /// If the store is another's.
    pub fn put_record(&mut self, key: RecordBytes, value: Option<RecordBytes>) -> Result<(), WriteError> {
        self.open_or_why()?;
        if self.state.records.get(&key) == value.as_ref() {
            return Ok(());
        }
        self.seq += 1;
        match value {
            Some(value) => self.state.records.insert(key.clone(), value),
            None => self.state.records.remove(&key),
        };
        // A commit has what it is by then, once, however often it was changed.
        self.records.insert(key);
        Ok(())
    }

    /// Keeps what holds as of the next commit under a name. A sync makes it so.
    ///
    /// # Errors
    /// If there is a snapshot of that name, or the store is another's.
    pub fn snapshot(&mut self, name: &str) -> Result<(), WriteError> {
        self.open_or_why()?;
        check(name)?;
        let is_there = self.state.snapshots.contains_key(name) || self.snapshots.iter().any(|n| n == name);
        if is_there {
            return Err(WriteError::Exists(format!("a snapshot {name}")));
        }
        self.seq += 1;
        self.snapshots.push(name.to_owned());
        Ok(())
    }

    /// Gives a snapshot up.
    ///
    /// # Errors
    /// If there is none of that name, or the store is another's.
    pub fn drop_snapshot(&mut self, name: &str) -> Result<(), WriteError> {
        self.open_or_why()?;
        let Some(&snapshot) = self.state.snapshots.get(name) else {
            return Err(WriteError::Absent(format!("snapshot {name}")));
        };
        self.dropped.push(snapshot);
        let name = name.to_owned();
        self.change(Op::DropSnapshot { name });
        Ok(())
    }
}

fn check(name: &str) -> Result<(), WriteError> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        len => Err(WriteError::Name(len)),
    }
}
