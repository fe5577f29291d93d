//! Recording what a cache is asked for, into a file that [`Trace::read`] reads. Public as [`trace`](crate::trace).
//!
//! # How it is recorded
//!
//! ```text
//!   File::read_at, page, write_at, … ──► shards.rs ──► write.rs ──► TRACE ──► read.rs ──► millpond replay
//!                                        buffers       a thread     format.rs
//! ```
//!
//! Calls are recorded, hits and misses alike, not what the state machine is told: only so can another size of
//! memory be tried on them. Without a recording this costs nothing, since calls look at one byte for this and
//! for whether the cache is usable. With one it costs two looks at the clock and a lock of the thread's own a
//! call. What can't be kept is counted and never waited for.

mod format;
mod read;
mod recordings;
mod shards;
mod what;
mod write;

pub(crate) use format::Opened;
pub use read::{Trace, TraceError, TracedFile};
#[cfg(feature = "control")]
pub(crate) use recordings::Progress;
pub(crate) use recordings::Recordings;
pub(crate) use shards::{Note, Shards};
pub use what::What;

use millpond_core::stats::Stats as Counters;
use millpond_core::units::{Nanos, PageKey};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How large a trace becomes at most unless another size is given: about ten million accesses.
pub const TRACE_BYTES_MAX: u64 = 64 << 20;

/// The least that it may: a beginning, an end, and something between them.
pub const TRACE_BYTES_MIN: u64 = 64 << 10;

/// No page of a file has this number.
pub(crate) const PAGES_MAX: u64 = PageKey::PAGES_MAX;

/// What a recording takes from a cache.
pub(crate) trait Calls: Send + Sync {
    /// Where calls leave what is recorded of them.
    fn shards(&self) -> &Shards;
    /// Whether calls are recorded from now on.
    fn set_recorded(&self, recorded: bool);
    /// The counters at this moment.
    fn counters(&self) -> Counters;
}

impl What {
    fn code(self) -> u8 {
        match self {
            What::Read => 0,
            What::Write {
                keeps_first,
                keeps_last,
            } => 1 + u8::from(keeps_first) + 2 * u8::from(keeps_last),
            What::Prefetch => 5,
            What::Sync => 6,
            What::Cut => 7,
            What::Close => 8,
            What::Region => 9,
        }
    }

    fn from_code(code: u8) -> Option<What> {
        Some(match code {
            0 => What::Read,
            1..=4 => What::Write {
                keeps_first: (code - 1) & 1 != 0,
                keeps_last: (code - 1) & 2 != 0,
            },
            5 => What::Prefetch,
            6 => What::Sync,
            7 => What::Cut,
            8 => What::Close,
            9 => What::Region,
            _ => return None,
        })
    }

    /// Whether pages were read or written.
    pub fn is_use(self) -> bool {
        matches!(self, What::Read | What::Write { .. } | What::Region)
    }
}

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// When it began.
    pub at: Nanos,
    /// How long it took.
    pub took: Nanos,
    /// Whose it was: a number for each thread.
    pub thread: u32,
    /// The file.
    pub file: u32,
    /// The first page.
    pub page: u64,
    /// How many; 0 where it is about the file.
    pub pages: u32,
    /// What.
    pub what: What,
}

/// Why a recording has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It was asked for, or the cache has ended.
    Asked,
    /// The trace is as large as it may be.
    Size,
    /// It could not be written any more: the disk is full. What was written before is whole.
    Failed(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Asked => f.write_str("asked"),
            Ended::Size => f.write_str("size"),
            Ended::Failed(why) => f.write_str(why),
        }
    }
}

/// What a recording came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The trace.
    pub path: PathBuf,
    /// Accesses in it.
    pub accesses: u64,
    /// Accesses that are not in it because the disk, or the thread that writes, was too slow.
    pub lost: u64,
    /// Its length.
    pub bytes: u64,
    /// For how long.
    pub took: Duration,
    /// Why it has ended.
    pub ended: Ended,
}
