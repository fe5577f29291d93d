//! How much reclaim does: pages of each list at a priority, and when the background reclaimer stops.
//!
//! At priority `p` a list is offered `size >> p` pages times its kind's share (`lru::balance`), in batches of 32. Linux 3.0
//! (`get_scan_count`): where all lists of a zone together give less than a batch, the background reclaimer scans a batch of
//! each all the same, because it is there to balance that very zone; who allocates goes on to the next zone instead. On the
//! post's machine that is what swaps: each pass over its small zone looks at 32 anonymous pages, whatever their share.

use super::launder::linux::Caller;
use crate::lru::balance::Shares;
use crate::memory::watermark::Watermarks;
use crate::page::PageKind;
use crate::units::PageCount;

/// Linux' `SWAP_CLUSTER_MAX`: pages of a batch, and what who allocates wants to free.
pub const BATCH_PAGES: u64 = 32;

/// `KSWAPD_ZONE_BALANCE_GAP_RATIO`: kswapd goes on a hundredth of the zone above the high watermark, to 3.x.
const BALANCE_GAP_RATIO: u64 = 100;

/// From this ratio of scanned to reclaimable pages on a zone counts as hopeless: `zone_reclaimable`.
pub const HOPELESS_RATIO: u64 = 6;

/// The pages of a set of lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Of file pages: inactive, active.
    pub file: [u64; 2],
    /// Of anonymous pages: inactive, active.
    pub anonymous: [u64; 2],
}

impl Sizes {
    /// Both lists of a kind.
    pub fn of(&self, kind: PageKind) -> u64 {
        let lists = match kind {
            PageKind::File => self.file,
            PageKind::Anonymous => self.anonymous,
        };
        lists[0] + lists[1]
    }

    /// Pages that could be had: `zone_reclaimable_pages`.
    pub fn reclaimable(&self, can_swap: bool) -> u64 {
        self.of(PageKind::File) + if can_swap { self.of(PageKind::Anonymous) } else { 0 }
    }
}

/// How many pages of each list one pass looks at (`get_scan_count` of 3.0; without `forced` that of 7.0).
pub fn quota(sizes: &Sizes, shares: &Shares, caller: Caller, priority: u32, can_swap: bool) -> Sizes {
    let anonymous = if can_swap {
        sizes.of(PageKind::Anonymous)
    } else {
        0
    };
    let is_small = (anonymous + sizes.of(PageKind::File)) >> priority < BATCH_PAGES;
    let forced = is_small && caller == Caller::Kswapd;
    let offered = |size: u64, kind| {
        let scan = if priority == 0 && can_swap {
            size
        } else {
            shares.of(kind, size >> priority)
        };
        if scan == 0 && forced { BATCH_PAGES } else { scan }
    };
    Sizes {
        file: sizes.file.map(|size| offered(size, PageKind::File)),
        anonymous: match can_swap {
            true => sizes.anonymous.map(|size| offered(size, PageKind::Anonymous)),
            false => [0; 2],
        },
    }
}

/// Whether the background reclaimer scans this zone: free pages below the high watermark and the gap, to 3.x.
/// `reserved`: frames that the zone keeps for requests that can't use a higher one (`lowmem_reserve`).
pub fn is_short(free: PageCount, managed: PageCount, marks: &Watermarks, reserved: PageCount) -> bool {
    let gap = marks.low.0.min(managed.0.div_ceil(BALANCE_GAP_RATIO));
    free.0 <= marks.high.0 + gap + reserved.0
}

/// Whether scans have met so many pages since one was freed that it is no use (`all_unreclaimable`, to 4.x).
pub fn is_hopeless(scanned_since_freed: u64, reclaimable: u64) -> bool {
    scanned_since_freed >= reclaimable * HOPELESS_RATIO
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALVES: Shares = Shares {
        anonymous: 100,
        file: 100,
        denominator: 200,
    };

    #[test]
    fn each_priority_doubles_what_a_list_is_offered() {
        let sizes = Sizes {
            file: [1 << 17, 1 << 14],
            anonymous: [1 << 13, 1 << 12],
        };
        let file = |priority| quota(&sizes, &HALVES, Caller::Direct, priority, true).file[0];
        assert_eq!([12, 11, 10, 1].map(file), [16, 32, 64, 1 << 15]);
        assert_eq!(file(0), 1 << 17, "at 0 the whole list, without shares");
    }

    #[test]
    fn in_a_small_zone_kswapd_scans_a_batch_of_every_list_and_who_allocates_none() {
        let small = Sizes {
            file: [3_000, 0],
            anonymous: [200, 300],
        };
        let at_12 = |caller| quota(&small, &HALVES, caller, 12, true);
        let nothing = Sizes::default();
        assert_eq!(at_12(Caller::Direct), nothing);
        let kswapd = at_12(Caller::Kswapd);
        assert_eq!((kswapd.file, kswapd.anonymous), ([32; 2], [32; 2]));
        assert_eq!(
            quota(&small, &HALVES, Caller::Kswapd, 12, false).anonymous,
            [0; 2]
        );
        // Large enough at this priority: nothing is forced.
        assert_eq!(quota(&small, &HALVES, Caller::Kswapd, 6, true).file, [23, 0]);
    }

    #[test]
    fn kswapd_goes_on_a_hundredth_of_the_zone_above_the_high_mark() {
        let marks = Watermarks {
            min: PageCount(700),
            low: PageCount(875),
            high: PageCount(1050),
        };
        let short = |free| is_short(PageCount(free), PageCount(50_000), &marks, PageCount(0));
        assert!(short(1550) && !short(1551));
        let reserved = is_short(PageCount(2000), PageCount(50_000), &marks, PageCount(480));
        assert!(reserved);
    }

    #[test]
    fn six_times_around_without_a_page_is_hopeless() {
        assert!(!is_hopeless(599, 100) && is_hopeless(600, 100));
    }
}
