//! The complete state as of a commit: files, the locations of their pages, snapshots.

use super::places::Places;
use crate::format::op::{FileNo, RecordBytes};
use crate::format::{ObjectId, Op, PageEntry};
use std::collections::BTreeMap;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The object.
    pub object: ObjectId,
    /// First byte there.
    pub offset: u32,
    /// Bytes there.
    pub bytes: u32,
    /// So many of them are the page's; the rest of the page is zeros.
    pub kept: u32,
    /// Of these bytes.
    pub checksum: u64,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Where its pages are. What is not there is zeros.
    pub pages: Places,
}

/// A snapshot: what held as of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The commit.
    pub number: u64,
    /// Of its checkpoint.
    pub epoch: u32,
}

/// A change that does not fit what it is to change: it was made for another state.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a commit changes something that does not exist: {0:?}")]
pub struct StateError(pub Box<Op>);

/// All that holds as of a commit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// By number.
    pub files: BTreeMap<FileNo, File>,
    /// By name.
    pub names: BTreeMap<String, FileNo>,
    /// By name.
    pub snapshots: BTreeMap<String, Snapshot>,
    /// By key.
    pub records: BTreeMap<RecordBytes, RecordBytes>,
    /// Number of the next file.
    pub next_file: FileNo,
    /// Bytes of pages that are live in each object.
    pub live: BTreeMap<ObjectId, u64>,
}

impl State {
    /// Where a page is; `None`: it is zeros.
    pub fn place(&self, file: FileNo, page: u64) -> Option<Place> {
        self.files.get(&file)?.pages.get(page).copied()
    }

    /// Applies a change and appends the objects that have no live page any more.
    ///
    /// # Errors
    /// If it does not fit; nothing has changed then.
    pub fn apply(&mut self, op: &Op, page_bytes: u32, emptied: &mut Vec<ObjectId>) -> Result<(), StateError> {
        let misfit = || StateError(Box::new(op.clone()));
        let known = |state: &State, file: &FileNo| match state.files.contains_key(file) {
            true => Ok(()),
            false => Err(misfit()),
        };
        match op {
            Op::Create { file, name } => {
                if self.files.contains_key(file) || self.names.contains_key(name) {
                    return Err(misfit());
                }
                let made = File {
                    name: name.clone(),
                    bytes: 0,
                    pages: Places::default(),
                };
                self.files.insert(*file, made);
                self.names.insert(name.clone(), *file);
                self.next_file = self.next_file.max(file + 1);
            }
            Op::Rename { file, name } => {
                known(self, file)?;
                if let Some(replaced) = self.names.get(name).copied().filter(|other| other != file) {
                    self.remove(replaced, emptied);
                }
                if let Some(renamed) = self.files.get_mut(file) {
                    let old = std::mem::replace(&mut renamed.name, name.clone());
                    self.names.remove(&old);
                    self.names.insert(name.clone(), *file);
                }
            }
            Op::Remove { file } => {
                known(self, file)?;
                self.remove(*file, emptied);
            }
            Op::Length { file, bytes } => {
                known(self, file)?;
                let (page_bytes, bytes) = (u64::from(page_bytes), *bytes);
                self.gone(*file, bytes.div_ceil(page_bytes)..u64::MAX, emptied);
                if let Some(file) = self.files.get_mut(file) {
                    file.bytes = bytes;
                    if let Some(last) = file.pages.get_mut(bytes / page_bytes) {
                        last.kept = last.kept.min((bytes % page_bytes) as u32);
                    }
                }
            }
            Op::Punch { file, from, to } => {
                known(self, file)?;
                self.gone(*file, *from..*to, emptied);
            }
            Op::Pages { file, entries } => {
                known(self, file)?;
                for entry in entries {
                    self.put(*file, entry.page, entry.place(), emptied);
                }
            }
            Op::Snapshot { name, number, epoch } => {
                let (number, epoch) = (*number, *epoch);
                let snapshot = Snapshot { number, epoch };
                if self.snapshots.contains_key(name) {
                    return Err(misfit());
                }
                self.snapshots.insert(name.clone(), snapshot);
            }
            Op::DropSnapshot { name } => {
                self.snapshots.remove(name).ok_or_else(misfit)?;
            }
            Op::NextFile { file } => self.next_file = self.next_file.max(*file),
            Op::Record { key, value } => {
                match value {
                    Some(value) => self.records.insert(key.clone(), value.clone()),
                    None => self.records.remove(key),
                };
            }
        }
        Ok(())
    }

    /// A page is elsewhere than it was.
    pub(super) fn put(&mut self, file: FileNo, page: u64, place: Place, emptied: &mut Vec<ObjectId>) {
        let Some(pages) = self.files.get_mut(&file).map(|file| &mut file.pages) else {
            return;
        };
        *self.live.entry(place.object).or_default() += u64::from(place.bytes);
        if let Some(old) = pages.insert(page, place) {
            self.less(old, emptied);
        }
    }

    fn less(&mut self, old: Place, emptied: &mut Vec<ObjectId>) {
        if let Some(live) = self.live.get_mut(&old.object) {
            *live -= u64::from(old.bytes);
            if *live == 0 {
                self.live.remove(&old.object);
                emptied.push(old.object);
            }
        }
    }

    fn gone(&mut self, file: FileNo, pages: std::ops::Range<u64>, emptied: &mut Vec<ObjectId>) {
        let Some(file) = self.files.get_mut(&file) else {
            return;
        };
        for old in file.pages.remove(pages) {
            self.less(old, emptied);
        }
    }

    fn remove(&mut self, file: FileNo, emptied: &mut Vec<ObjectId>) {
        self.gone(file, 0..u64::MAX, emptied);
        if let Some(file) = self.files.remove(&file) {
            self.names.remove(&file.name);
        }
    }

    /// What the changes that lead here are made from, without the rest. Shares the places of pages.
    pub(super) fn copy_for_ops(&self) -> State {
        State {
            files: self.files.clone(),
            snapshots: self.snapshots.clone(),
            records: self.records.clone(),
            next_file: self.next_file,
            ..State::default()
        }
    }

    /// The changes that lead here from nothing.
    pub fn ops(&self) -> Vec<Op> {
        let mut ops = vec![Op::NextFile { file: self.next_file }];
        for (&number, file) in &self.files {
            ops.push(Op::Create {
                file: number,
                name: file.name.clone(),
            });
            ops.push(Op::Length {
                file: number,
                bytes: file.bytes,
            });
            if !file.pages.is_empty() {
                let entries = file.pages.iter().map(|(page, &place)| PageEntry::of(page, place));
                ops.push(Op::Pages {
                    file: number,
                    entries: entries.collect(),
                });
            }
        }
        for (key, value) in &self.records {
            ops.push(Op::Record {
                key: key.clone(),
                value: Some(value.clone()),
            });
        }
        for (name, snapshot) in &self.snapshots {
            ops.push(Op::Snapshot {
                name: name.clone(),
                number: snapshot.number,
                epoch: snapshot.epoch,
            });
        }
        ops
    }

    /// From the changes that lead there from nothing.
    ///
    /// # Errors
    /// If one does not fit.
    pub fn from_ops(ops: &[Op], page_bytes: u32) -> Result<State, StateError> {
        let mut state = State::default();
        for op in ops {
            state.apply(op, page_bytes, &mut Vec::new())?;
        }
        Ok(state)
    }
}

impl PageEntry {
    /// What a commit says of a page.
    pub(crate) fn of(page: u64, place: Place) -> PageEntry {
        PageEntry {
            page,
            object: place.object,
            offset: place.offset,
            bytes: place.bytes,
            kept: place.kept,
            checksum: place.checksum,
        }
    }

    fn place(&self) -> Place {
        Place {
            object: self.object,
            offset: self.offset,
            bytes: self.bytes,
            kept: self.kept,
            checksum: self.checksum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(page: u64, chunk: u32) -> PageEntry {
        PageEntry {
            page,
            object: ObjectId::chunk(1, chunk),
            offset: 0,
            bytes: 100,
            kept: 100,
            checksum: 5,
        }
    }

    fn state(ops: &[Op]) -> (State, Vec<ObjectId>) {
        let (mut state, mut emptied) = (State::default(), Vec::new());
        for op in ops {
            state.apply(op, 100, &mut emptied).unwrap();
        }
        (state, emptied)
    }

    fn record(key: &str, value: Option<&str>) -> Op {
        Op::Record {
            key: key.as_bytes().into(),
            value: value.map(|value| value.as_bytes().into()),
        }
    }

    #[test]
    fn an_object_is_emptied_by_the_change_of_its_last_page() {
        let pages = |entries: &[PageEntry]| Op::Pages {
            file: 0,
            entries: entries.to_vec(),
        };
        let name = String::from("a");
        let mut ops = vec![Op::Create { file: 0, name }, pages(&[entry(0, 1), entry(7, 1)])];
        ops.push(pages(&[entry(0, 2)]));
        assert_eq!(state(&ops).1, []);
        ops.push(Op::Length { file: 0, bytes: 650 });
        let (cut, emptied) = state(&ops);
        assert_eq!(emptied, [ObjectId::chunk(1, 1)]);
        assert_eq!(cut.place(0, 7), None);
        assert_eq!(cut.live, BTreeMap::from([(ObjectId::chunk(1, 2), 100)]));
    }

    #[test]
    fn a_checkpoint_leads_to_the_same_state() {
        let name = |name: &str| String::from(name);
        let ops = [
            Op::Create {
                file: 4,
                name: name("a"),
            },
            Op::Create {
                file: 5,
                name: name("b/c"),
            },
            Op::Length { file: 5, bytes: 900 },
            Op::Pages {
                file: 5,
                entries: vec![entry(1, 1), entry(2, 1), entry(3, 9)],
            },
            Op::Punch {
                file: 5,
                from: 2,
                to: 3,
            },
            Op::Snapshot {
                name: name("monday"),
                number: 3,
                epoch: 1,
            },
            Op::Rename {
                file: 5,
                name: name("a"),
            },
            record("kept", Some("1")),
            record("kept", Some("2")),
            record("gone", Some("3")),
            record("gone", None),
        ];
        let (state, emptied) = state(&ops);
        assert_eq!(
            state.records,
            BTreeMap::from([(b"kept"[..].into(), b"2"[..].into())])
        );
        assert_eq!(emptied, []);
        assert_eq!(
            state.names,
            BTreeMap::from([(name("a"), 5)]),
            "the file that had the name is gone"
        );
        assert_eq!(State::from_ops(&state.ops(), 100).unwrap(), state);
    }

    #[test]
    fn a_change_of_what_is_not_there_is_refused() {
        let mut state = State::default();
        let op = Op::Remove { file: 3 };
        assert!(state.apply(&op, 100, &mut Vec::new()).is_err());
    }
}
