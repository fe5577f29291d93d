//! What can go wrong, for callers that must do something about it.

mod source;
pub(crate) mod told;

pub(crate) use source::{again, errno_of};

use crate::device::LengthLimit;
use crate::error::told::{
    LESS_MEMORY, LET_GO, LOG, MORE_FRAMES, MORE_SWAP, SOCKET, SWAP, WRITABLE, after_sync, allowed,
};
use crate::host::{MemoryLimit, MemoryRefusal};
use crate::settings::SettingError;
use crate::size::{Size, apart};
use millpond_core::options::OptionError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A call that did not do what was asked. Says what was wrong, with the value, and what to do: in Rust's words, and in
/// those of others with [`Error::told`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of its range. Nothing was changed. Choose a value from the range.
    #[error("{0}")]
    Option(#[from] OptionError),

    /// A setting that is given by name can't be set so. Nothing was changed. The message says what is allowed.
    #[error("{0}")]
    Setting(#[from] SettingError),

    /// The control socket can't be there. The message says why: another cache listens there, the folder is not ours.
    #[error("can't open the control socket {path}: {source}; {SOCKET}", path = .path.display())]
    Control {
        /// Where.
        path: PathBuf,
        /// The system's answer, or what is in the way.
        source: io::Error,
    },

    /// Calls can't be recorded into this file, or not any more. The message says why: it is there already, the disk is full,
    /// another recording is under way. What was written of a trace can be read.
    #[error("can't record into {path}: {source}", path = .path.display())]
    Trace {
        /// The trace.
        path: PathBuf,
        /// The system's answer, or what is in the way.
        source: io::Error,
    },

    /// The figures for Prometheus can't be served there: the address is in use, or not of this host.
    #[error("can't serve metrics at {address}: {source}; give another address or port")]
    Metrics {
        /// Where.
        address: std::net::SocketAddr,
        /// The system's answer.
        source: io::Error,
    },

    /// The budget is too small for a pool of the least size and the buffers for input and output.
    #[error(
        "a budget of {} is too small: at least {} are needed with pages of {}",
        Size(*.given), Size::enough(*.min), Size(*.page_size)
    )]
    BudgetTooSmall {
        /// What was asked for, in bytes.
        given: u64,
        /// The least that works, in bytes.
        min: u64,
        /// The page size, in bytes.
        page_size: u64,
    },

    /// The budget is above what a control group allows this process, so that the kernel would kill it sooner or later.
    /// Ask for less, raise the limit, or say [`Builder::memory_beyond_limit`](crate::Builder::memory_beyond_limit).
    #[error(
        "a budget of {} is above the memory limit of {limit}: raise {}, {LESS_MEMORY}",
        Size(*.given), .limit.file.display()
    )]
    MemoryLimit {
        /// What was asked for, in bytes.
        given: u64,
        /// What it is above.
        limit: MemoryLimit,
    },

    /// The budget is more than the machine has, so that the kernel would kill a process before it is full. Ask for less, or
    /// say [`Builder::memory_beyond_limit`](crate::Builder::memory_beyond_limit).
    #[error(
        "a budget of {} is more than this machine's {}: {LESS_MEMORY}",
        apart(*.given, *.machine), apart(*.machine, *.given)
    )]
    MemoryOfMachine {
        /// What was asked for, in bytes.
        given: u64,
        /// All memory that the machine has, in bytes.
        machine: u64,
    },

    /// The budget was allowed to be beyond a limit, and not even its tables have room, which are there from the beginning on.
    /// Ask for less.
    #[error(
        "a budget of {} has tables of {}, and {} are free: ask for less",
        Size(*.given), Size(*.tables), Size(*.free)
    )]
    MemoryForTables {
        /// What was asked for, in bytes.
        given: u64,
        /// What is known of its frames, in bytes.
        tables: u64,
        /// What the machine or a control group has left, in bytes.
        free: u64,
    },

    /// The file can't be opened. The message says why: it does not exist, may not be read, is a directory.
    #[error("can't open {path}: {source}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },

    /// The swap file can't be used. The message says why: it is in use, holds something else, has no room.
    #[error("can't use {path} for swap: {source}")]
    Swap {
        /// The path as given.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },

    /// A region was asked of a cache without a swap file.
    #[error("regions need a swap file: {SWAP}")]
    NoSwap,

    /// All regions of a cache together must fit into its swap file, so that it can never be full.
    #[error(
        "a region of {} is out of range: {} of {} of swap are left for regions; allowed is 1 to {left} bytes; {MORE_SWAP}",
        Size(*.given), Size(*.left), Size(*.swap)
    )]
    SwapTooSmall {
        /// What was asked for, in bytes.
        given: u64,
        /// What no region has yet, in bytes.
        left: u64,
        /// All of it, in bytes.
        swap: u64,
    },

    /// A range of bytes is not within the region.
    #[error("bytes {start} to {end} of a region are out of range: it has {len}")]
    RegionRange {
        /// The first byte.
        start: u64,
        /// The byte behind the last one.
        end: u64,
        /// The region's length.
        len: u64,
    },

    /// The offset, or the length there, is beyond what a file can have or what this one has.
    #[error("{what} {given} of {path} is out of range: {}", allowed(.max))]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// What was out of range: `offset`, `page`, `length`.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// The largest possible; `None` if none is, because the file is empty.
        max: Option<u64>,
    },

    /// [`File::read_exact_at`](crate::File::read_exact_at) was asked for more than the file has. The buffer is undefined.
    #[error("{path} ends at byte {len}: it has not all of the {wanted} bytes from {offset} on", path = .path.display())]
    EndOfFile {
        /// The file.
        path: PathBuf,
        /// The first byte that was asked for.
        offset: u64,
        /// How many bytes were asked for.
        wanted: u64,
        /// The file's length when it was met.
        len: u64,
    },

    /// The file can't become so long, or this process may not write so far of it. The message says why. Nothing was changed.
    #[error("{path} can't have {given} bytes: {limit}", path = .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The length that it would have got, or the end of what was to be written, in bytes.
        given: u64,
        /// What keeps it from that.
        limit: LengthLimit,
    },

    /// A block device can't change its length, and nothing can be written behind its end. Nothing was changed.
    #[error("{path} is a block device of {len} bytes: it can't become {given} bytes long")]
    FixedLength {
        /// The device.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The length that it would have got, in bytes.
        given: u64,
    },

    /// The file was opened for reading only, or the mapping made for that. Open it for writing, and map it so.
    #[error("{path} is open or mapped for reading only: {WRITABLE}")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },

    /// The device could not read. The page is not in memory; a later read asks the device again.
    #[error("can't read {path} at offset {offset}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
        /// The device's answer.
        source: io::Error,
    },

    /// The device could not write. What it lacks stays in memory, dirty and readable, and is tried again; every
    /// sync of the file fails until it is written, and when it is too much so do writes. Free space or mend the device,
    /// then sync again; or give it up with [`File::discard_unwritten`](crate::File::discard_unwritten).
    #[error("can't write {path}: {source}; its changes are kept in memory")]
    Write {
        /// The file.
        path: PathBuf,
        /// The device's answer.
        source: io::Error,
    },

    /// Bytes that were written through [`File::write_promised`](crate::File::write_promised) can't be written, and pages
    /// that can't be written leave no room for them in memory: they are lost, and the file is there as it was without them.
    /// Free space or mend the device, then write them again.
    #[error(
        "bytes {start} to {end} of {path} could not be kept in memory and are lost: {source}", path = .path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// The first byte.
        start: u64,
        /// The byte behind the last one.
        end: u64,
        /// The device's answer.
        source: io::Error,
    },

    /// A page that was read is not as it was written, says the check that the file was opened with. The page is not in
    /// memory; a later read asks the device again. Restore the page from elsewhere.
    #[error("page {page} of {path} is not as it was written: {what}", path = .path.display())]
    Check {
        /// The file.
        path: PathBuf,
        /// The number of the page.
        page: u64,
        /// What the check said.
        what: String,
    },

    /// The log that pages of the file wait for can't be made durable, so they can't be written. They stay in memory,
    /// dirty and readable, and every sync of the file asks the log again. Mend the log, then sync.
    #[error("can't write {path}, whose pages wait for their log: {source}; its changes are kept in memory", path = .path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the log's callback said.
        source: io::Error,
    },

    /// A page was given an order, but its file has no log. Open it with one.
    #[error("{path} was opened without a log: {LOG}", path = .path.display())]
    NoLog {
        /// The file.
        path: PathBuf,
    },

    /// The device could not make durable what it had taken. Unless it keeps that, it is unknown what it holds: the error
    /// is latched until the file is closed and opened again, as a later success would mean nothing.
    #[error("can't make {path} durable: {source}; {}", after_sync(*.is_kept, errno_of(.source)))]
    Sync {
        /// The file.
        path: PathBuf,
        /// The device's answer.
        source: io::Error,
        /// Whether the device keeps it ([`Device::keeps_unsynced`](crate::device::Device::keeps_unsynced)): sync again.
        is_kept: bool,
    },

    /// No frame can be had, or no more pages may be dirtied, though the cache waited: too many pages are held by guards
    /// at a time. Drop guards or raise the budget, or the option `alloc_timeout`.
    #[error("no frame of {frames} became free in {:.3} s: {MORE_FRAMES}", waited.as_secs_f64())]
    NoFrames {
        /// Frames of the pool.
        frames: u64,
        /// How long it waited.
        waited: Duration,
    },

    /// The call would wait for a guard that its own thread has, for ever. Nothing was done. Drop the guard first, or copy what
    /// is needed of it. A guard is the thread's that made it, until another thread looks at its bytes; an owned one may
    /// be elsewhere before that, so the call waits two seconds for it first.
    #[error("page {page} of {path} is in a guard of the calling thread, which would wait for itself: {LET_GO}", path = .path.display())]
    OwnGuard {
        /// The file.
        path: PathBuf,
        /// The number of the page.
        page: u64,
    },

    /// A thread of the cache has died, or something inside is not as it must be. Nothing of the cache can be trusted; what
    /// was synced is on the device. Drop the cache, open the files again, report the message.
    #[error("the cache is unusable: {why}")]
    Poisoned {
        /// What happened.
        why: String,
    },

    /// This process is a forked child of the one that has the cache, and has neither its threads nor its memory.
    #[error(
        "the cache is the parent's: a forked child has neither its threads nor its memory; make a cache here, or start \
         processes anew instead of forking them"
    )]
    Forked,

    /// The tokio runtime has not made the call, since it is ending. Nothing was done.
    #[cfg(feature = "tokio")]
    #[error("the runtime has not made the call: {source}; make it before the runtime ends")]
    Runtime {
        /// What the runtime says.
        source: io::Error,
    },

    /// The cache's thread or its device can't be set up. The message says what the system refused.
    #[error("can't set up the cache: {what}: {source}")]
    Setup {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;

impl From<MemoryRefusal> for Error {
    fn from(refusal: MemoryRefusal) -> Error {
        match refusal {
            MemoryRefusal::Limit { given, limit } => Error::MemoryLimit { given, limit },
            MemoryRefusal::Machine { given, machine } => Error::MemoryOfMachine { given, machine },
            MemoryRefusal::Tables { given, tables, free } => Error::MemoryForTables { given, tables, free },
        }
    }
}

impl Error {
    /// The system's error number, where there is one: what a system call would have said that was refused for the same.
    pub fn errno(&self) -> i32 {
        match self {
            // A file can't be so long, as of a file system with such a limit.
            Error::OutOfRange {
                what: "length" | "offset",
                ..
            } => libc::EFBIG,
            Error::Option(_) | Error::BudgetTooSmall { .. } | Error::OutOfRange { .. } => libc::EINVAL,
            Error::Setting(_) | Error::NoLog { .. } | Error::NoSwap | Error::RegionRange { .. } => {
                libc::EINVAL
            }
            // As mmap(2) of no bytes.
            Error::SwapTooSmall { given: 0, .. } => libc::EINVAL,
            Error::SwapTooSmall { .. } => libc::ENOMEM,
            Error::ReadOnly { .. } => libc::EBADF,
            Error::EndOfFile { .. } => libc::ENODATA,
            // As ftruncate(2) of a block device, and as a write behind its end.
            Error::FixedLength { len, given, .. } if given < len => libc::EINVAL,
            Error::FixedLength { .. } => libc::ENOSPC,
            Error::TooLong { .. } => libc::EFBIG,
            Error::OwnGuard { .. } => libc::EDEADLK,
            // As Linux says of what fails a file system's own checksums (`EFSBADCRC`).
            Error::Check { .. } => libc::EBADMSG,
            Error::NoFrames { .. }
            | Error::MemoryLimit { .. }
            | Error::MemoryOfMachine { .. }
            | Error::MemoryForTables { .. } => libc::ENOMEM,
            Error::Poisoned { .. } | Error::Forked => libc::EIO,
            Error::Open { source, .. }
            | Error::Read { source, .. }
            | Error::Write { source, .. }
            | Error::Lost { source, .. }
            | Error::Log { source, .. }
            | Error::Control { source, .. }
            | Error::Trace { source, .. }
            | Error::Metrics { source, .. }
            | Error::Sync { source, .. }
            | Error::Swap { source, .. }
            | Error::Setup { source, .. } => errno_of(source),
            #[cfg(feature = "tokio")]
            Error::Runtime { .. } => libc::ECANCELED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code that looks for a full disk found no number, and a number was lost where an error went through two of ours.
    #[test]
    fn the_number_of_an_error_is_found_wherever_it_went() {
        let check = || Error::Check {
            path: PathBuf::from("file"),
            page: 3,
            what: "stale".into(),
        };
        let full = |source| Error::Write {
            path: PathBuf::from("file"),
            source,
        };
        for errno in [
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EIO,
            libc::EFBIG,
            libc::EROFS,
            libc::ESTALE,
        ] {
            let system = io::Error::from_raw_os_error(errno);
            let (kind, error) = (system.kind(), io::Error::from(full(system)));
            assert_eq!((error.kind(), Error::errno_of(&error)), (kind, errno));
            let twice = again(&again(&io::Error::from(full(error))));
            assert_eq!((twice.kind(), Error::errno_of(&twice)), (kind, errno), "{twice}");
        }
        // No kind stands for it.
        let error = full(io::Error::from(check()));
        assert_eq!(error.errno(), libc::EBADMSG);
        assert_eq!(Error::errno_of(&again(&error.into())), libc::EBADMSG);
        assert_eq!(
            Error::errno_of(&io::ErrorKind::QuotaExceeded.into()),
            libc::EDQUOT
        );
    }

    #[test]
    fn each_error_has_the_number_that_a_system_call_would_give_for_the_same() {
        let (path, source) = (PathBuf::from, io::Error::from);
        let busy = Error::Swap {
            path: path("swap"),
            source: source(io::ErrorKind::ResourceBusy),
        };
        let out_of_range = |what| Error::OutOfRange {
            path: path("file"),
            what,
            given: u64::MAX,
            max: None,
        };
        let region = |given| Error::SwapTooSmall {
            given,
            left: 4096,
            swap: 4096,
        };
        let fixed = |given| Error::FixedLength {
            path: path("disk"),
            len: 4096,
            given,
        };
        for (error, errno) in [
            (busy, libc::EBUSY),
            (out_of_range("length"), libc::EFBIG),
            (out_of_range("page"), libc::EINVAL),
            (region(0), libc::EINVAL),
            (region(8192), libc::ENOMEM),
            (fixed(0), libc::EINVAL),
            (fixed(8192), libc::ENOSPC),
        ] {
            assert_eq!(error.errno(), errno, "{error}");
        }
    }
}
