//! SQLite's numbers, and which of them an error of the engine's is.

use millpond::Error;
use std::ffi::c_int;

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;
pub(crate) const BUSY: c_int = 5;
pub(crate) const NOMEM: c_int = 7;
pub(crate) const READONLY: c_int = 8;
pub(crate) const IOERR: c_int = 10;
pub(crate) const NOTFOUND: c_int = 12;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
/// For an extension: it stays when the connection that loaded it is closed.
pub(crate) const OK_LOAD_PERMANENTLY: c_int = 256;

pub(crate) const IOERR_READ: c_int = IOERR | 1 << 8;
pub(crate) const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub(crate) const IOERR_WRITE: c_int = IOERR | 3 << 8;
pub(crate) const IOERR_FSYNC: c_int = IOERR | 4 << 8;
pub(crate) const IOERR_DIR_FSYNC: c_int = IOERR | 5 << 8;
pub(crate) const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
pub(crate) const IOERR_FSTAT: c_int = IOERR | 7 << 8;
pub(crate) const IOERR_DELETE: c_int = IOERR | 10 << 8;
pub(crate) const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;
pub(crate) const IOERR_UNLOCK: c_int = IOERR | 8 << 8;
pub(crate) const IOERR_NOMEM: c_int = IOERR | 12 << 8;
pub(crate) const IOERR_CHECKRESERVEDLOCK: c_int = IOERR | 14 << 8;
pub(crate) const IOERR_LOCK: c_int = IOERR | 15 << 8;
pub(crate) const IOERR_CLOSE: c_int = IOERR | 16 << 8;
pub(crate) const IOERR_SHMLOCK: c_int = IOERR | 20 << 8;
pub(crate) const IOERR_SHMMAP: c_int = IOERR | 21 << 8;
/// A journal or WAL can't be made in the folder.
pub(crate) const READONLY_DIRECTORY: c_int = READONLY | 6 << 8;

/// The number for SQLite if this call of a file fails, which is usually `usual`.
pub(crate) fn of(error: &Error, usual: c_int) -> c_int {
    match (error, error.errno()) {
        (Error::NoFrames { .. }, _) => IOERR_NOMEM,
        // What was not written for want of room. A read that fails so is the device's mistake.
        (
            Error::Write { .. } | Error::Lost { .. } | Error::TooLong { .. } | Error::FixedLength { .. },
            errno,
        ) if [libc::ENOSPC, libc::EDQUOT, libc::EFBIG].contains(&errno) => FULL,
        _ => usual,
    }
}

/// The same if a file can't be opened; `is_new_journal`: one of a database, or a WAL, that was to be made. As SQLite's own VFS,
/// which gives a folder no number of its own.
pub(crate) fn of_opening(error: &Error, is_new_journal: bool) -> c_int {
    match error.errno() {
        libc::EAGAIN | libc::EBUSY => BUSY,
        libc::EACCES if is_new_journal => READONLY_DIRECTORY,
        libc::ENOMEM => NOMEM,
        libc::ENOSPC | libc::EDQUOT => FULL,
        _ => CANTOPEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_full_disk_is_full_and_all_else_is_what_was_tried() {
        let write = |errno| Error::Write {
            path: "data.db".into(),
            source: io::Error::from_raw_os_error(errno),
            is_kept: true,
        };
        assert_eq!(of(&write(libc::ENOSPC), IOERR_FSYNC), FULL);
        assert_eq!(of(&write(libc::EIO), IOERR_FSYNC), IOERR_FSYNC);
        let read = Error::Read {
            path: "data.db".into(),
            offset: 0,
            source: io::Error::from_raw_os_error(libc::EIO),
        };
        assert_eq!(of(&read, IOERR_READ), IOERR_READ);
    }
}
