//! What a user is told though no call fails.

use super::waits::Awaited;
use super::watched::Asked;
use millpond_core::io::Reason;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Something that a user should know of though no call fails. For [`Builder::on_warning`](crate::Builder::on_warning);
/// as text it is one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A device has not answered for long. It is said again when it has taken twice as long, and so on. What waits for
    /// the answer goes on waiting: whether it ever comes only the device knows.
    Overdue {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// What was asked.
        asked: Asked,
        /// Why, of a read or write of a cache's.
        reason: Option<Reason>,
        /// The pages of a read or write.
        pages: Option<Range<u64>>,
        /// How long ago.
        waited: Duration,
    },
    /// A call has waited for long for something that only the program can end: a guard that is dropped, a log that
    /// advances. It is said again when it has taken twice as long, and so on.
    Waiting {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// What it waits for.
        awaited: Awaited,
        /// The thread that waits: its number, and its name if it has one.
        thread: String,
        /// How long it has waited.
        waited: Duration,
    },
    /// A page of a region is lost. A thread that touches it gets `SIGBUS`, or `EFAULT` from a system call,
    /// until it is given up with [`RegionAdvice::DontNeed`](crate::RegionAdvice::DontNeed).
    PageLost {
        /// The page.
        page: u64,
        /// What happened.
        why: String,
    },
    /// The program has locked memory of a region (`mlock`, `mlockall`), whose pages have to leave when others are needed: it
    /// is not locked any more.
    RegionUnlocked,
    /// A page of a file that a thread has touched in a mapping can't be read: the thread gets `SIGBUS`, or `EFAULT` from a
    /// system call. The touch after that asks the device again.
    Unreadable {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What happened.
        why: String,
    },
    /// A thread that stores to a clean page of a mapping waits: more of the file can't be written than the option `dirty.failed`
    /// allows. It goes on when some was written, or given up ([`File::discard_unwritten`](crate::File::discard_unwritten)). Said
    /// once each time that the file comes there.
    StoresWait {
        /// The file, by the path that it was opened by.
        path: PathBuf,
        /// What the device said last.
        why: String,
    },
    /// The system has no memory for its own part in bringing a page of a region or a mapped file back: a thread that touches
    /// one waits until there is some. Said once.
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
                    "memory of a region was locked (mlock) and is not any more: its pages leave when memory is needed; \
                     what must stay belongs elsewhere",
                );
            }
            Warning::NoMemory { page } => {
                return write!(
                    f,
                    "the system has no memory to bring page {page} of a region or a mapped file back: a thread that touches it waits until it has"
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
                    "a thread that has touched byte {offset} of {}, which is mapped, gets SIGBUS: {why}",
                    path.display()
                );
            }
            Warning::StoresWait { path, why } => {
                return write!(
                    f,
                    "threads that store to {}, which is mapped, wait until some of it was written or is given up: {why}",
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

/// What a transfer is for, in a sentence.
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

/// One line on standard error. If it can't be written there, that is no error.
pub(crate) fn to_stderr(warning: &Warning) {
    let _ = writeln!(io::stderr().lock(), "millpond: {warning}");
}
