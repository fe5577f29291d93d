//! Which dirty pages to write next, and how many at once.

pub mod cluster;
mod file;
pub mod flusher;

use crate::units::{Bytes, Nanos, PageIndex};

/// The most bytes of a small fsync: what a log syncs at a time, and hardly ever a bulk writer.
pub(crate) const SMALL_FSYNC_MAX: Bytes = Bytes::from_kib(256);

/// Consecutive pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first page.
    pub first: PageIndex,
    /// The number of pages.
    pub count: u64,
}

impl PageRun {
    pub(crate) fn iter(self) -> impl Iterator<Item = PageIndex> {
        (0..self.count).map(move |n| self.first.after(n))
    }
}

/// Names a sync. The driver chooses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SyncTicket(pub u64);

/// The settings of the flusher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlusherOptions {
    /// The largest write, unless the device has its own limit. Default 1 MiB.
    pub write_max: Bytes,
    /// How much of a file is written before another file gets its turn. Default 64 MiB, about half a second of a
    /// rotating disk, Linux's measure since 3.2. On the modeled disk 50 files of 40 MiB take 18.31 s with 16 MiB, and
    /// 17.48 s with 64 MiB, the rate of its medium.
    pub slice: Bytes,
    /// A file whose first dirty page is older than this is written whatever the limits. Default 30 s (Linux:
    /// `dirty_expire_centisecs`).
    pub expire: Nanos,
    /// Whether runs of `write_max` filled by a sequential writer are written immediately, before any limit requires it
    /// (Dillon 2000: detected sequential writes are issued asynchronously at once). Default true.
    pub write_behind: bool,
    /// How long a page is left alone after its write failed. Then one of the file's failed pages is retried: if it can
    /// be written, all are; otherwise the delay doubles, up to 30 s. A sync retries all of them immediately. 1 ms to 30
    /// s, to the precision of a tick (0.1 s). Default 1 s.
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

/// The shortest time between two retries of an unwritable page.
pub const RETRY_MIN: Nanos = Nanos::from_millis(1);
/// The longest time between them.
pub const RETRY_MAX: Nanos = Nanos::from_secs(30);
