//! What the system or a device says of a failure: its number, and the same once more; and ours as an `io::Error`.

use crate::error::Error;
use std::io;

impl Error {
    /// The number of an [`io::Error`] that may have one of these inside, as those of [`FileCursor`](crate::FileCursor): that of
    /// [`Error::errno`], or the system's, or what its kind stands for; `EIO` if that is none.
    pub fn errno_of(error: &io::Error) -> i32 {
        errno_of(error)
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Error::EndOfFile { .. } => io::ErrorKind::UnexpectedEof,
            Error::ReadOnly { .. } => io::ErrorKind::PermissionDenied,
            _ => io::Error::from_raw_os_error(self.errno()).kind(),
        }
    }
}

/// For calls that return [`io::Result`]. The error is inside, with all it says, and its kind is that of [`Error::errno`]: a full
/// disk is [`StorageFull`](io::ErrorKind::StorageFull).
///
/// `raw_os_error` is `None`: an `io::Error` has the system's number or an error inside, never both, and with the number alone
/// it would neither name the file nor say what became of its changes. Code that compares numbers takes [`Error::errno_of`],
/// which knows the system's errors as well.
///
/// ```
/// # use std::io;
/// use millpond::Error;
/// let error = io::Error::from(Error::NoSwap);
/// assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
/// assert_eq!(Error::errno_of(&error), 22); // EINVAL
/// assert_eq!(Error::errno_of(&io::Error::from_raw_os_error(28)), 28); // ENOSPC
/// let error: Error = error.downcast()?;
/// assert!(matches!(error, Error::NoSwap));
/// # Ok::<(), io::Error>(())
/// ```
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

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
