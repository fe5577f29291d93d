//! The error type of all calls.

mod source;
pub(crate) mod told;

pub(crate) use source::{again, errno_of};

use crate::device::LengthLimit;
use crate::error::told::{
    LESS_MEMORY, LET_GO, LOG, MORE_FRAMES, MORE_SWAP, SOCKET, SWAP, after_log, after_sync, after_write,
    allowed, no_frames, writable,
};
use crate::host::{MemoryLimit, MemoryRefusal};
use crate::settings::SettingError;
use crate::size::{Size, apart};
use millpond_core::options::OptionError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failed call. The message names the problem, the offending value and the remedy. `Display` names the remedy in
/// terms of the Rust API; [`Error::told`] does so for other interfaces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of range. Nothing was changed. Choose a value within the range.
    #[error("{0}")]
    Option(#[from] OptionError),

    /// A setting given by name is unknown or its value is invalid. Nothing was changed. The message says what is
    /// allowed.
    #[error("{0}")]
    Setting(#[from] SettingError),

    /// The control socket can't be opened. The message gives the reason: another cache listens there, or the folder
    /// belongs to another user.
    #[error("can't open the control socket {path}: {source}; {SOCKET}", path = .path.display())]
    Control {
        /// The socket's path.
        path: PathBuf,
        /// The system's error, or the obstacle.
        source: io::Error,
    },

    /// Recording calls into this file failed. The message gives the reason: the file already exists, the disk is full,
    /// another recording is in progress. The part of a trace that was written can be read.
    #[error("can't record into {path}: {source}", path = .path.display())]
    Trace {
        /// The trace.
        path: PathBuf,
        /// The system's error, or the obstacle.
        source: io::Error,
    },

    /// The metrics can't be served at this address: it is in use, or does not belong to this host.
    #[error("can't serve metrics at {address}: {source}; give another address or port")]
    Metrics {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        source: io::Error,
    },

    /// The budget is too small for the smallest pool of frames and the I/O buffers.
    #[error(
        "a budget of {} is too small: at least {} are needed with pages of {}",
        Size(*.given), Size::enough(*.min), Size(*.page_size)
    )]
    BudgetTooSmall {
        /// The requested size, in bytes.
        given: u64,
        /// The smallest budget that works, in bytes.
        min: u64,
        /// The page size, in bytes.
        page_size: u64,
    },

    /// The budget is above a control group's limit for this process, so the kernel would eventually kill it. Use a
    /// smaller budget, raise the limit, or allow it with
    /// [`Builder::memory_beyond_limit`](crate::Builder::memory_beyond_limit).
    #[error(
        "a budget of {} is above the memory limit of {limit}: raise {} or {LESS_MEMORY}",
        Size(*.given), .limit.file.display()
    )]
    MemoryLimit {
        /// The requested size, in bytes.
        given: u64,
        /// The limit.
        limit: MemoryLimit,
    },

    /// The budget is more than the machine's memory, so the kernel would kill a process before it is full. Use a
    /// smaller budget, or allow it with [`Builder::memory_beyond_limit`](crate::Builder::memory_beyond_limit).
    #[error(
        "a budget of {} is more than this machine's {}: {LESS_MEMORY}",
        apart(*.given, *.machine), apart(*.machine, *.given)
    )]
    MemoryOfMachine {
        /// The requested size, in bytes.
        given: u64,
        /// The machine's memory, in bytes.
        machine: u64,
    },

    /// The budget was allowed to exceed a limit, but even its tables, which are allocated at the start, do not fit. Use
    /// a smaller budget.
    #[error(
        "a budget of {} needs tables of {}, and only {} are free: ask for less",
        Size(*.given), Size(*.tables), Size(*.free)
    )]
    MemoryForTables {
        /// The requested size, in bytes.
        given: u64,
        /// The size of the tables for its frames, in bytes.
        tables: u64,
        /// The memory that the machine or a control group has left, in bytes.
        free: u64,
    },

    /// The file can't be opened. The message gives the reason: it does not exist, may not be read, is a directory.
    #[error("can't open {path}: {source}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The swap file can't be used. The message gives the reason: it is in use, contains other data, or has no space.
    #[error("can't use {path} for swap: {source}")]
    Swap {
        /// The path as given.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// A region was requested from a cache without a swap file.
    #[error("regions need a swap file: {SWAP}")]
    NoSwap,

    /// The region does not fit: all regions of a cache together must fit into its swap space, so that swap can never
    /// fill up.
    #[error(
        "a region of {} is out of range: {} of {} of swap are left for regions; must be 1 to {left} bytes; {MORE_SWAP}",
        Size(*.given), Size(*.left), Size(*.swap)
    )]
    SwapTooSmall {
        /// The requested size, in bytes.
        given: u64,
        /// The swap space that no region uses, in bytes.
        left: u64,
        /// The total swap space, in bytes.
        swap: u64,
    },

    /// The byte range does not lie within the region.
    #[error("bytes {start} to {end} of a region are out of range: it has {len}")]
    RegionRange {
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
        /// The region's length.
        len: u64,
    },

    /// The offset, length or page lies beyond the maximum of any file, or beyond the end of this one.
    #[error("{what} {given} of {path} is out of range: {}", allowed(.max))]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// What is out of range, such as `offset`, `page` or `length`.
        what: &'static str,
        /// The requested value.
        given: u64,
        /// The largest allowed value; `None` if no value is allowed because the file is empty.
        max: Option<u64>,
    },

    /// [`File::read_exact_at`](crate::File::read_exact_at) reached the end of the file before it had filled the buffer,
    /// whose contents are undefined.
    #[error("{path} ends at byte {len}: not all of the {wanted} bytes from offset {offset} exist", path = .path.display())]
    EndOfFile {
        /// The file.
        path: PathBuf,
        /// The first byte requested.
        offset: u64,
        /// The number of bytes requested.
        wanted: u64,
        /// The file's length at the time.
        len: u64,
    },

    /// The file can't have this length, or this process may not write that far into it. The message gives the reason.
    /// Nothing was changed.
    #[error("{path} can't have {given} bytes: {limit}", path = .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The requested length, or the end of the bytes to write, in bytes.
        given: u64,
        /// The limit.
        limit: LengthLimit,
    },

    /// A block device can't change its length, and nothing can be written past its end. Nothing was changed.
    #[error("{path} is a block device of {len} bytes: it can't become {given} bytes long")]
    FixedLength {
        /// The device.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The requested length, in bytes.
        given: u64,
    },

    /// The file or mapping is read-only. Open the file for writing, and map it as writable.
    #[error("{path} is {} for reading only: {}", if *.is_mapping { "mapped" } else { "open" }, writable(*.is_mapping))]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// Whether the mapping is read-only, or the handle.
        is_mapping: bool,
    },

    /// The device could not read. The page is not in memory; a later read asks the device again.
    #[error("can't read {path} at offset {offset}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The offset, in bytes.
        offset: u64,
        /// The device's error.
        source: io::Error,
    },

    /// The device could not write. While a handle of the file is open, the unwritten pages stay in memory, dirty and
    /// readable, and the cache retries them. Every sync of the file fails until they are written, and writes fail too
    /// once there are too many. Free space or repair the device and sync again, or discard the changes with
    /// [`File::discard_unwritten`](crate::File::discard_unwritten).
    #[error("can't write {path}: {source}; {}", after_write(*.is_kept))]
    Write {
        /// The file.
        path: PathBuf,
        /// The device's error.
        source: io::Error,
        /// Whether the pages stay in memory. If not, the last handle of the file was dropped, and with it what it
        /// could not write: the error comes from [`PageCache::take_lost`](crate::PageCache::take_lost), or from a
        /// [`CloseError`](crate::CloseError) that was converted.
        is_kept: bool,
    },

    /// Bytes passed to [`File::write_promised`](crate::File::write_promised) can't be written, and unwritable pages
    /// leave no room for them in memory. They are lost, and the file is as it was without them. Free space or repair
    /// the device, then write them again.
    #[error(
        "bytes {start} to {end} of {path} could not be kept in memory and are lost: {source}", path = .path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
        /// The device's error.
        source: io::Error,
    },

    /// The file's check rejected a page that was read: its content differs from what was written. The page is not in
    /// memory; a later read asks the device again. Restore the page from elsewhere.
    #[error("page {page} of {path} is not as it was written: {what}", path = .path.display())]
    Check {
        /// The file.
        path: PathBuf,
        /// The number of the page.
        page: u64,
        /// The check's message.
        what: String,
    },

    /// The log that pages of the file depend on can't be made durable, so they can't be written. While a handle of the
    /// file is open, they stay in memory, dirty and readable, and every sync of the file asks the log again. Repair the
    /// log, then sync.
    #[error(
        "can't write {path}, whose pages wait for their log: {source}; {}", after_log(*.is_kept), path = .path.display()
    )]
    Log {
        /// The file.
        path: PathBuf,
        /// The error from the log's callback.
        source: io::Error,
        /// Whether the pages stay in memory, as in [`Error::Write`].
        is_kept: bool,
    },

    /// A page was given an order, but its file has no log. Open the file with one.
    #[error("{path} was opened without a log: {LOG}", path = .path.display())]
    NoLog {
        /// The file.
        path: PathBuf,
    },

    /// The device could not make durable the writes that it had accepted. If it does not keep them, its content is
    /// unknown. The error is then latched until all handles of the file are dropped, because a later success would
    /// prove nothing; [`File::close`](crate::File::close) fails too. The last drop gives the doubt up without a record:
    /// open the file again and check what it holds before you go on.
    #[error("can't make {path} durable: {source}; {}", after_sync(*.is_kept, errno_of(.source)))]
    Sync {
        /// The file.
        path: PathBuf,
        /// The device's error.
        source: io::Error,
        /// Whether the device keeps the writes ([`Device::keeps_unsynced`](crate::device::Device::keeps_unsynced)). If
        /// so, sync again.
        is_kept: bool,
    },

    /// The cache waited, but no frame became free or no dirty page was written, because guards hold too many pages.
    /// Drop guards, or raise the budget or the option `alloc_timeout`; for dirty pages, also `dirty.hard`.
    #[error("{} in {:.3} s: {MORE_FRAMES}", no_frames(*.frames, .dirty), waited.as_secs_f64())]
    NoFrames {
        /// The number of frames in the pool.
        frames: u64,
        /// The time the call waited.
        waited: Duration,
        /// For a change that waited for the limit on dirty pages: the number of dirty pages, and the limit
        /// (`dirty.hard`) in pages. `None` for a call that waited for a frame.
        dirty: Option<(u64, u64)>,
    },

    /// The call would wait forever for a guard that its own thread holds. Nothing was done. Drop the guard first, or
    /// copy what you need from it. A guard belongs to the thread that created it until another thread accesses its
    /// bytes. An owned guard may have moved to another thread before that, so the call first waits two seconds for it.
    #[error(
        "page {page} of {path} is held by a guard of the calling thread, which would wait for itself: {LET_GO}",
        path = .path.display()
    )]
    OwnGuard {
        /// The file.
        path: PathBuf,
        /// The number of the page.
        page: u64,
    },

    /// A thread of the cache has died, or an internal invariant is violated. Nothing in the cache can be trusted;
    /// synced data is on the device. Drop the cache, open the files again, and report the message.
    #[error("the cache is unusable: {why}")]
    Poisoned {
        /// The cause.
        why: String,
    },

    /// This process is a forked child of the one that owns the cache, and has neither the cache's threads nor its
    /// memory.
    #[error(
        "the cache belongs to the parent process: a forked child has neither its threads nor its memory; make a cache here, or start \
         processes anew instead of forking them"
    )]
    Forked,

    /// The tokio runtime is shutting down and did not run the call. Nothing was done.
    #[cfg(feature = "tokio")]
    #[error("the runtime did not run the call: {source}; make the call before the runtime ends")]
    Runtime {
        /// The runtime's error.
        source: io::Error,
    },

    /// A resource of the cache can't be set up: a thread, the device, memory, a region or a mapping. The message says
    /// what the system refused.
    #[error("can't set up the cache: {what}: {source}")]
    Setup {
        /// What the cache tried to set up.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The result type of this crate's calls.
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
    /// Returns the error for changes that are no longer in memory.
    #[doc(hidden)]
    pub fn given_up(mut self) -> Error {
        if let Error::Write { is_kept, .. } | Error::Log { is_kept, .. } = &mut self {
            *is_kept = false;
        }
        self
    }

    /// Returns the system's error number if there is one, otherwise the number with which a system call fails in the
    /// same situation.
    pub fn errno(&self) -> i32 {
        match self {
            // The file can't have that length, as on a file system with such a limit.
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
            // As for ftruncate(2) of a block device, and for a write past its end.
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
mod tests;
