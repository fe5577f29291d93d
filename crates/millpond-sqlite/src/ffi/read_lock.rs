//! Keeps writers out of a database that this process may only read.
//!
//! Readers of SQLite's own VFS have a lock for reading on these bytes, and a writer needs one for writing on some of them. The
//! lock is one of the engine's open file (`F_OFD_SETLK`), so that no descriptor is closed for it: closing one would give up
//! the locks that the process has by `fcntl`.

use millpond::File;
use millpond::internal::Maker;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `PENDING_BYTE`, followed by the reserved byte and the 510 shared ones.
const START: i64 = 0x4000_0000;
const LEN: i64 = 512;

/// Held until it is dropped, in the process that has taken it.
pub(crate) struct ReadLock {
    file: File,
    maker: Maker,
}

impl ReadLock {
    /// # Errors
    /// `EAGAIN` if a writer has it.
    pub(crate) fn new(file: File) -> io::Result<ReadLock> {
        set(&file, libc::F_RDLCK)?;
        let maker = Maker::this();
        Ok(ReadLock { file, maker })
    }
}

impl Drop for ReadLock {
    fn drop(&mut self) {
        // Whatever forked children have of the descriptor. In one of them it is the parent's: an unlock there would be one
        // for all that have the open file.
        if !self.maker.is_another() {
            let _ = set(&self.file, libc::F_UNLCK);
        }
    }
}

fn set(file: &File, kind: libc::c_int) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: START,
        l_len: LEN,
        l_pid: 0,
    };
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open as long as `file`, and the struct is read only.
    match unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EACCES) => {
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
            error => Err(error),
        },
    }
}
