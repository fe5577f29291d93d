//! Locks on files that belong to an open file, not to a process (`F_OFD_SETLK`, Linux 3.15).
//!
//! A lock of a process (`F_SETLK`, what POSIX has) is gone when the process closes *any* descriptor of the file. Seen from an
//! open file that has none, such a lock of the own process is another's, so that it can be asked for before a descriptor is
//! closed; asked for by `F_GETLK` it is not seen.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Who keeps others from locking a file for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// A process, by a lock of its own; 0 if it is none that this one can see.
    Process(u32),
    /// An open file, of any process.
    OpenFile,
}

/// Locks the whole file for writing, for this open file alone.
///
/// # Errors
/// `EAGAIN` if somebody else has locked some of it; `EBADF` if it is not open for writing; what the file system says.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    control(file, libc::F_OFD_SETLK, libc::F_WRLCK).map(drop)
}

/// Gives up this open file's locks, also if others share it.
pub(crate) fn unlock(file: &File) {
    // What can't be given up here ends with the open file.
    let _ = control(file, libc::F_OFD_SETLK, libc::F_UNLCK);
}

/// Somebody who has locked a part of the file, other than this open file; one of them.
pub(crate) fn holder(file: &File) -> Option<Holder> {
    let found = control(file, libc::F_OFD_GETLK, libc::F_WRLCK).ok()?;
    match (i32::from(found.l_type), u32::try_from(found.l_pid)) {
        (libc::F_UNLCK, _) => None,
        (_, Ok(process)) => Some(Holder::Process(process)),
        (_, Err(_)) => Some(Holder::OpenFile),
    }
}

fn control(file: &File, command: i32, kind: i32) -> io::Result<libc::flock> {
    // All of the file: from its beginning, zero bytes are those up to its end wherever that is.
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: one lock, which lives until the call returns; the file is open until then.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(lock),
    }
}
