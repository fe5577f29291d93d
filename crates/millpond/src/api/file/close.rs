//! Closing with an answer, and the file's descriptor.

use super::File;
use crate::error::Error;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

impl File {
    /// Writes what is dirty, makes it durable and drops this handle, saying whether that went well; dropping it alone
    /// can't say. A handle for reading only is dropped and nothing else: what others wrote is theirs to sync. Other handles of the file, clones of this one and its owned guards stay as they are: what they change
    /// later is theirs to sync.
    ///
    /// # Errors
    /// As [`File::sync_data`], with the handle: what could not be written is still there, and can be synced again once the
    /// cause is gone, or given up by dropping the handle.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # let cache = millpond::PageCache::builder().memory(2 << 20).build()?;
    /// let mut file = cache.open(&path, millpond::OpenOptions::new().create(true))?;
    /// file.write_at(b"pond", 0)?;
    /// for again in (0..3).rev() {
    ///     match file.close() {
    ///         Ok(()) => break,
    ///         Err(failed) if again == 0 => return Err(failed.into()), // drops the handle
    ///         Err(failed) => file = failed.file,                      // make room, then try again
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(self) -> std::result::Result<(), CloseError> {
        let synced = if self.writable { self.sync_data() } else { Ok(()) };
        synced.map_err(|error| CloseError { error, file: self })
    }

    /// From now on tasks have it.
    #[cfg(feature = "tokio")]
    pub(crate) fn in_tasks(&self) {
        self.opened
            .in_tasks
            .store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The descriptor of the file below, as the cache itself has it: to ask for attributes, to pass to `ioctl`, to lock by
/// `flock`. It is open for all that any handle of the file was opened for, so that of a handle for reading may write. It is
/// the file's as long as this handle or a clone of it lives. Don't change its flags (`O_APPEND`, `O_DIRECT`): the cache's own
/// transfers would go elsewhere, or fail.
///
/// What goes through it goes past the cache. What is read by it is what has reached the device; what is written, cut or
/// punched by it is not seen here before [`File::invalidate`], and a page that is changed here is written over it. Its cursor
/// is not used. And closing any descriptor of the file, a duplicate of this one too, gives up all locks by
/// `fcntl` that the process has on it, as the system has it.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let lent = self.opened.lent.get_or_init(|| self.inner.device());
        lent.descriptor(false)
    }
}

/// A handle that could not be closed, because what was written through it is not all durable.
///
/// As an [`Error`], or an [`io::Error`](std::io::Error), which `?` makes of it, it has dropped the handle.
#[derive(Debug)]
pub struct CloseError {
    /// Why.
    pub error: Error,
    /// The handle.
    pub file: File,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl From<CloseError> for Error {
    fn from(failed: CloseError) -> Error {
        failed.error
    }
}

impl From<CloseError> for std::io::Error {
    fn from(failed: CloseError) -> std::io::Error {
        failed.error.into()
    }
}
