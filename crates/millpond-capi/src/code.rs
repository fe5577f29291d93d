//! What calls return.

use millpond::Error;

/// What every call returns: MILLPOND_OK, or what went wrong. millpond_error_message() says more, millpond_error_errno() is
/// the number that a system call would have given. Codes may be added; the numbers of these stay.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum millpond_code {
    /// Done.
    MILLPOND_OK = 0,
    /// A bad argument: NULL, the size of a struct, an option or setting out of its range (EINVAL).
    MILLPOND_INVALID = 1,
    /// A handle that is already closed, or of another kind; a page that is not held (EBADF).
    MILLPOND_HANDLE = 2,
    /// The budget is above a limit, or too small (ENOMEM, EINVAL).
    MILLPOND_MEMORY = 3,
    /// The file can't be opened (the system's number).
    MILLPOND_OPEN = 4,
    /// An offset, page or range that is impossible, or outside the file or region (EINVAL, EFBIG).
    MILLPOND_RANGE = 5,
    /// The file ends before the requested bytes do (ENODATA). The buffer is undefined.
    MILLPOND_END_OF_FILE = 6,
    /// The file can't have this length (EFBIG, ENOSPC, EINVAL). Nothing was changed.
    MILLPOND_TOO_LONG = 7,
    /// The handle or mapping is for reading only (EBADF).
    MILLPOND_READ_ONLY = 8,
    /// The device could not read (its number). A later read tries again.
    MILLPOND_READ = 9,
    /// The device could not write (its number, such as ENOSPC or EIO). The changes stay in memory and are tried again, and
    /// every sync fails until they are written or discarded.
    MILLPOND_WRITE = 10,
    /// Bytes are lost that could not be kept in memory (the device's number).
    MILLPOND_LOST = 11,
    /// A page differs from what was written, according to the file's check (EBADMSG).
    MILLPOND_CHECK = 12,
    /// The log that pages wait for can't be made durable (the callback's number). The changes stay in memory.
    MILLPOND_LOG = 13,
    /// The device could not make durable what it had taken (its number): close the file, open it again and check it.
    MILLPOND_SYNC = 14,
    /// No frame became free, because too many pages are held (ENOMEM).
    MILLPOND_NO_FRAMES = 15,
    /// The call would wait for a page that the calling thread has got and not put (EDEADLK).
    MILLPOND_OWN_GUARD = 16,
    /// The cache is unusable, because one of its threads has died (EIO).
    MILLPOND_POISONED = 17,
    /// The cache belongs to the parent of this forked process (EIO).
    MILLPOND_FORKED = 18,
    /// There is no swap file, or it can't be used, or is too small (EINVAL, ENOMEM, the system's number).
    MILLPOND_SWAP = 19,
    /// The system refused a thread, memory, or a socket (the system's number).
    MILLPOND_SETUP = 20,
    /// The recording failed (the system's number).
    MILLPOND_TRACE = 21,
    /// Not at once: the page is not in memory, or another thread has it (EAGAIN).
    MILLPOND_NOT_NOW = 22,
    /// The buffer for a text is too small (ERANGE).
    MILLPOND_BUFFER = 23,
    /// A bug in the library; its work may be done, in part or not at all (EIO). Please report the message.
    MILLPOND_PANIC = 24,
    /// Anything else (EIO, or the system's number).
    MILLPOND_OTHER = 25,
}

use millpond_code::*;

/// The code of an engine error.
pub(crate) fn code_of(error: &Error) -> millpond_code {
    match error {
        Error::Option(_) | Error::Setting(_) | Error::NoLog { .. } => MILLPOND_INVALID,
        Error::BudgetTooSmall { .. }
        | Error::MemoryLimit { .. }
        | Error::MemoryOfMachine { .. }
        | Error::MemoryForTables { .. } => MILLPOND_MEMORY,
        Error::Open { .. } => MILLPOND_OPEN,
        Error::OutOfRange { .. } | Error::RegionRange { .. } => MILLPOND_RANGE,
        Error::EndOfFile { .. } => MILLPOND_END_OF_FILE,
        Error::TooLong { .. } | Error::FixedLength { .. } => MILLPOND_TOO_LONG,
        Error::ReadOnly { .. } => MILLPOND_READ_ONLY,
        Error::Read { .. } => MILLPOND_READ,
        Error::Write { .. } => MILLPOND_WRITE,
        Error::Lost { .. } => MILLPOND_LOST,
        Error::Check { .. } => MILLPOND_CHECK,
        Error::Log { .. } => MILLPOND_LOG,
        Error::Sync { .. } => MILLPOND_SYNC,
        Error::NoFrames { .. } => MILLPOND_NO_FRAMES,
        Error::OwnGuard { .. } => MILLPOND_OWN_GUARD,
        Error::Poisoned { .. } => MILLPOND_POISONED,
        Error::Forked => MILLPOND_FORKED,
        Error::Swap { .. } | Error::NoSwap | Error::SwapTooSmall { .. } => MILLPOND_SWAP,
        Error::Setup { .. } | Error::Control { .. } | Error::Metrics { .. } => MILLPOND_SETUP,
        Error::Trace { .. } => MILLPOND_TRACE,
        _ => MILLPOND_OTHER,
    }
}
