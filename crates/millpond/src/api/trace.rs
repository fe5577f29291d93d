//! Recording the calls made to a cache, each with its file, pages, time and thread, into a file (`docs/TRACES.md`).
//!
//! A recording answers questions that a running program can't: how much memory its load needs (`millpond replay` tries
//! all sizes on one trace), and whether an engine requested what it should have, such as a sync before a commit.
//! [`PageCache::record`](crate::PageCache::record) starts a recording, and [`Trace::read`] reads it.
//!
//! ```
//! use millpond::trace::{Trace, What};
//! use millpond::{OpenOptions, PageCache};
//! # let folder = tempfile::tempdir()?;
//! # let (path, trace) = (folder.path().join("data"), folder.path().join("trace"));
//! let cache = PageCache::builder().build()?;
//! let file = cache.open(&path, OpenOptions::new().create(true))?;
//! let recording = cache.record(&trace)?;
//! file.write_at(&[1; 4096], 0)?;
//! file.sync_data()?;
//! recording.stop()?;
//! let calls: Vec<What> = Trace::read(&trace)?.accesses.iter().map(|access| access.what).collect();
//! assert!(matches!(calls[..], [What::Write { .. }, What::Sync]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::observe::trace::{
    Access, Ended, Recorded, TRACE_BYTES_MAX, TRACE_BYTES_MIN, Trace, TraceError, TracedFile, What,
};

use super::cache::PageCache;
use super::handle::Handle;
use crate::error::{Error, Result};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording in progress. It ends when this is dropped, or earlier on its own.
#[must_use = "dropping it ends the recording"]
pub struct Recording {
    cache: Arc<Handle>,
    number: u64,
}

impl Recording {
    /// Ends the recording. The trace is complete when this returns.
    ///
    /// # Errors
    /// [`Error::Trace`] if not all of it could be written, or if another recording has started since; what was written
    /// can be read. [`Error::Poisoned`], [`Error::Forked`].
    pub fn stop(self) -> Result<Recorded> {
        self.cache.engine.call_flags.check()?;
        let recorded = self.cache.record_stop(Some(self.number));
        let recorded = recorded.ok_or_else(|| Error::Trace {
            path: PathBuf::new(),
            source: io::Error::other("another recording has begun since"),
        })?;
        match &recorded.ended {
            Ended::Failed(why) => Err(Error::Trace {
                path: recorded.path.clone(),
                source: io::Error::other(why.clone()),
            }),
            _ => Ok(recorded),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.cache.engine.call_flags.is_of_another() {
            self.cache.record_stop(Some(self.number));
        }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({})", self.number)
    }
}

impl PageCache {
    /// Records every call from now on into a new file at `path`, until the [`Recording`] is stopped or dropped, or the
    /// file reaches [`TRACE_BYTES_MAX`] bytes. `millpond replay` computes how other memory sizes and policies would
    /// have served the calls. The trace contains the names of the open files.
    ///
    /// Each recorded call costs about 0.2 us; calls that are not recorded cost nothing. Uses at most 5 MiB of memory
    /// outside the budget.
    ///
    /// # Errors
    /// [`Error::Trace`] if `path` already exists or can't be created, or if a recording is in progress.
    pub fn record(&self, path: impl AsRef<Path>) -> Result<Recording> {
        let number = self.handle.record_start(path.as_ref(), TRACE_BYTES_MAX)?;
        Ok(Recording {
            cache: self.handle.clone(),
            number,
        })
    }
}
