//! The division of a scan between anonymous and file pages.
//!
//! Two rules of Linux, as pure arithmetic on counters that the scan keeps by kind:
//!
//! ```text
//!   2.6.28 … 5.7   pages scanned and, of them, rotated (found in use): a kind that rotates much is scanned little
//!   5.8 …          the cost of taking from a kind: pages written out, and pages that came back too soon
//! ```
//!
//! Both multiply a nominal share, `swappiness` for anonymous pages and 200 less that for file pages, and both forget by
//! halves when a counter exceeds a quarter of the lists. In the second a kind can't fall below about a third of its
//! nominal share, because both denominators hold the sum.

use millpond_core::page::PageKind;

/// `swappiness` as Linux ships it.
pub const SWAPPINESS_DEFAULT: u64 = 60;

/// The shares of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// For anonymous pages.
    pub anonymous: u64,
    /// For file pages.
    pub file: u64,
    /// The sum that both are parts of.
    pub denominator: u64,
}

impl Shares {
    /// File pages only: nothing can be swapped.
    pub const FILE_ONLY: Shares = Shares {
        anonymous: 0,
        file: 1,
        denominator: 1,
    };
    /// Anonymous pages only: there is hardly a file page left.
    pub const ANONYMOUS_ONLY: Shares = Shares {
        anonymous: 1,
        file: 0,
        denominator: 1,
    };

    /// The part of `pages` for this kind.
    pub fn of(&self, kind: PageKind, pages: u64) -> u64 {
        let share = match kind {
            PageKind::File => self.file,
            PageKind::Anonymous => self.anonymous,
        };
        (u128::from(pages) * u128::from(share) / u128::from(self.denominator)) as u64
    }
}

/// Pages scanned and rotated, by kind: `zone_reclaim_stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReclaimStat {
    scanned: [u64; 2],
    rotated: [u64; 2],
}

impl ReclaimStat {
    /// Pages of a kind were scanned.
    pub fn scanned(&mut self, kind: PageKind, pages: u64) {
        self.scanned[kind as usize] += pages;
    }

    /// Pages of a kind were found in use, and stay or become active.
    pub fn rotated(&mut self, kind: PageKind, pages: u64) {
        self.rotated[kind as usize] += pages;
    }

    /// The shares now, after forgetting. `sizes`: pages on both lists of each kind, by [`PageKind`].
    pub fn shares(&mut self, sizes: [u64; 2], swappiness: u64) -> Shares {
        for kind in PageKind::ALL.map(|kind| kind as usize) {
            if self.scanned[kind] > sizes[kind] / 4 {
                self.scanned[kind] /= 2;
                self.rotated[kind] /= 2;
            }
        }
        let part = |kind: PageKind, priority: u64| {
            let (scanned, rotated) = (self.scanned[kind as usize], self.rotated[kind as usize]);
            (priority + 1) * (scanned + 1) / (rotated + 1)
        };
        let anonymous = part(PageKind::Anonymous, swappiness);
        let file = part(PageKind::File, 200 - swappiness);
        Shares {
            anonymous,
            file,
            denominator: anonymous + file + 1,
        }
    }
}

/// The cost of taking pages, by kind: `anon_cost` and `file_cost`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReclaimCost {
    cost: [u64; 2],
}

impl ReclaimCost {
    /// Pages of a kind were written out by reclaim, or came back too soon. Forgets when both costs together exceed a
    /// quarter of `lru_pages`, the pages on all lists.
    pub fn add(&mut self, kind: PageKind, pages: u64, lru_pages: u64) {
        self.cost[kind as usize] += pages;
        if self.cost[0] + self.cost[1] > lru_pages / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }

    /// The shares now.
    pub fn shares(&self, swappiness: u64) -> Shares {
        let [file, anonymous] = self.cost;
        let total = file + anonymous;
        let (anonymous, file) = (total + anonymous, total + file);
        let sum = anonymous + file;
        let anonymous = swappiness * (sum + 1) / (anonymous + 1);
        let file = (200 - swappiness) * (sum + 1) / (file + 1);
        Shares {
            anonymous,
            file,
            denominator: anonymous + file,
        }
    }
}

/// Whether the inactive list is so short that active pages are to be deactivated.
pub fn inactive_is_low(inactive: u64, active: u64, ratio: u64) -> bool {
    inactive * ratio < active
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_counts_a_third_is_anonymous() {
        let shares = ReclaimStat::default().shares([1000, 1000], SWAPPINESS_DEFAULT);
        assert_eq!(
            (shares.anonymous, shares.file, shares.denominator),
            (61, 141, 203)
        );
        assert_eq!(shares.of(PageKind::Anonymous, 1000), 300);
        assert_eq!(shares.of(PageKind::File, 1000), 694);
    }

    #[test]
    fn a_kind_that_is_found_in_use_is_scanned_less() {
        let mut stat = ReclaimStat::default();
        stat.scanned(PageKind::Anonymous, 99);
        stat.rotated(PageKind::Anonymous, 99);
        stat.scanned(PageKind::File, 99);
        let shares = stat.shares([1000, 1000], 60);
        assert_eq!((shares.anonymous, shares.file), (61, 14_100));
    }

    #[test]
    fn counts_are_halved_beyond_a_quarter_of_the_lists() {
        let mut stat = ReclaimStat::default();
        stat.scanned(PageKind::File, 251);
        stat.rotated(PageKind::File, 101);
        let _ = stat.shares([1000, 1000], 60);
        let mut half = ReclaimStat::default();
        half.scanned(PageKind::File, 125);
        half.rotated(PageKind::File, 50);
        assert_eq!(stat, half);
    }

    #[test]
    fn costs_divide_a_scan_as_computed_by_hand() {
        // cost of anonymous and file pages, swappiness; shares of both
        let vectors = [
            ((0, 0, 60), (60, 140)),
            ((100, 300, 60), (143, 239)),
            ((0, 1000, 60), (179, 209)),
            ((1000, 0, 60), (89, 419)),
            ((1000, 1000, 100), (199, 199)),
            ((0, 1000, 100), (299, 149)),
            ((500, 500, 0), (0, 399)),
            ((500, 500, 200), (399, 0)),
        ];
        for ((anonymous, file, swappiness), expected) in vectors {
            let cost = ReclaimCost {
                cost: [file, anonymous],
            };
            let shares = cost.shares(swappiness);
            assert_eq!(
                (shares.anonymous, shares.file),
                expected,
                "{anonymous}, {file}, {swappiness}"
            );
            assert_eq!(shares.denominator, expected.0 + expected.1);
        }
    }

    #[test]
    fn costs_are_forgotten_by_halves() {
        let mut cost = ReclaimCost::default();
        cost.add(PageKind::File, 200, 1000);
        assert_eq!(cost.cost, [200, 0]);
        cost.add(PageKind::Anonymous, 60, 1000);
        assert_eq!(cost.cost, [100, 30]);
    }

    #[test]
    fn an_inactive_list_as_long_as_the_active_one_is_not_low() {
        assert!(!inactive_is_low(100, 100, 1) && inactive_is_low(100, 101, 1));
        assert!(!inactive_is_low(100, 300, 3) && inactive_is_low(100, 301, 3));
    }
}
