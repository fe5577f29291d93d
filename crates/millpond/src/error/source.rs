//! Error numbers: of the system's and devices' errors, copies of those, and conversion to `io::Error`.

use crate::error::Error;
use std::io;

impl Error {
    /// Returns the error number of an [`io::Error`], which may contain an [`Error`], as those of
    /// [`FileCursor`](crate::FileCursor) do: that of [`Error::errno`], the system's, or the one that its kind stands
    /// for; `EIO` if there is none.
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

/// For calls that return [`io::Result`]. The `io::Error` contains the whole [`Error`], and its kind corresponds to
/// [`Error::errno`]: a full disk is [`StorageFull`](io::ErrorKind::StorageFull).
///
/// `raw_os_error` is `None`: an `io::Error` holds either a system error number or an inner error, and a number alone
/// would name neither the file nor the fate of its changes. Code that compares numbers should call [`Error::errno_of`],
/// which handles system errors too.
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

/// Returns the system's number, or that of one of our errors, by its content or its kind.
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

/// Returns the number of our error inside.
fn errno_within(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref()?;
    let ours = inner.downcast_ref::<Error>().map(Error::errno);
    ours.or_else(|| inner.downcast_ref::<Again>().map(|again| again.errno))
}

/// The text and number of an error that can't be cloned.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Again {
    errno: i32,
    text: String,
}

/// Copies an error: by its number if it has one, otherwise by kind, number and text.
pub(crate) fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => {
            let (errno, text) = (errno_of(error), error.to_string());
            io::Error::new(error.kind(), Again { errno, text })
        }
    }
}
