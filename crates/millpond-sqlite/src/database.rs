//! The state shared by the process's connections to one database.

use crate::ffi::read_lock::ReadLock;
use crate::locks::{Connection, Level, Locks};
use crate::shm::Shm;
use millpond::{Error, File, OpenOptions, PageCache};
use parking_lot::Mutex;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// A database that is open in this process.
pub(crate) struct Database {
    pub(crate) state: Mutex<State>,
    next: AtomicU64,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) locks: Locks,
    pub(crate) shm: Shm,
    /// Keeps other processes out, once a connection has read or written under a lock.
    claim: Option<Claim>,
}

/// The database is this process's, until the last connection closes it.
pub(crate) enum Claim {
    /// By a lock on the whole file, which the engine holds as long as this handle.
    Writes(#[expect(dead_code, reason = "it is held")] File),
    /// A file that this process may not write: by a lock for reading, of the range that SQLite uses.
    Reads(#[expect(dead_code, reason = "it is held")] ReadLock),
}

impl Database {
    pub(crate) fn new() -> Database {
        Database {
            state: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// The next connection.
    pub(crate) fn connection(&self) -> Connection {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl State {
    /// Whether no other process can write the database.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.claim, Some(Claim::Writes(_)))
    }

    /// Makes the database this process's as far as a lock of this level needs, and forgets what was read before that. One
    /// that is kept from writers only is made so that it can be written while no connection reads it: what they have
    /// read could change meanwhile. Whether it was another's before.
    ///
    /// # Errors
    /// [`Error::Open`] of `EAGAIN` if another process, or another VFS of this one, has it, or connections here read what
    /// others may read too; of `EROFS` if this process may not write it.
    pub(crate) fn claim(
        &mut self,
        cache: &PageCache,
        file: &File,
        is_writable: bool,
        wanted: Level,
    ) -> Result<bool, Error> {
        let failed = |source| Error::Open {
            path: file.path().to_owned(),
            source,
        };
        let is_kept = match &self.claim {
            Some(Claim::Writes(_)) => return Ok(false),
            Some(Claim::Reads(_)) => true,
            None => false,
        };
        if !is_writable && wanted > Level::Shared {
            return Err(failed(io::Error::from_raw_os_error(libc::EROFS)));
        }
        if is_kept && wanted > Level::Shared {
            return Err(failed(io::Error::from_raw_os_error(libc::EAGAIN)));
        }
        if is_kept && (!is_writable || self.locks.are_held()) {
            return Ok(false);
        }
        self.claim = None;
        let for_reading = || ReadLock::new(file.clone()).map_err(failed).map(Claim::Reads);
        let claim = match is_writable {
            true => {
                let same = file.as_fd().try_clone_to_owned().map_err(failed)?;
                let options = OpenOptions::new().write(true).exclusive(true);
                match cache.open_file(same.into(), options) {
                    Ok(locked) => Claim::Writes(locked),
                    // Others read it, too: as before.
                    Err(_) if is_kept => for_reading()?,
                    Err(error) => return Err(error),
                }
            }
            false => for_reading()?,
        };
        // Others may have changed it since it was opened.
        file.invalidate(..)?;
        self.claim = Some(claim);
        Ok(true)
    }
}
