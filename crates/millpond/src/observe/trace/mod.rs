//! Recording the calls made to a cache into a file that [`Trace::read`] reads. Public as [`trace`](crate::trace).
//!
//! # How recording works
//!
//! ```text
//!   File::read_at, page, write_at, … ──► shards.rs ──► write.rs ──► TRACE ──► read.rs ──► millpond replay
//!                                        buffers       a thread     format.rs
//! ```
//!
//! It records calls, both hits and misses, rather than the state machine's events, because only calls can be replayed
//! against another memory size. Without a recording this costs nothing: calls check one byte both for this and for
//! whether the cache is usable. With a recording, a call costs two clock reads and a lock of the thread's own. Calls
//! that can't be kept are counted, never waited for.

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

/// The default maximum size of a trace: about ten million accesses.
pub const TRACE_BYTES_MAX: u64 = 64 << 20;

/// The smallest allowed maximum: room for a beginning, an end, and something between them.
pub const TRACE_BYTES_MIN: u64 = 64 << 10;

/// No page of a file has this number.
pub(crate) const PAGES_MAX: u64 = PageKey::PAGES_MAX;

/// What a recording needs from a cache.
pub(crate) trait Calls: Send + Sync {
    /// The buffers in which calls leave their records.
    fn shards(&self) -> &Shards;
    /// Turns the recording of calls on or off.
    fn set_recorded(&self, recorded: bool);
    /// Returns the current counters.
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

    /// Returns whether pages were read or written.
    pub fn is_use(self) -> bool {
        matches!(self, What::Read | What::Write { .. } | What::Region)
    }
}

/// A recorded call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The time at which it began.
    pub at: Nanos,
    /// Its duration.
    pub took: Nanos,
    /// The number of the calling thread.
    pub thread: u32,
    /// The file.
    pub file: u32,
    /// The first page.
    pub page: u64,
    /// The number of pages; 0 for calls that concern the file.
    pub pages: u32,
    /// The kind of call.
    pub what: What,
}

/// Why a recording ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It was stopped, or the cache was dropped.
    Asked,
    /// The trace reached its maximum size.
    Size,
    /// Writing failed, for example because the disk is full. What was written before is complete.
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

/// The result of a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The trace.
    pub path: PathBuf,
    /// The number of accesses in it.
    pub accesses: u64,
    /// The number of accesses missing from it because the disk or the writer thread was too slow.
    pub lost: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The duration of the recording.
    pub took: Duration,
    /// Why it ended.
    pub ended: Ended,
}
