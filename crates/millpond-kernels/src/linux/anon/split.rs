//! The number of pages that a pass scans on each list (`get_scan_count`, Linux 5.5 to 7.0).
//!
//! ```text
//!   no swap                               file pages only
//!   priority 0, and swappiness            all lists whole
//!   hardly a file page, idle anonymous    anonymous pages only       (`file_is_tiny`)
//!   idle file pages                       file pages only            (`cache_trim_mode`)
//!   else                                  by shares: balance.rs
//! ```
//!
//! At priority `p` a list of `n` pages is offered `n >> p` times its kind's share. Whether a kind's active list is looked
//! at at all is [`AnonRules::may_deactivate`](super::AnonRules::may_deactivate).

use super::shadow::Lengths;
use super::{AnonRules, Balance};
use crate::linux::balance::{ReclaimCost, ReclaimStat, Shares};
use millpond_core::page::PageKind;

/// A page of I/O counts as this many rotated ones: `SWAP_CLUSTER_MAX`, 7.0.
const IO_COST: u64 = 32;

/// The division of the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// One kind only.
    Only(PageKind),
    /// All lists, whole.
    Equal,
    /// By shares.
    Shares(Shares),
}

impl Split {
    /// Pages that a pass at `priority` looks at of a list of `pages` pages of `kind`.
    pub fn of(&self, kind: PageKind, pages: u64, priority: u32) -> u64 {
        let offered = pages >> priority;
        match self {
            Split::Only(only) => offered * u64::from(*only == kind),
            Split::Equal => offered,
            Split::Shares(shares) => shares.of(kind, offered),
        }
    }
}

/// The inputs of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// 12 (least effort) to 0.
    pub priority: u32,
    /// 0 to 200.
    pub swappiness: u64,
    /// A page could be swapped out.
    pub swap_has_room: bool,
    /// The lists.
    pub lengths: Lengths,
    /// Free pages.
    pub free: u64,
    /// The high water mark.
    pub high: u64,
    /// Whether active pages of a kind may be deactivated in this pass, by [`PageKind`].
    pub may_deactivate: [bool; 2],
}

/// The cost of a kind of page, by either rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// To 5.7.
    pub stat: ReclaimStat,
    /// Since 5.8.
    pub cost: ReclaimCost,
}

impl Costs {
    /// Pages of a kind were written by reclaim or came back, and others were found in use, as far as these rules count
    /// either.
    pub fn note(&mut self, rules: &AnonRules, kind: PageKind, io: u64, rotated: u64, lru_pages: u64) {
        let cost = match rules.balance {
            Balance::Rotated => return,
            Balance::CostOfPages => io,
            Balance::CostOfIo => IO_COST * io + rotated,
        };
        if cost > 0 {
            self.cost.add(kind, cost, lru_pages);
        }
    }

    /// The pass's division of the scan.
    pub fn split(&mut self, rules: &AnonRules, facts: &Facts) -> Split {
        let [file, anonymous] = PageKind::ALL.map(|kind| kind as usize);
        if !facts.swap_has_room {
            return Split::Only(PageKind::File);
        }
        if facts.priority == 0 && facts.swappiness > 0 {
            return Split::Equal;
        }
        let lengths = &facts.lengths;
        let is_offered = |pages: u64| pages >> facts.priority > 0;
        let file_is_tiny = lengths.of(PageKind::File) + facts.free <= facts.high
            && !facts.may_deactivate[anonymous]
            && is_offered(lengths.inactive[anonymous]);
        if file_is_tiny {
            return Split::Only(PageKind::Anonymous);
        }
        if is_offered(lengths.inactive[file]) && !facts.may_deactivate[file] {
            return Split::Only(PageKind::File);
        }
        Split::Shares(match rules.balance {
            Balance::Rotated => {
                let sizes = PageKind::ALL.map(|kind| lengths.of(kind));
                self.stat.shares(sizes, facts.swappiness)
            }
            Balance::CostOfPages | Balance::CostOfIo => self.cost.shares(facts.swappiness),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::System;
    use super::*;

    const FACTS: Facts = Facts {
        priority: 12,
        swappiness: 60,
        swap_has_room: true,
        lengths: Lengths {
            inactive: [1 << 16; 2],
            active: [1 << 16; 2],
        },
        free: 100,
        high: 1000,
        may_deactivate: [true; 2],
    };

    fn split(facts: &Facts) -> Split {
        Costs::default().split(&System::Linux5_9.rules(), facts)
    }

    #[test]
    fn special_cases_come_in_the_kernels_order() {
        let no_swap = Facts {
            swap_has_room: false,
            priority: 0,
            ..FACTS
        };
        assert_eq!(split(&no_swap), Split::Only(PageKind::File));
        let last = Facts { priority: 0, ..FACTS };
        assert_eq!(split(&last), Split::Equal);
        assert!(matches!(
            split(&Facts {
                swappiness: 0,
                ..last
            }),
            Split::Shares(_)
        ));
        let few_files = Facts {
            lengths: Lengths {
                inactive: [100, 1 << 16],
                active: [0, 1 << 16],
            },
            may_deactivate: [true, false],
            ..FACTS
        };
        assert_eq!(split(&few_files), Split::Only(PageKind::Anonymous));
        let challenged = Facts {
            may_deactivate: [true; 2],
            ..few_files
        };
        assert!(matches!(split(&challenged), Split::Shares(_)));
        let idle_files = Facts {
            may_deactivate: [false; 2],
            ..FACTS
        };
        assert_eq!(split(&idle_files), Split::Only(PageKind::File));
    }

    #[test]
    fn swappiness_0_takes_no_anonymous_page_and_200_no_file_page() {
        for (system, zero) in [(System::Linux5_9, 0), (System::Linux5_5, 0)] {
            let at = |swappiness, kind| {
                let facts = Facts { swappiness, ..FACTS };
                let split = Costs::default().split(&system.rules(), &facts);
                split.of(kind, 1 << 16, 12)
            };
            assert_eq!(at(0, PageKind::Anonymous), zero, "{system:?}");
            assert!(at(0, PageKind::File) >= 15);
            assert_eq!(at(200, PageKind::File), 0);
            assert!(at(200, PageKind::Anonymous) >= 15);
            assert!(at(100, PageKind::Anonymous).abs_diff(at(100, PageKind::File)) <= 1);
        }
    }

    #[test]
    fn the_counted_cost_depends_on_the_release() {
        let share = |system: System, io, rotated| {
            let mut costs = Costs::default();
            costs.note(&system.rules(), PageKind::Anonymous, io, rotated, 1 << 20);
            match costs.split(&system.rules(), &FACTS) {
                Split::Shares(shares) => shares.of(PageKind::Anonymous, 1000),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(share(System::Linux5_5, 100, 100), 300);
        assert_eq!(share(System::Linux5_9, 0, 100), 300, "rotations cost nothing yet");
        assert!(share(System::Linux5_9, 100, 0) < 200);
        assert!(share(System::Linux7_0, 0, 100) < 200);
    }
}
