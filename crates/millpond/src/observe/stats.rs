//! What a cache has done, and how full it is: the parts of [`Stats`].
//!
//! [`PageCache::stats`](crate::PageCache::stats) takes the core's lock for a moment, so it may be asked many times a second.
//! Counters only grow, and those that Linux has too have its names (`pgscan_direct`, `workingset_refault_file`): read them
//! twice and subtract. As text, a `Stats` is a line for each figure, as `/proc/vmstat`.
//!
//! ```
//! # let cache = millpond::PageCache::builder().build()?;
//! let before = cache.stats().counters;
//! // ... some work ...
//! let now = cache.stats();
//! let (written, dirty) = (now.counters.nr_written - before.nr_written, now.occupancy.dirty.0);
//! println!("{written} pages written, {dirty} dirty");
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! What one call waited for is told by [`explain`](mod@crate::explain), what each disk has done by
//! [`PageCache::devices`](crate::PageCache::devices), and whose pages they are by [`contents`](crate::contents).

pub use millpond_core::dirty::limits::Thresholds;
pub use millpond_core::lru::{RefaultCosts, Statistics as ReplacementCounters};
pub use millpond_core::manager::{Derived, Occupancy, Pressure, Waiting};
pub use millpond_core::memory::watermark::Watermarks;
pub use millpond_core::reuse::{More, ReuseFigures};
pub use millpond_core::stats::Stats as Counters;
use millpond_core::units::{Bytes, Nanos, PageCount};
use std::fmt;
use std::time::Duration;

/// A picture of one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Counters, with the kernel's names where the kernel has them.
    pub counters: Counters,
    /// Counters of the replacement.
    pub replacement: ReplacementCounters,
    /// Pages of files whose content a call has asked for, in memory or not: those that were read or lent, and those that a
    /// write changed a part of. Exact up to 8192 of a file, then to a few per cent. The pages that had to be read for them are [`page_misses`](Counters::page_misses).
    pub page_requests: u64,
    /// How pages of files leave and come back; by file in [`contents`](crate::contents).
    pub reuse_of_files: ReuseFigures,
    /// How pages of regions do.
    pub reuse_of_regions: ReuseFigures,
    /// What refaults of files and of regions cost at present, and whose pages stay longer for it.
    pub refault_costs: RefaultCosts,
    /// How full the pool is and with what.
    pub occupancy: Occupancy,
    /// What writers have before them, and how long reads take at present.
    pub pressure: Pressure,
    /// The threads that wait at this moment.
    pub waiting: Waiting,
    /// The median of the reads of the last seconds that a thread waited for.
    pub read_p50: Option<Nanos>,
    /// What the options come to.
    pub derived: Derived,
    /// Bytes of metadata, of the engine and the core, for which the budget has room: what is known of frames and of dirty
    /// pages, what pages wait for in their logs, and the copies of pages that must stay as they are while they are written
    /// (all of them, also those that are free).
    pub metadata: Bytes,
    /// Whether the frames are in huge pages: hits on a large set are then two to three times as fast.
    pub is_huge: bool,
    /// Slots of the swap file that hold pages of regions.
    pub swap_used: PageCount,
    /// Slots of the swap file; zero without one.
    pub swap_total: PageCount,
    /// Pages of regions that were read ahead and then touched, or stood right behind one that was; those read ahead are
    /// [`swap_ra`](Counters::swap_ra).
    pub swap_ahead_hits: u64,
    /// What the kernel's page tables for regions take at most, beside the budget: 4 KiB for each 2 MiB of addresses in which
    /// a page has been in memory. On x86-64 from Linux 6.14 on those that are empty go when this is more than a 32nd of
    /// memory.
    pub region_tables: Bytes,
    /// Warnings given so far ([`Builder::on_warning`](crate::Builder::on_warning)): each says that something has
    /// been waited for for long, a device, a guard or a log, that a page is lost, or that memory was unlocked.
    pub warnings: u64,
    /// How long the longest call of this moment has waited for a page that another thread holds, or for a
    /// file that is being closed: from 10 ms on.
    pub guard_wait: Duration,
    /// How long the longest call of this moment has waited for the log of its file.
    pub log_wait: Duration,
    /// How long calls have waited for frames.
    pub frame_waits: FrameWaits,
    /// How transfers are made, and why.
    pub device: String,
}

impl Stats {
    /// The share of the pages that calls asked for which memory served: neither read from the device for the call nor ahead
    /// of it, 0 to 1. `None` if none was asked for.
    ///
    /// This is `1 - page_misses / page_requests` since the cache was made; of two `Stats` the same of the differences is that of
    /// the time in between. `cachestat` counts so for the kernel: a scan that is read ahead is no hit. Regions are not in
    /// it, since a touch of memory is not seen.
    pub fn hit_ratio(&self) -> Option<f64> {
        hit_ratio(self.page_requests, self.counters.page_misses)
    }
}

/// The share of `requests` that was served without one of the `misses`.
pub(crate) fn hit_ratio(requests: u64, misses: u64) -> Option<f64> {
    // More may have been read ahead than was asked for yet.
    let served = requests.saturating_sub(misses) as f64;
    (requests > 0).then(|| served / requests as f64)
}

/// How long calls that needed frames have waited for them, because reclaim had none at once. What a call waits because
/// too much is dirty is not among it: [`balance_dirty_pauses`](Counters::balance_dirty_pauses).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FrameWaits {
    /// Calls that have waited.
    pub count: u64,
    /// All together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// The longest that a call has waited while there were pages in memory that the device had, in use or not: reclaim
    /// should have had one of them.
    pub longest_with_clean: Duration,
    /// Time that calls have spent reclaiming for themselves, which is no wait but is not for nothing either.
    pub reclaiming: Duration,
}

/// A line for each figure, its name and its value, as `/proc/vmstat` has them: what is there now, with the kernel's names
/// in pages, and the counters.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (now, waits) = (&self.occupancy, &self.frame_waits);
        let ns = |time: Duration| time.as_nanos() as u64;
        for (name, value) in [
            ("nr_frames", now.frames.0),
            ("nr_free_pages", now.free.0),
            ("nr_active_file", now.active.0),
            ("nr_inactive_file", now.inactive.0),
            ("nr_dirty", now.dirty.0),
            ("nr_writeback", now.writing.0),
            ("nr_failed", now.failed.0),
            ("nr_dirty_threshold", self.derived.dirty.hard.0),
            ("nr_dirty_background_threshold", self.derived.dirty.background.0),
            ("in_transit_writes_bytes", now.in_transit_writes.0),
            ("dirtiers_blocked", now.dirtiers_blocked),
            ("metadata_bytes", self.metadata.0),
            ("swap_used_pages", self.swap_used.0),
            ("swap_total_pages", self.swap_total.0),
            ("swap_ra_hit", self.swap_ahead_hits),
            ("page_requests", self.page_requests),
            ("warnings", self.warnings),
            ("guard_wait_ns", ns(self.guard_wait)),
            ("log_wait_ns", ns(self.log_wait)),
            ("frame_waits", waits.count),
            ("frame_wait_ns", ns(waits.total)),
            ("frame_wait_ns_max", ns(waits.longest)),
            ("frame_wait_clean_ns_max", ns(waits.longest_with_clean)),
            ("direct_reclaim_ns", ns(waits.reclaiming)),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        write!(f, "{}", self.counters)
    }
}

#[cfg(test)]
mod tests {
    use crate::{OpenOptions, PageCache};

    #[test]
    fn as_text_it_has_what_is_there_now_and_what_was_done_by_reason() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let path = folder.path().join("data");
        let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
        file.write_at(&[1; 3 * 4096], 0).unwrap();
        let text = cache.stats().to_string();
        assert!(text.contains("\nnr_dirty 3\n"), "{text}");
        file.sync_data().unwrap();
        let text = cache.stats().to_string();
        for line in [
            "nr_dirty 0",
            "nr_written 3",
            "io_requests_sync 1",
            "io_bytes_sync 12288",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
