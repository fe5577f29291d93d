//! Counters of a cache's work, and its occupancy: the parts of [`Stats`].
//!
//! [`PageCache::stats`](crate::PageCache::stats) takes the core's lock briefly, so it may be called many times a
//! second. Counters are monotonic. Those that Linux also has use its names (`pgscan_direct`,
//! `workingset_refault_file`): read them twice and subtract. As text, a `Stats` is one line per figure, as in
//! `/proc/vmstat`.
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
//! Related: [`explain`](mod@crate::explain) reports what one call waited for,
//! [`PageCache::devices`](crate::PageCache::devices) the work of each disk, and [`contents`](crate::contents) whose
//! pages are in memory.

use super::figures;
pub use millpond_core::dirty::limits::Thresholds;
pub use millpond_core::lru::{RefaultCosts, Statistics as ReplacementCounters};
pub use millpond_core::manager::{Derived, Occupancy, Pressure, Waiting};
pub use millpond_core::memory::watermark::Watermarks;
pub use millpond_core::reuse::{More, ReuseFigures};
pub use millpond_core::stats::Stats as Counters;
use millpond_core::units::{Bytes, Nanos, PageCount};
use std::fmt;
use std::time::Duration;

/// A snapshot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Counters, with the kernel's names where the kernel has them.
    pub counters: Counters,
    /// Counters of page replacement.
    pub replacement: ReplacementCounters,
    /// File pages whose content calls have requested, whether or not they were in memory: pages read or lent, and pages
    /// of which a write changed a part. Exact up to 8192 per file, then to within a few percent.
    /// [`page_misses`](Counters::page_misses) counts the pages that had to be read for them.
    pub page_requests: u64,
    /// Evictions and refaults of file pages; [`contents`](crate::contents) has them by file.
    pub reuse_of_files: ReuseFigures,
    /// Evictions and refaults of region pages.
    pub reuse_of_regions: ReuseFigures,
    /// The current cost of refaults of files and of regions, and which of them reclaim favors for it.
    pub refault_costs: RefaultCosts,
    /// How full the pool is, and with what.
    pub occupancy: Occupancy,
    /// The current state of write admission, and current read latencies.
    pub pressure: Pressure,
    /// The threads that are waiting.
    pub waiting: Waiting,
    /// The median latency of reads in the last seconds that a thread waited for.
    pub read_p50: Option<Nanos>,
    /// The limits derived from the options.
    pub derived: Derived,
    /// The bytes of metadata reserved in the budget, for the engine and the core: the state of frames and dirty pages,
    /// the log positions that pages wait for, and the copies of pages that must stay stable while they are written (all
    /// of them, including free ones).
    pub metadata: Bytes,
    /// Whether frames use huge pages, which makes hits on a large set two to three times as fast.
    pub is_huge: bool,
    /// Pages of a mount's files that the kernel's page cache has too, in the part of the budget that is set aside for them
    /// (`millpond mount --lend`); at most as many. Hits in them are not seen, so they are missing from all other figures.
    pub lent: Bytes,
    /// The slots of swap that hold pages of regions.
    pub swap_used: PageCount,
    /// The slots of swap; zero without a swap file.
    pub swap_total: PageCount,
    /// Region pages that were read ahead and then touched, or directly followed a page that was.
    /// [`swap_ra`](Counters::swap_ra) counts the pages read ahead.
    pub swap_ahead_hits: u64,
    /// The maximum memory of the kernel's page tables for regions, outside the budget: 4 KiB for each 2 MiB of
    /// addresses in which a page has been in memory. On x86-64 from Linux 6.14 on, empty tables are freed when this
    /// exceeds a 32nd of memory.
    pub region_tables: Bytes,
    /// The number of warnings so far ([`Builder::on_warning`](crate::Builder::on_warning)). Each reports a long wait
    /// for a device, a guard or a log, a lost or unreadable page, blocked stores, lack of memory, or unlocked memory.
    pub warnings: u64,
    /// The longest current wait for a page that another thread holds, or for a file that is being closed, if it is at
    /// least 10 ms.
    pub guard_wait: Duration,
    /// The longest current wait for the log of a file.
    pub log_wait: Duration,
    /// The waits of calls for frames.
    pub frame_waits: FrameWaits,
    /// How transfers are performed, and why.
    pub device: String,
}

impl Stats {
    /// Returns the value of a figure by its name in `Stats` as text: `pswpin`, `nr_dirty`, `io_bytes_sync`. `None` if it
    /// has none at the moment, or there is no such figure.
    pub fn figure(&self, name: &str) -> Option<u64> {
        let mut found = None;
        figures::each(self, |figure| {
            if figure.line() == name {
                found = figure.value;
            }
        });
        found
    }

    /// Returns the share of requested pages that memory served, from 0 to 1: those read from the device neither for the
    /// call nor ahead of it. `None` if no page was requested.
    ///
    /// This is `1 - page_misses / page_requests` since the cache was built. For the time between two `Stats`, use the
    /// differences. The kernel's `cachestat` counts in the same way: a scan served by read-ahead is not a hit. Regions
    /// are not included, because touches of memory are not observed.
    pub fn hit_ratio(&self) -> Option<f64> {
        hit_ratio(self.page_requests, self.counters.page_misses)
    }
}

/// Returns the share of `requests` served without one of the `misses`.
pub(crate) fn hit_ratio(requests: u64, misses: u64) -> Option<f64> {
    // More may have been read ahead than was asked for yet.
    let served = requests.saturating_sub(misses) as f64;
    (requests > 0).then(|| served / requests as f64)
}

/// The waits of calls that needed a frame when reclaim had none ready. Waits due to the dirty limit are not included:
/// see [`balance_dirty_pauses`](Counters::balance_dirty_pauses).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FrameWaits {
    /// The number of calls that waited.
    pub count: u64,
    /// The total wait.
    pub total: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// The longest wait during which clean pages were in memory, in use or not: reclaim should have freed one of them.
    pub longest_with_clean: Duration,
    /// The time that calls have spent in direct reclaim, which is not a wait but delays them.
    pub reclaiming: Duration,
}

/// One line per figure with its name and value, as in `/proc/vmstat`: current values, with the kernel's names where
/// they are in pages, and the counters. A figure without a value at the moment has no line.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        figures::each(self, |figure| {
            if let Some(value) = figure.value {
                result = result.and_then(|()| writeln!(f, "{} {value}", figure.line()));
            }
        });
        result
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
