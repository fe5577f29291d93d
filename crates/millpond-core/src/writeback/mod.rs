//! Which dirty pages leave next, and how many at once.

pub mod cluster;
mod file;
pub mod flusher;

use crate::units::{Bytes, Nanos, PageIndex};

/// The most that a small fsync writes: what a log has to sync at a time, hardly ever a writer of bulk.
pub(crate) const SMALL_FSYNC_MAX: Bytes = Bytes::from_kib(256);

/// Pages of a file that follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first.
    pub first: PageIndex,
    /// How many.
    pub count: u64,
}

impl PageRun {
    pub(crate) fn iter(self) -> impl Iterator<Item = PageIndex> {
        (0..self.count).map(move |n| self.first.after(n))
    }
}

/// Names a request for durability. The driver chooses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SyncTicket(pub u64);

/// The settings of the flusher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlusherOptions {
    /// The largest write, unless the device says another. Default 1 MiB.
    pub write_max: Bytes,
    /// How much of a file is written before it is another file's turn. Default 64 MiB, about
    /// half a second of a rotating disk, which is Linux' measure since 3.2. With 16 MiB 50 files of 40 MiB take the modelled
    /// disk 18.31 s, with this 17.48 s, the rate of its medium.
    pub slice: Bytes,
    /// A file whose first dirty page is older than this is written whatever the limits say. Default 30 s
    /// (Linux: `dirty_expire_centisecs`).
    pub expire: Nanos,
    /// Whether runs of `write_max` that a sequential writer has filled leave at once, before any limit asks for
    /// it (Dillon 2000: detected sequential writes are issued asynchronously at once). Default true.
    pub write_behind: bool,
    /// After a page's write has failed it is left alone for so long; then one of the file's failed pages is tried, and
    /// all of them if it can be written, else the time is doubled, up to 30 s. A request for durability tries all at
    /// once all the same. 1 ms to 30 s, as exact as a tick (0.1 s); default 1 s.
    pub retry: Nanos,
}

impl Default for FlusherOptions {
    fn default() -> Self {
        FlusherOptions {
            write_max: Bytes::from_mib(1),
            slice: Bytes::from_mib(64),
            expire: Nanos::from_secs(30),
            write_behind: true,
            retry: Nanos::from_secs(1),
        }
    }
}

/// The shortest time between two tries of a page that can't be written.
pub const RETRY_MIN: Nanos = Nanos::from_millis(1);
/// The longest.
pub const RETRY_MAX: Nanos = Nanos::from_secs(30);
