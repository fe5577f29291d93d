//! Waits for something other than a device: a page held by a guard, a log, the closing of a file's last handle.
//!
//! ```text
//!   a wait has lasted for 10 ms, or is one for a log ──► listed, with its file, cause and thread ──► ends: forgotten
//!                                                          │ `limit` later, and after 2, 4, 8 ... times as long
//!                                                          ▼
//!                                                       a Warning
//! ```
//!
//! The watchdog checks these waits like transfers. Only the program can end such a wait, by dropping a guard or
//! advancing a log.

use super::warning::Warning;
use super::watched::{Watched, due_ns};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An event that a call waits for and only the program can cause.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Awaited {
    /// A page that a thread holds, through a guard ([`PageRef`](crate::PageRef), [`PageMut`](crate::PageMut)) or during
    /// a call.
    Page {
        /// Its number.
        page: u64,
    },
    /// A sync waits for pages that guards hold for writing; this is the first of them.
    Changed {
        /// Its number.
        page: u64,
    },
    /// A page of a mapping that a device writes into: a transfer in flight, or memory registered with a ring.
    Transfer {
        /// Its number.
        page: u64,
    },
    /// The log of the file's pages becomes durable up to a record.
    Log {
        /// The record.
        wanted: u64,
        /// The record up to which it is durable.
        durable: u64,
    },
    /// The last handle of the file, which is being dropped, has written the file.
    Close,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Page { page } => write!(
                f,
                "page {page}, held by a guard, maybe one of the waiting thread or task: drop its guards"
            ),
            Awaited::Changed { page } => {
                write!(
                    f,
                    "page {page} to be written, which a guard is changing: drop its guard"
                )
            }
            Awaited::Transfer { page } => write!(
                f,
                "page {page} of a mapping, which a device may write to: end its transfers, unregister its buffers"
            ),
            Awaited::Log { wanted, durable } => {
                write!(
                    f,
                    "the log, durable up to record {durable}, to become durable up to {wanted}: advance it"
                )
            }
            Awaited::Close => f.write_str("its last handle, which is being dropped"),
        }
    }
}

/// Those that are listed.
#[derive(Default)]
pub(super) struct Waits {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    waits: HashMap<u64, Waiting>,
    next: u64,
}

struct Waiting {
    path: PathBuf,
    awaited: Awaited,
    thread: String,
    began_ns: u64,
    warned: u32,
}

impl Waits {
    /// Lists the calling thread, which waits since `began_ns`. The number of its wait.
    pub(super) fn begin(&self, path: &Path, awaited: Awaited, began_ns: u64) -> u64 {
        let thread = std::thread::current();
        let id = rustix::thread::gettid().as_raw_nonzero();
        let thread = match thread.name() {
            Some(name) => format!("{id} ({name})"),
            None => id.to_string(),
        };
        let mut list = self.list.lock();
        list.next += 1;
        let number = list.next;
        let waiting = Waiting {
            path: path.to_owned(),
            awaited,
            thread,
            began_ns,
            warned: 0,
        };
        list.waits.insert(number, waiting);
        number
    }

    pub(super) fn end(&self, number: u64) {
        self.list.lock().waits.remove(&number);
    }

    /// Narrows what is being waited for.
    pub(super) fn is_for(&self, number: u64, awaited: Awaited) {
        if let Some(waiting) = self.list.lock().waits.get_mut(&number) {
            waiting.awaited = awaited;
        }
    }

    /// Warns of those that are overdue, into `warnings`. When the next one will be.
    pub(super) fn look(&self, limit_ns: u64, now_ns: u64, warnings: &mut Vec<Warning>) -> u64 {
        let mut next = u64::MAX;
        for waiting in self.list.lock().waits.values_mut() {
            let due = |warned| due_ns(waiting.began_ns, limit_ns, warned);
            if due(waiting.warned) <= now_ns {
                warnings.push(Warning::Waiting {
                    path: waiting.path.clone(),
                    awaited: waiting.awaited,
                    thread: waiting.thread.clone(),
                    waited: Duration::from_nanos(now_ns - waiting.began_ns),
                });
            }
            while due(waiting.warned) <= now_ns {
                waiting.warned += 1;
            }
            next = next.min(due_ns(waiting.began_ns, limit_ns, waiting.warned));
        }
        next
    }

    /// How long the longest present wait has taken: for a page that a thread holds, and for a log.
    pub(super) fn longest_ns(&self, now_ns: u64) -> (u64, u64) {
        let (mut hand, mut log) = (0, 0);
        for waiting in self.list.lock().waits.values() {
            let waited = now_ns.saturating_sub(waiting.began_ns);
            let longest = match waiting.awaited {
                Awaited::Log { .. } => &mut log,
                _ => &mut hand,
            };
            *longest = waited.max(*longest);
        }
        (hand, log)
    }
}

impl Watched {
    /// The calling thread waits, for what only the program can end, since `since`; until the answer is dropped.
    pub(crate) fn waits(&self, path: &Path, awaited: Awaited, since: Duration) -> Wait<'_> {
        let began_ns = self.now_ns().saturating_sub(since.as_nanos() as u64);
        let number = self.waits.begin(path, awaited, began_ns);
        self.look_in_time(began_ns);
        Wait {
            watched: self,
            number,
        }
    }

    /// How long the longest present wait for a page that a thread holds has taken, and that for a
    /// log.
    pub(crate) fn longest_waits(&self) -> (Duration, Duration) {
        let (hand, log) = self.waits.longest_ns(self.now_ns());
        (Duration::from_nanos(hand), Duration::from_nanos(log))
    }
}

/// A wait that the watchdog knows of.
pub(crate) struct Wait<'a> {
    watched: &'a Watched,
    number: u64,
}

impl Wait<'_> {
    /// Narrows what is being waited for.
    pub(crate) fn is_for(&self, awaited: Awaited) {
        self.watched.waits.is_for(self.number, awaited);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.watched.waits.end(self.number);
    }
}
