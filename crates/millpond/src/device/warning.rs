//! Warnings: conditions that users should know about although no call fails.

use super::waits::Awaited;
use super::watched::Asked;
use millpond_core::io::Reason;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// A condition that a user should know about although no call fails.
/// [`Builder::on_warning`](crate::Builder::on_warning) receives it; as text it is one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A device has not answered for a long time. The warning repeats each time the wait has doubled. Calls that wait
    /// for the answer continue to wait; only the device knows whether it will come.
    Overdue {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// The operation.
        asked: Asked,
        /// The purpose of a read or write by a cache.
        reason: Option<Reason>,
        /// The pages of a read or write.
        pages: Option<Range<u64>>,
        /// The time since the request.
        waited: Duration,
    },
    /// A call has waited for a long time for something that only the program can provide: a dropped guard, an advancing
    /// log. The warning repeats each time the wait has doubled.
    Waiting {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// The event it waits for.
        awaited: Awaited,
        /// The waiting thread: its number, and its name if it has one.
        thread: String,
        /// The time it has waited.
        waited: Duration,
    },
    /// A page of a region is lost. A thread that touches it gets `SIGBUS`, or `EFAULT` from a system call, until the
    /// page is discarded with [`RegionAdvice::DontNeed`](crate::RegionAdvice::DontNeed).
    PageLost {
        /// The page.
        page: u64,
        /// The cause.
        why: String,
    },
    /// The program locked memory of a region (`mlock`, `mlockall`). The cache has unlocked it, because it must be able
    /// to evict the pages.
    RegionUnlocked,
    /// A thread touched a page of a mapping that can't be read. The thread gets `SIGBUS`, or `EFAULT` from a system
    /// call. The next touch asks the device again.
    Unreadable {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The cause.
        why: String,
    },
    /// A thread that stores to a clean page of a mapping is blocked, because more of the file is unwritable than the
    /// option `dirty.failed` allows. It continues when some of that is written or discarded
    /// ([`File::discard_unwritten`](crate::File::discard_unwritten)). Reported once each time the file reaches that
    /// limit.
    StoresWait {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// The device's latest error.
        why: String,
    },
    /// The kernel has no memory for loading a page of a region or a mapped file. A thread that touches the page waits
    /// until memory is free. Reported once.
    NoMemory {
        /// The page.
        page: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, asked, reason, pages, waited) = match self {
            Warning::Overdue {
                path,
                asked,
                reason,
                pages,
                waited,
            } => (path, asked, reason, pages, waited),
            Warning::RegionUnlocked => {
                return f.write_str(
                    "memory of a region that was locked (mlock) has been unlocked: its pages leave when memory is needed; \
                     keep what must stay resident elsewhere",
                );
            }
            Warning::NoMemory { page } => {
                return write!(
                    f,
                    "the system has no memory to bring back page {page} of a region or a mapped file: a thread that touches it waits until there is some"
                );
            }
            Warning::Waiting {
                path,
                awaited,
                thread,
                waited,
            } => {
                let (path, waited) = (path.display(), waited.as_secs_f64());
                return write!(
                    f,
                    "thread {thread} has been waiting in {path} for {waited:.3} s for {awaited}"
                );
            }
            Warning::Unreadable { path, offset, why } => {
                return write!(
                    f,
                    "a thread that has touched byte {offset} of {} in a mapping gets SIGBUS: {why}",
                    path.display()
                );
            }
            Warning::StoresWait { path, why } => {
                return write!(
                    f,
                    "threads that store to {} in a mapping wait until part of it is written or discarded: {why}",
                    path.display()
                );
            }
            Warning::PageLost { page, why } => {
                return write!(
                    f,
                    "page {page} of a region is lost: {why}; a thread that touches it gets SIGBUS"
                );
            }
        };
        let what = match asked {
            Asked::Read => "a read",
            Asked::Write => "a write",
            Asked::Sync => "a sync",
            Asked::SetLen => "a change of the length",
            Asked::Punch => "a hole",
            Asked::Allocate => "an allocation",
        };
        write!(f, "{what} of {}", path.display())?;
        match pages {
            Some(pages) if pages.end == pages.start + 1 => write!(f, ", page {},", pages.start)?,
            Some(pages) => write!(f, ", pages {} to {},", pages.start, pages.end.saturating_sub(1))?,
            None => {}
        }
        if let Some(reason) = reason {
            write!(f, " {},", purpose(*reason))?;
        }
        write!(
            f,
            " has been waiting for its device for {:.3} s; the cache goes on waiting",
            waited.as_secs_f64()
        )
    }
}

/// Returns the purpose of a transfer as a part of a sentence.
fn purpose(reason: Reason) -> &'static str {
    match reason {
        Reason::Fault => "which a caller waits for",
        Reason::ReadAhead => "ahead of a reader",
        Reason::Background => "in the background",
        Reason::DirtierBlocked => "for a caller that waits to change pages",
        Reason::Reclaim => "to get free memory",
        Reason::Sync => "for a sync",
        Reason::Swap => "to the swap file",
    }
}

/// Prints one line on standard error. Failure to print is ignored.
pub(crate) fn to_stderr(warning: &Warning) {
    let _ = writeln!(io::stderr().lock(), "millpond: {warning}");
}
