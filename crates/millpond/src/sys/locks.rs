//! Locks on files that belong to an open file, not to a process (`F_OFD_SETLK`, Linux 3.15).
//!
//! A lock of a process (`F_SETLK`, what POSIX has) is gone when the process closes *any* descriptor of the file. Seen from an
//! open file that has none, such a lock of the own process is another's, so that it can be asked for before a descriptor is
//! closed; asked for by `F_GETLK` it is not seen.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// The process that keeps others from locking a file for writing.
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
/// `EAGAIN` if another process has locked some of it; `EBADF` if it is not open for writing; what the file
/// system says.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    control(file, libc::F_OFD_SETLK, libc::F_WRLCK).map(drop)
}

/// Gives up this open file's locks, also if others share it.
pub(crate) fn unlock(file: &File) {
    // What can't be given up here ends with the open file.
    let _ = control(file, libc::F_OFD_SETLK, libc::F_UNLCK);
}

/// One process that has locked a part of the file through another open file than this.
pub(crate) fn holder(file: &File) -> Option<Holder> {
    let found = control(file, libc::F_OFD_GETLK, libc::F_WRLCK).ok()?;
    match (i32::from(found.l_type), u32::try_from(found.l_pid)) {
        (libc::F_UNLCK, _) => None,
        (_, Ok(process)) => Some(Holder::Process(process)),
        (_, Err(_)) => Some(Holder::OpenFile),
    }
}

/// Whether this process may have a lock of its own (`F_SETLK`) on the file, which it would lose with the descriptor.
pub(crate) fn may_be_ours(file: &File) -> bool {
    match holder(file) {
        None => false,
        // A server far away may have said so.
        Some(Holder::Process(0)) => true,
        Some(Holder::Process(process)) if process == std::process::id() => true,
        // If several share it, the kernel has named one of them.
        Some(_) => is_listed(file).unwrap_or(true),
    }
}

/// Whether `/proc/locks` has one of this process, which that may know by another number. The device is called otherwise there
/// on some file systems.
fn is_listed(file: &File) -> io::Result<bool> {
    let locks = fs::read_to_string("/proc/locks")?;
    let process = fs::read_link("/proc/self")?;
    let inode = file.metadata()?.ino().to_string();
    let is_ours = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, at) = (words.next(), words.nth(2), words.next());
        kind == Some("POSIX")
            && pid.is_some_and(|pid| process.as_os_str() == pid)
            && at.and_then(|at| at.rsplit(':').next()) == Some(&*inode)
    };
    Ok(locks.lines().any(is_ours))
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
