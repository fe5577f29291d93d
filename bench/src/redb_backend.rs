//! A redb database whose file is in a Millpond cache.
//!
//! redb has a cache of its own, of pages of its tree that it has decoded the place of, and a buffer of what a transaction has
//! written. With this back end the cache can be small: what it misses is a copy from Millpond's, under the budget of the
//! whole program, and not a system call or memory that nobody counts.
//!
//! The file has redb's own format. Its own back end opens it afterwards, and the other way round; not both at a time.

use millpond::{Error, File, OpenOptions, PageCache};
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;
use std::path::Path;

/// redb's storage in a file of a Millpond cache.
#[derive(Debug)]
pub struct MillpondBackend {
    file: File,
}

impl MillpondBackend {
    /// The file at `path` in `cache`, which is made if there is none, and locked as long as this lives.
    ///
    /// # Errors
    /// [`Error::Open`] if it can't be opened, or has been opened for a database already, by this program or another.
    pub fn open(cache: &PageCache, path: impl AsRef<Path>) -> Result<MillpondBackend, Error> {
        let options = OpenOptions::new().create(true).exclusive(true);
        let file = cache.open(path, options)?;
        Ok(MillpondBackend { file })
    }
}

impl StorageBackend for MillpondBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.file.read_at(out, offset) {
            Ok(read) if read == out.len() => Ok(()),
            Ok(read) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{read} of {} bytes are at {offset} in {:?}", out.len(), self.file),
            )),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(io::Error::other)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().map_err(io::Error::other)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(data, offset).map_err(io::Error::other)
    }

    /// The file is locked already, all of it, for whoever asks from elsewhere.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole(start, end).map(|()| true)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        whole(start, end)
    }
}

/// Locks are of the whole file or none: redb then has one writer at a time.
fn whole(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
    match (start, end) {
        (Bound::Unbounded | Bound::Included(0), Bound::Unbounded) => Ok(()),
        _ => Err(BackendError::Unsupported),
    }
}
