//! The entries of a directory, as the underlying file system returns them, with its cookies.

use parking_lot::Mutex;
use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Result;
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
    /// The cookie at which the next read goes on; `None` if that is not known.
    cursor: Mutex<Option<u64>>,
}

/// One entry.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
    /// The cookie of the next entry.
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

    /// One that the process that served before has opened. Where it stands is not known here.
    pub(crate) fn go_on_from(id: u64, file: OwnedFd) -> Directory {
        Directory {
            id,
            file,
            cursor: Mutex::new(None),
        }
    }

    /// Gives entries from the cookie `from` on to `take`, until that does not take one (`false`).
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
