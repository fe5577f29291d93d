//! Closing with a result, and the file's descriptor.

use super::File;
use crate::error::Error;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

impl File {
    /// Writes dirty pages, makes them durable and drops this handle, reporting errors, which a plain drop cannot. A
    /// read-only handle is just dropped, without a sync. Other handles of the file, clones of this one and its owned
    /// guards are unaffected; whoever changes the file through them later must sync it.
    ///
    /// # Errors
    /// As [`File::sync_data`], together with the handle. Unwritten changes are still in memory. Sync again once the
    /// cause is fixed, or drop the handle to give them up. `close()?` drops it, unless the function returns
    /// `Box<dyn Error>`: the error then says that the changes are lost ([`CloseError`]).
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

    /// Marks the file as used by async tasks.
    #[cfg(feature = "tokio")]
    pub(crate) fn in_tasks(&self) {
        self.opened
            .in_tasks
            .store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Returns the descriptor that the cache itself uses for the file, for querying attributes, `ioctl` or `flock`. It has
/// all the access that any handle of the file was opened for, so the descriptor of a read-only handle may be writable.
/// It stays valid as long as this handle or a clone of it lives. Don't change its flags (`O_APPEND`, `O_DIRECT`): the
/// cache's own transfers would go to the wrong place or fail.
///
/// I/O through the descriptor bypasses the cache. Reads see only what has reached the device. The cache does not see
/// writes, truncations or holes before [`File::invalidate`], and its dirty pages overwrite them. The cache does not use
/// the file position. Closing any descriptor of the file, including a duplicate of this one, releases all of the
/// process's `fcntl` locks on the file, as POSIX specifies.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let lent = self.opened.lent.get_or_init(|| self.inner.device());
        lent.descriptor(false)
    }
}

/// A handle that could not be closed because not all of its changes are durable.
///
/// Converting it into an [`Error`] or an [`io::Error`](std::io::Error), as `?` does, drops the handle. If no other
/// handle, clone or owned guard of the file is left, that gives up its unwritten changes. The converted error says so
/// (`is_kept` of [`Error::Write`] and [`Error::Log`]), and [`PageCache::take_lost`](crate::PageCache::take_lost) has
/// what the drop, which tries once more, could not write.
#[derive(Debug)]
pub struct CloseError {
    /// The error.
    pub error: Error,
    /// The handle, still open.
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

/// Drops `owner`, which could not be closed, with its handle `file`. Returns the error, which says whether anything else
/// keeps the changes.
pub(crate) fn dropped<T>(error: Error, owner: T, file: impl Fn(&T) -> &File) -> Error {
    let handle = file(&owner);
    let (cache, inner) = (handle.cache.clone(), handle.inner.clone());
    let opened = Arc::downgrade(&handle.opened);
    let had_others = cache.handles_of(&inner) > 1;
    drop(owner);
    // Counted twice: a runtime's thread leaves the drop to another, and other handles may be dropped meanwhile.
    let has_others = had_others && cache.handles_of(&inner) > 0;
    match opened.strong_count() > 0 || has_others {
        true => error,
        false => error.given_up(),
    }
}

impl From<CloseError> for Error {
    fn from(CloseError { error, file }: CloseError) -> Error {
        dropped(error, file, |file| file)
    }
}

impl From<CloseError> for std::io::Error {
    fn from(failed: CloseError) -> std::io::Error {
        Error::from(failed).into()
    }
}
