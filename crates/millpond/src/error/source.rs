//! What the system or a device says of a failure: its number, and the same once more.

use std::io;

/// The system's number, or that of an error which we have made ourselves, by its kind.
pub(crate) fn errno_of(source: &io::Error) -> i32 {
    use io::ErrorKind as Kind;
    source.raw_os_error().unwrap_or(match source.kind() {
        Kind::AddrInUse => libc::EADDRINUSE,
        Kind::AlreadyExists => libc::EEXIST,
        Kind::FileTooLarge => libc::EFBIG,
        Kind::InvalidInput => libc::EINVAL,
        Kind::IsADirectory => libc::EISDIR,
        Kind::NotADirectory => libc::ENOTDIR,
        Kind::NotFound => libc::ENOENT,
        Kind::OutOfMemory => libc::ENOMEM,
        Kind::PermissionDenied => libc::EACCES,
        Kind::ReadOnlyFilesystem => libc::EROFS,
        Kind::ResourceBusy => libc::EBUSY,
        Kind::StaleNetworkFileHandle => libc::ESTALE,
        Kind::StorageFull => libc::ENOSPC,
        Kind::TimedOut => libc::ETIMEDOUT,
        Kind::Unsupported => libc::EOPNOTSUPP,
        Kind::WouldBlock => libc::EAGAIN,
        _ => libc::EIO,
    })
}

/// The same error once more: what has a number by that, all else by its kind and its text.
pub(crate) fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
