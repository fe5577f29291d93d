//! The page at the cold end of the inactive queue, and how many clusters a scan may write (`vm_pageout_scan`).
//!
//! ```text
//!   held         to the warm end         busy          stays: most likely it is being written
//!   in use       active                  not valid     free
//!   clean        cache                   dirty         by the rule:
//!
//!   limited order   write while the budget lasts, then leave it where it is          min(inactive_target/3, 100), adapted
//!   clean first     leave it; if that was not enough look again and write            none, then 32
//!   queue order     write                                                            no limit
//!   two laps        1st: mark, to the warm end; 2nd: write while the budget lasts    32; no limit in later passes
//!   laundry queue   move it there
//! ```
//!
//! A budget counts clusters, which is seeks, not pages. What is written stays on the queue and goes round once more before
//! it is freed.

pub mod daemon;

use super::{ALL_OUT, FreeBsdRules, LaundryRule};
use millpond_core::units::PageCount;

/// A page that the scan has met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met {
    /// It is held for an I/O.
    pub is_held: bool,
    /// It is being read or written.
    pub is_busy: bool,
    /// Whether its object is in use; if not, old references don't count.
    pub is_owned: bool,
    /// How many mappings have used it since the last scan.
    pub references: u8,
    /// `read` or `write` has.
    pub is_flagged: bool,
    /// It has content.
    pub is_valid: bool,
    /// Its copy is older than it.
    pub is_dirty: bool,
    /// It was met dirty before.
    pub has_lap: bool,
}

/// What to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// To the warm end of the inactive queue.
    Rotate,
    /// It stays where it is.
    Skip,
    /// To the active queue; its count goes up ([`reactivated`](super::activity::reactivated)).
    Activate,
    /// It is free: it had no content.
    Free,
    /// To the cache queue, which counts as free.
    Cache,
    /// Mark its lap, to the warm end.
    MarkLap,
    /// Write it with its neighbours.
    Launder,
    /// To the laundry queue.
    ToLaundry,
}

/// Decides for a page at the cold end in this `pass`, with this many clusters left in the budget.
pub fn at_cold_end(rules: &FreeBsdRules, met: &Met, pass: u32, budget: u32) -> Verdict {
    if met.is_held {
        return Verdict::Rotate;
    }
    if met.is_busy {
        return Verdict::Skip;
    }
    if met.is_owned && (met.references > 0 || met.is_flagged) {
        return Verdict::Activate;
    }
    if !met.is_valid {
        return Verdict::Free;
    }
    if !met.is_dirty {
        return Verdict::Cache;
    }
    match rules.laundry {
        LaundryRule::Queue => Verdict::ToLaundry,
        LaundryRule::TwoLaps if !met.has_lap && pass == 0 => Verdict::MarkLap,
        _ if budget > 0 => Verdict::Launder,
        _ => Verdict::Skip,
    }
}

/// The inputs of the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The number of the daemon's pass.
    pub pass: u32,
    /// The length of the inactive queue.
    pub inactive: PageCount,
    /// Its target.
    pub inactive_target: PageCount,
    /// The number of pages to free.
    pub shortage: PageCount,
    /// [`compensation`] of the scans before.
    pub compensation: u32,
}

/// Clusters that a scan may write at first.
pub fn budget(rules: &FreeBsdRules, facts: &Facts) -> u32 {
    let most = rules.clusters_max.max(1);
    let share = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
    match rules.laundry {
        LaundryRule::LimitedOrder => {
            let third = share(facts.inactive_target.0 / 3);
            third.min(most) + facts.compensation
        }
        // From memory: a third of the queue is taken to be clean.
        LaundryRule::CleanFirst if rules.trusts_third && facts.inactive.0 / 3 <= facts.shortage.0 => {
            share(facts.inactive_target.0).min(most)
        }
        LaundryRule::CleanFirst => 0,
        LaundryRule::TwoLaps if facts.pass > 0 => ALL_OUT,
        LaundryRule::QueueOrder | LaundryRule::TwoLaps => most,
        LaundryRule::Queue => 0,
    }
}

/// A scan that had `budget` has ended with `shortage` left: the budget of a second look, if there is to be one.
pub fn second_look(rules: &FreeBsdRules, facts: &Facts, budget: u32, shortage: PageCount) -> Option<u32> {
    let looks = rules.laundry == LaundryRule::CleanFirst && budget == 0 && shortage.0 > 0;
    looks.then(|| {
        u32::try_from(facts.inactive_target.0).map_or(rules.clusters_max, |t| t.min(rules.clusters_max))
    })
}

/// What the system of mid-2000 adds to its budget, its shortage and its idea of an unused page (`vm_pageout_actcmp`): 3 more
/// after each scan that leaves free pages below the minimum, to 32 about; 1 less after each other.
pub fn compensation(before: u32, is_below_min: bool) -> u32 {
    match is_below_min {
        true if before < 32 => before + 3,
        true => before,
        false => before.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::System;
    use super::*;

    const DIRTY: Met = Met {
        is_held: false,
        is_busy: false,
        is_owned: true,
        references: 0,
        is_flagged: false,
        is_valid: true,
        is_dirty: true,
        has_lap: false,
    };

    fn facts(pass: u32, inactive: u64, shortage: u64) -> Facts {
        Facts {
            pass,
            inactive: PageCount(inactive),
            inactive_target: PageCount(5581),
            shortage: PageCount(shortage),
            compensation: 0,
        }
    }

    #[test]
    fn clean_pages_fare_the_same_under_every_rule() {
        let clean = Met {
            is_dirty: false,
            ..DIRTY
        };
        let table = [
            (
                Met {
                    is_held: true,
                    ..DIRTY
                },
                Verdict::Rotate,
            ),
            (
                Met {
                    is_busy: true,
                    ..DIRTY
                },
                Verdict::Skip,
            ),
            (
                Met {
                    references: 1,
                    ..clean
                },
                Verdict::Activate,
            ),
            (
                Met {
                    is_flagged: true,
                    ..DIRTY
                },
                Verdict::Activate,
            ),
            (
                Met {
                    is_owned: false,
                    references: 1,
                    ..clean
                },
                Verdict::Cache,
            ),
            (
                Met {
                    is_valid: false,
                    ..clean
                },
                Verdict::Free,
            ),
            (clean, Verdict::Cache),
        ];
        for system in System::ALL {
            for (met, verdict) in table {
                assert_eq!(at_cold_end(&system.rules(), &met, 0, 32), verdict, "{met:?}");
            }
        }
    }

    #[test]
    fn with_two_laps_a_dirty_page_is_written_at_its_second_meeting() {
        let rules = System::FreeBsdPatches.rules();
        let met_again = Met {
            has_lap: true,
            ..DIRTY
        };
        assert_eq!(at_cold_end(&rules, &DIRTY, 0, 32), Verdict::MarkLap);
        assert_eq!(at_cold_end(&rules, &met_again, 0, 32), Verdict::Launder);
        assert_eq!(at_cold_end(&rules, &met_again, 0, 0), Verdict::Skip);
        assert_eq!(
            at_cold_end(&rules, &DIRTY, 1, 32),
            Verdict::Launder,
            "in trouble at its first"
        );
    }

    #[test]
    fn in_queue_order_it_is_written_at_its_first_and_there_is_no_limit() {
        let rules = System::FreeBsdStable.rules();
        assert_eq!(at_cold_end(&rules, &DIRTY, 0, 1), Verdict::Launder);
        assert_eq!(budget(&rules, &facts(0, 9000, 3500)), ALL_OUT);
    }

    #[test]
    fn a_limited_order_passes_over_what_is_beyond_its_budget() {
        let rules = System::FreeBsd4_0.rules();
        assert_eq!(budget(&rules, &facts(0, 9000, 3500)), 100);
        let small = Facts {
            inactive_target: PageCount(150),
            compensation: 7,
            ..facts(0, 9000, 3500)
        };
        assert_eq!(budget(&rules, &small), 57);
        assert_eq!(at_cold_end(&rules, &DIRTY, 0, 1), Verdict::Launder);
        assert_eq!(at_cold_end(&rules, &DIRTY, 0, 0), Verdict::Skip);
    }

    #[test]
    fn clean_first_writes_nothing_unless_clean_pages_do_not_suffice() {
        let rules = System::FreeBsd4_2.rules();
        let long = facts(0, 10_503, 3500);
        assert_eq!(budget(&rules, &long), 0);
        assert_eq!(at_cold_end(&rules, &DIRTY, 0, 0), Verdict::Skip);
        assert_eq!(second_look(&rules, &long, 0, PageCount(0)), None);
        assert_eq!(second_look(&rules, &long, 0, PageCount(1)), Some(32));
        assert_eq!(
            second_look(&rules, &long, 32, PageCount(1)),
            None,
            "it has written already"
        );
        let short = facts(0, 10_500, 3500);
        assert_eq!(budget(&rules, &short), 0);
        let wary = FreeBsdRules {
            trusts_third: true,
            ..rules
        };
        assert_eq!((budget(&wary, &long), budget(&wary, &short)), (0, 32));
    }

    #[test]
    fn two_laps_have_a_budget_until_they_fail() {
        let rules = System::FreeBsdPatches.rules();
        assert_eq!(budget(&rules, &facts(0, 9000, 3500)), 32);
        assert_eq!(budget(&rules, &facts(1, 9000, 3500)), ALL_OUT);
    }

    #[test]
    fn compensation_grows_by_three_and_shrinks_by_one() {
        assert_eq!(compensation(0, true), 3);
        assert_eq!(compensation(33, true), 33);
        assert_eq!(compensation(3, false), 2);
        assert_eq!(compensation(0, false), 0);
    }

    #[test]
    fn the_laundry_queue_takes_what_is_dirty() {
        assert_eq!(
            at_cold_end(&System::FreeBsd13.rules(), &DIRTY, 0, 0),
            Verdict::ToLaundry
        );
    }
}
