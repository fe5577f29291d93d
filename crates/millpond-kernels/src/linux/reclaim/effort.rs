//! The amount of reclaim: pages of each list at a priority, and when the background reclaimer stops.
//!
//! At priority `p` a list is offered `size >> p` pages times its kind's share ([`balance`](crate::linux::balance)), in
//! batches of 32. Linux 3.0 (`get_scan_count`): where all lists of a zone together give less than a batch, the background
//! reclaimer divides a whole batch among them all the same, because it is there to balance that very zone
//! (`nr_force_scan`); an allocating task goes on to the next zone instead. So it hardly ever looks at a small zone, and the
//! background reclaimer always does.

use crate::linux::balance::Shares;
use millpond_core::memory::watermark::Watermarks;
use millpond_core::page::PageKind;
use millpond_core::reclaim::trace::Caller;
use millpond_core::units::PageCount;

/// Linux' `SWAP_CLUSTER_MAX`: pages of a batch, and what an allocating task wants to free.
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

/// The rest of dividing a forced batch among lists, carried to the next pass.
///
/// Linux 3.0 cuts it off. In a machine that has just booted the share of anonymous pages then is nothing for ever, since
/// the counters behind it learn from scans alone; the post's machine did swap. Linux to 2.6.39 carried the rest of every
/// scan (`nr_saved_scan`), so that is done here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carry {
    /// By kind, in 1/65536 of a page.
    rest: [u64; 2],
}

impl Carry {
    fn take(&mut self, shares: &Shares, kind: PageKind) -> u64 {
        let rest = &mut self.rest[kind as usize];
        *rest += shares.of(kind, BATCH_PAGES << 16);
        let pages = *rest >> 16;
        *rest -= pages << 16;
        pages
    }
}

/// The number of pages that one pass scans on each list (`get_scan_count` of 3.0; without `forced` that of 7.0).
pub fn quota(
    sizes: &Sizes,
    shares: &Shares,
    (caller, priority): (Caller, u32),
    can_swap: bool,
    carry: &mut Carry,
) -> Sizes {
    let anonymous = if can_swap {
        sizes.of(PageKind::Anonymous)
    } else {
        0
    };
    let is_small = (anonymous + sizes.of(PageKind::File)) >> priority < BATCH_PAGES;
    let forced = is_small && caller == Caller::Kswapd;
    let mut offered = |size: u64, kind| {
        let scan = if priority == 0 && can_swap {
            size
        } else {
            shares.of(kind, size >> priority)
        };
        if scan == 0 && forced {
            carry.take(shares, kind)
        } else {
            scan
        }
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

/// Whether scans have met so many pages since the last freed one that they are useless (`all_unreclaimable`, to 4.x).
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
        let file = |priority| {
            let mut carry = Carry::default();
            quota(&sizes, &HALVES, (Caller::Direct, priority), true, &mut carry).file[0]
        };
        assert_eq!([12, 11, 10, 1].map(file), [16, 32, 64, 1 << 15]);
        assert_eq!(file(0), 1 << 17, "at 0 the whole list, without shares");
    }

    #[test]
    fn in_a_small_zone_kswapd_divides_a_batch_among_the_lists_and_who_allocates_scans_none() {
        let small = Sizes {
            file: [3_000, 0],
            anonymous: [200, 300],
        };
        let scan = |caller, priority, can_swap| {
            let mut carry = Carry::default();
            quota(&small, &HALVES, (caller, priority), can_swap, &mut carry)
        };
        let at_12 = |caller| scan(caller, 12, true);
        let nothing = Sizes::default();
        assert_eq!(at_12(Caller::Direct), nothing);
        let kswapd = at_12(Caller::Kswapd);
        assert_eq!((kswapd.file, kswapd.anonymous), ([16; 2], [16; 2]));
        assert_eq!(scan(Caller::Kswapd, 12, false).anonymous, [0; 2]);
        // Large enough at this priority: nothing is forced.
        assert_eq!(scan(Caller::Kswapd, 6, true).file[0], 23);
    }

    #[test]
    fn the_rest_of_a_forced_batch_is_scanned_by_a_later_pass() {
        let few = Shares {
            anonymous: 1,
            file: 99,
            denominator: 100,
        };
        let mut carry = Carry::default();
        let sum = |kind, carry: &mut Carry| (0..100).map(|_| carry.take(&few, kind)).sum::<u64>();
        assert_eq!(
            sum(PageKind::Anonymous, &mut carry),
            31,
            "a hundredth of 100 batches"
        );
        assert_eq!(sum(PageKind::File, &mut carry), 3167);
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
