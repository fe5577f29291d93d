//! What the system or a device says of a failure: its number, and the same once more.

use crate::error::Error;
use std::io;

/// The system's number, or that of an error which we have made ourselves, by what is in it or its kind.
pub(crate) fn errno_of(source: &io::Error) -> i32 {
    use io::ErrorKind as Kind;
    if let Some(errno) = source.raw_os_error().or_else(|| errno_within(source)) {
        return errno;
    }
    match source.kind() {
        Kind::AddrInUse => libc::EADDRINUSE,
        Kind::AlreadyExists => libc::EEXIST,
        Kind::Deadlock => libc::EDEADLK,
        Kind::FileTooLarge => libc::EFBIG,
        Kind::Interrupted => libc::EINTR,
        Kind::InvalidInput => libc::EINVAL,
        Kind::IsADirectory => libc::EISDIR,
        Kind::NotADirectory => libc::ENOTDIR,
        Kind::NotFound => libc::ENOENT,
        Kind::OutOfMemory => libc::ENOMEM,
        Kind::PermissionDenied => libc::EACCES,
        Kind::QuotaExceeded => libc::EDQUOT,
        Kind::ReadOnlyFilesystem => libc::EROFS,
        Kind::ResourceBusy => libc::EBUSY,
        Kind::StaleNetworkFileHandle => libc::ESTALE,
        Kind::StorageFull => libc::ENOSPC,
        Kind::TimedOut => libc::ETIMEDOUT,
        Kind::Unsupported => libc::EOPNOTSUPP,
        Kind::WouldBlock => libc::EAGAIN,
        _ => libc::EIO,
    }
}

/// The number of one of ours that is inside.
fn errno_within(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref()?;
    let ours = inner.downcast_ref::<Error>().map(Error::errno);
    ours.or_else(|| inner.downcast_ref::<Again>().map(|again| again.errno))
}

/// The text of an error that can't be copied, and its number.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Again {
    errno: i32,
    text: String,
}

/// The same error once more: what has a number by that, all else by its kind, its number and its text.
pub(crate) fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => {
            let (errno, text) = (errno_of(error), error.to_string());
            io::Error::new(error.kind(), Again { errno, text })
        }
    }
}
