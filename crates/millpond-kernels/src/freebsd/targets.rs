//! How many pages are to be free or inactive, and what counts as short (`vm_pageout_init`, `vmmeter.h`).
//!
//! ```text
//!   free + cache ──── paging target   the daemon works up to it
//!                ──── wakes below: reserved + cache_min
//!                ──── free_target
//!                ──── free_min        threads that wait for memory go on above it
//!                ──── severe          ordinary allocations stop
//!                ──── reserved        I/O goes on, down to nothing
//! ```
//!
//! Always `reserved < severe < free_min < free_target < paging target`. The shape is that of a source of about 2006; that
//! `free_target` is derived from the already raised `free_min` is from memory. All in pages of 4 KiB.

use millpond_core::units::PageCount;

/// The thresholds of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Targets {
    /// For the pageout daemon's own clusters, buffers of I/O and page tables.
    pub reserved: PageCount,
    /// Below: a severe shortage.
    pub severe: PageCount,
    /// Below: threads that wait for memory go on waiting.
    pub free_min: PageCount,
    /// The target of free pages.
    pub free_target: PageCount,
    /// The target of clean, instantly free pages besides: the same number.
    pub cache_min: PageCount,
    /// The target length of the inactive queue.
    pub inactive_target: PageCount,
}

/// `vm_pageout_page_count`: pages that the daemon writes at a time.
const CLUSTER: u64 = 16;
/// Two buffers of 64 KiB in pages, and two more.
const BUFFERS: u64 = 2 * 16 + 2;

impl Targets {
    /// The targets of a machine with `pages` pages, and this many page `colours` (1 if its cache has none).
    pub fn of(pages: PageCount, colours: u64) -> Targets {
        let pages = pages.0;
        let least = 4 + pages.saturating_sub(1024) / 200;
        let reserved = CLUSTER + BUFFERS + pages / 768 + colours;
        let severe = least / 2 + reserved;
        let free_min = least + reserved;
        let times = if pages > 6144 { 4 } else { 2 };
        let free_target = times * free_min + reserved;
        Targets {
            reserved: PageCount(reserved),
            severe: PageCount(severe),
            free_min: PageCount(free_min),
            free_target: PageCount(free_target),
            cache_min: PageCount(free_target),
            inactive_target: PageCount((3 * free_target / 2).min(pages / 3)),
        }
    }

    /// The number up to which the daemon frees.
    pub fn paging_target(&self) -> PageCount {
        self.free_target + self.cache_min
    }

    /// How many pages are missing when `available` (free and cache) are there.
    pub fn shortage(&self, available: PageCount) -> PageCount {
        self.paging_target().saturating_sub(available)
    }

    /// Whether the daemon must be woken (`vm_paging_needed`).
    pub fn wakes_daemon(&self, available: PageCount) -> bool {
        available < self.reserved + self.cache_min
    }

    /// Whether the last scan was not enough (`vm_page_count_target`).
    pub fn is_below_target(&self, available: PageCount) -> bool {
        available < self.free_target
    }

    /// Whether threads that wait for memory must go on waiting (`vm_page_count_min`).
    pub fn is_below_min(&self, available: PageCount) -> bool {
        available < self.free_min
    }

    /// Whether I/O must free its pages instead of keeping them (`vm_page_count_severe`).
    pub fn is_severe(&self, available: PageCount) -> bool {
        available < self.severe
    }

    /// The number of free pages below which the daemon of 2016 to 2019 is woken: nine tenths of the way to the target.
    pub fn wakeup_threshold(&self) -> PageCount {
        self.free_min + PageCount((self.free_target - self.free_min).0 * 9 / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The post's machine, computed by hand: 512 MB are 131,072 pages.
    #[test]
    fn the_news_machines_targets() {
        let targets = Targets::of(PageCount(131_072), 1);
        assert_eq!(targets.reserved, PageCount(221));
        assert_eq!(targets.severe, PageCount(548));
        assert_eq!(targets.free_min, PageCount(875));
        assert_eq!(targets.free_target, PageCount(3721));
        assert_eq!(targets.inactive_target, PageCount(5581));
        assert_eq!(targets.paging_target(), PageCount(7442));
        assert_eq!(targets.shortage(PageCount(3942)), PageCount(3500));
        assert!(targets.wakes_daemon(PageCount(3941)) && !targets.wakes_daemon(PageCount(3942)));
        assert!(targets.is_below_target(PageCount(3720)) && !targets.is_below_target(PageCount(3721)));
        assert!(targets.is_below_min(PageCount(874)) && !targets.is_below_min(PageCount(875)));
        assert!(targets.is_severe(PageCount(547)) && !targets.is_severe(PageCount(548)));
    }

    #[test]
    fn thresholds_keep_their_order_on_every_machine() {
        for pages in (1024..8192).step_by(37).chain([1 << 17, 1 << 20, 1 << 24]) {
            let t = Targets::of(PageCount(pages), 1);
            assert!(
                t.reserved < t.severe && t.severe < t.free_min && t.free_min < t.free_target,
                "{pages}: {t:?}"
            );
            assert!(t.free_target < t.paging_target(), "{pages}: {t:?}");
            assert!(t.wakeup_threshold() < t.free_target, "{pages}: {t:?}");
        }
    }
}
