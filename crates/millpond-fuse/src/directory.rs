//! The entries of a directory, as the file system below gives them: its own cookies name the places in it.

use crate::inode::content::Result;
use parking_lot::Mutex;
use rustix::fs::{FileType, RawDir, SeekFrom};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// What is asked for at a time.
const BUFFER_BYTES: usize = 32 << 10;

/// An open directory.
pub(crate) struct Directory {
    /// The number that the kernel knows it by.
    pub(crate) id: u64,
    pub(crate) file: OwnedFd,
    /// Where its cursor is; `None`: somewhere.
    cursor: Mutex<Option<u64>>,
}

/// One entry.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
    /// The place behind it.
    pub(crate) next: u64,
}

impl Directory {
    pub(crate) fn new(id: u64, file: OwnedFd) -> Directory {
        Directory {
            id,
            file,
            cursor: Mutex::new(Some(0)),
        }
    }

    /// Gives entries from the place `from` on to `take`, until that has no room for the one that it was given (`false`).
    pub(crate) fn read(&self, from: u64, mut take: impl FnMut(&Entry<'_>) -> Result<bool>) -> Result<()> {
        let mut cursor = self.cursor.lock();
        if *cursor != Some(from) {
            rustix::fs::seek(&self.file, SeekFrom::Start(from))?;
        }
        *cursor = None;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut entries = RawDir::new(&self.file, buffer.spare_capacity_mut());
        let mut at = from;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let next = entry.next_entry_cookie();
            let has_taken = take(&Entry {
                name: OsStr::from_bytes(entry.file_name().to_bytes()),
                inode: entry.ino(),
                kind: entry.file_type(),
                next,
            })?;
            if !has_taken {
                return Ok(());
            }
            at = next;
        }
        *cursor = Some(at);
        Ok(())
    }
}
