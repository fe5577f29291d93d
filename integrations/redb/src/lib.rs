//! A redb database in a Millpond page cache.
//!
//! ```
//! use millpond::PageCache;
//! use millpond_redb::MillpondBackend;
//! use redb::{Database, TableDefinition};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("rows.redb");
//! let cache = PageCache::builder().memory(64 << 20).build()?;
//! let database = Database::builder()
//!     .set_cache_size(8 << 20) // redb's own; small, since Millpond has the pages
//!     .create_with_backend(MillpondBackend::open(&cache, &path)?)?;
//! # let transaction = database.begin_write()?;
//! # transaction.open_table(TableDefinition::<u64, u64>::new("rows"))?.insert(1, 2)?;
//! # transaction.commit()?;
//! # Ok(())
//! # }
//! ```
//!
//! A read that misses redb's cache is a copy from Millpond's. Several databases and other files can share a cache, and
//! with it one memory budget and one goal for read latency. The file has redb's format: redb's own backend opens it when
//! this one has closed it, and the reverse.

use millpond::{Error, File, OpenOptions, PageCache};
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

/// redb's storage in a file of a Millpond cache: `Builder::create_with_backend` takes it.
#[derive(Debug)]
pub struct MillpondBackend {
    /// `None` once it is closed, which read transactions of redb may outlive.
    file: RwLock<Option<File>>,
}

impl MillpondBackend {
    /// Opens the file at `path` in `cache`, or creates it. The file stays locked until the backend is dropped.
    ///
    /// # Errors
    /// [`Error::Open`] if the file can't be opened, or if a database in this process or another one has it open.
    pub fn open(cache: &PageCache, path: impl AsRef<Path>) -> Result<MillpondBackend, Error> {
        let options = OpenOptions::new().create(true).exclusive(true);
        let file = cache.open(path, options)?;
        let file = RwLock::new(Some(file));
        Ok(MillpondBackend { file })
    }

    /// Does `call` with the file while it is open.
    fn with<T>(&self, call: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the database is closed");
        call(file.as_ref().ok_or_else(closed)?)
    }
}

impl StorageBackend for MillpondBackend {
    fn len(&self) -> io::Result<u64> {
        self.with(|file| Ok(file.len()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|file| match file.read_at(out, offset)? {
            read if read == out.len() => Ok(()),
            read => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "cannot read {} bytes at {offset} of {file:?}: it has {read}",
                    out.len()
                ),
            )),
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|file| Ok(file.set_len(len)?))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|file| Ok(file.sync_data()?))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|file| Ok(file.write_at(data, offset)?))
    }

    /// Writes what is dirty, and gives the file and its lock up.
    fn close(&self) -> io::Result<()> {
        let file = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        file.map_or(Ok(()), |file| Ok(file.close()?))
    }

    /// [`MillpondBackend::open`] has locked the whole file against other processes.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        whole(start, end).map(|()| true)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        whole(start, end)
    }
}

/// Refuses a lock on part of the file. redb asks for those only if several processes share a database.
fn whole(start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
    match (start, end) {
        (Bound::Unbounded | Bound::Included(0), Bound::Unbounded) => Ok(()),
        _ => Err(BackendError::Unsupported),
    }
}
