//! Limits on file length: the file system's, and the process's (`ulimit -f`).
//!
//! Both are checked before a write is accepted. Later would be too late: writeback runs in the background, where it
//! can't report to the caller, and the kernel kills a process at its limit (SIGXFSZ).

use super::again::open_again;
use super::{Descriptor, DeviceFile};
use crate::sys::limits::{Resource, limit};
use rustix::fs::SeekFrom;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every file system supports files of this length.
const LEN_SURE: u64 = (1 << 31) - 1;

/// The limit on a file's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LengthLimit {
    /// The number of bytes of a file that this process may write.
    Process(u64),
    /// The largest file that the file system supports.
    FileSystem,
}

impl fmt::Display for LengthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LengthLimit::Process(max) => write!(
                f,
                "this process may write at most {max} bytes to a file: raise the limit with `ulimit -f` or prlimit(1)"
            ),
            LengthLimit::FileSystem => f.write_str(
                "the file system has no files of that length: choose another one, or use several files",
            ),
        }
    }
}

/// The file system's length limit, where known.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    allowed: AtomicU64,
}

/// The process's limit as last read; it can change at any time.
static PROCESS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Reads the limit from the system.
pub(crate) fn look() -> u64 {
    let limit = limit(Resource::FileLength).unwrap_or(u64::MAX);
    PROCESS.store(limit, Ordering::Relaxed);
    limit
}

/// Returns the limit if byte `end` lies past what this process may write of a file, according to the cached value. A
/// raised limit is noticed; a lowered one may not be.
#[inline]
pub(crate) fn is_behind_limit(end: u64) -> Option<LengthLimit> {
    if end <= PROCESS.load(Ordering::Relaxed) {
        return None;
    }
    let limit = look();
    (end > limit).then_some(LengthLimit::Process(limit))
}

impl DeviceFile {
    /// Returns why the file can't become `len` bytes long, if that is known without trying. Always `None` for a block
    /// device.
    pub(crate) fn length_limit(&self, len: u64) -> Option<LengthLimit> {
        if self.is_block_device() {
            return None;
        }
        look();
        is_behind_limit(len).or_else(|| (!self.file_system_has(len)).then_some(LengthLimit::FileSystem))
    }

    /// Seeking past the file system's limit is refused (`vfs_setpos`, Linux 6.18; on ext4 by the limit of the
    /// individual file), and changes nothing else.
    fn file_system_has(&self, len: u64) -> bool {
        let allowed = &self.lengths().allowed;
        if len <= allowed.load(Ordering::Relaxed).max(LEN_SURE) {
            return true;
        }
        // Much further first, so that a thread that appends asks seldom.
        for asked in [len.saturating_mul(4).min(i64::MAX as u64), len] {
            match self.seek_to(asked) {
                Ok(()) => {
                    allowed.fetch_max(asked, Ordering::Relaxed);
                    return true;
                }
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(_) => return true,
            }
        }
        false
    }

    fn seek_to(&self, offset: u64) -> io::Result<()> {
        self.seek(SeekFrom::Start(offset)).map(drop)
    }

    /// Moves no file position visible to others, who may share the open file.
    ///
    /// # Errors
    /// As seeking, or opening the file once more, fails.
    pub(super) fn seek(&self, to: SeekFrom) -> io::Result<u64> {
        if self.is_direct() {
            return Ok(rustix::fs::seek(self.descriptor(true), to)?);
        }
        let mut options = File::options();
        let again = open_again(self.buffered.file(), Path::new(self.name()), options.read(true));
        let own = Descriptor::new(again?);
        Ok(rustix::fs::seek(own, to)?)
    }

    /// Checks the limit before the system is asked to extend the file, which would otherwise kill the process.
    ///
    /// # Errors
    /// `EFBIG`.
    pub(super) fn check_limit(&self, len: u64) -> io::Result<()> {
        match len > look() && !self.is_block_device() && len > self.len()? {
            true => Err(io::Error::from_raw_os_error(libc::EFBIG)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Access;

    /// It stood elsewhere for a moment, where the program might just read.
    #[test]
    fn a_cursor_that_others_have_is_not_moved_by_asking_for_lengths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = DeviceFile::open(&path, Access::Create).unwrap();
        for file in [file.try_clone().unwrap(), file.without_direct(true)] {
            assert_eq!(file.seek(SeekFrom::Start(5)).unwrap(), 5);
            assert_eq!(rustix::fs::tell(file.descriptor(false)).unwrap(), 0);
        }
    }
}
