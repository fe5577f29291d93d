//! Shares of recent dirtying, and when a dirtier waits.
//!
//! Each dirtier has a share of what was dirtied recently, from counts halved every [`PERIOD_PAGES`] pages. [`decide`]
//! is a pure function of that share, the number of dirty pages and the limits.

use super::limits::{Thresholds, dirtier_limit};
use crate::dirty::DirtierId;
use crate::units::{PageCount, Ratio};
use alloc::collections::BTreeMap;

/// Every dirtier's count is halved after this many dirtied pages: 64 MiB of 4 KiB pages, long enough to tell a steady
/// writer from a burst, short enough to forget one that has stopped.
pub const PERIOD_PAGES: u64 = 16_384;

/// Recent dirtying by dirtier.
#[derive(Clone, Debug, Default)]
pub struct Dirtiers {
    recent: BTreeMap<DirtierId, u64>,
    total: u64,
    since_halved: u64,
}

impl Dirtiers {
    /// Counts `pages` for `dirtier`. Walks over all dirtiers once every [`PERIOD_PAGES`].
    pub fn dirtied(&mut self, dirtier: DirtierId, pages: u64) {
        *self.recent.entry(dirtier).or_insert(0) += pages;
        self.total += pages;
        self.since_halved += pages;
        if self.since_halved >= PERIOD_PAGES {
            self.since_halved = 0;
            self.recent.retain(|_, n| {
                *n /= 2;
                *n > 0
            });
            self.total = self.recent.values().sum();
        }
    }

    /// The share of `dirtier` in recent dirtying.
    pub fn share(&self, dirtier: DirtierId) -> Ratio {
        let own = self.recent.get(&dirtier).copied().unwrap_or(0);
        Ratio {
            num: own as u32,
            den: (self.total as u32).max(1),
        }
    }
}

/// What a dirtier must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttle {
    /// Continue.
    Run,
    /// Wait until no more than this many pages are dirty or being written.
    Until(PageCount),
}

/// Whether a dirtier with `share` of recent dirtying waits when `unclean` pages are dirty or being written.
pub fn decide(unclean: PageCount, thresholds: &Thresholds, share: Ratio) -> Throttle {
    if unclean <= thresholds.free_run.max(dirtier_limit(thresholds, share)) {
        Throttle::Run
    } else {
        Throttle::Until(resume_at(thresholds, share))
    }
}

/// The number of unclean pages at which a waiting dirtier resumes.
///
/// Resuming needs space for more than one page; otherwise the dirtier would sleep and wake for every completed write.
/// The space is a thirty-second of the limit, but at least what a dirtier dirties between two checks (if that is not
/// too much of a low limit), and at most four bursts, which a rotating disk writes in 35 ms. The result may be below
/// the background limit: while a dirtier waits, pages are written in any case.
pub fn resume_at(thresholds: &Thresholds, share: Ratio) -> PageCount {
    let limit = dirtier_limit(thresholds, share).0;
    let least = LOOK_PAGES.min(limit / 8).max(1);
    let gap = (limit / 32).min(4 * thresholds.burst.0).max(least);
    PageCount(limit - gap.min(limit))
}

/// How many dirtiers may have a quantum at once: as many as there is headroom for when the heaviest one wakes.
pub fn quanta(thresholds: &Thresholds) -> usize {
    let limit = dirtier_limit(thresholds, Ratio::percent(100));
    let gap = limit
        .0
        .saturating_sub(resume_at(thresholds, Ratio::percent(100)).0);
    (gap / thresholds.burst.0.max(1)).max(1) as usize
}

/// The most pages a dirtier dirties between two checks: those that one write call handles at a time.
const LOOK_PAGES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const T: Thresholds = Thresholds {
        background: PageCount(1000),
        free_run: PageCount(1500),
        hard: PageCount(2000),
        failed: PageCount(500),
        ceiling: PageCount(9000),
        burst: PageCount(256),
    };

    #[test]
    fn no_dirtier_waits_below_the_free_run_limit() {
        assert_eq!(decide(PageCount(1500), &T, Ratio::percent(100)), Throttle::Run);
    }

    #[test]
    fn a_heavy_dirtier_waits_where_a_light_one_runs() {
        assert_eq!(decide(PageCount(1900), &T, Ratio::percent(5)), Throttle::Run);
        assert_eq!(
            decide(PageCount(1900), &T, Ratio::percent(100)),
            Throttle::Until(PageCount(1696))
        );
        assert!(matches!(
            decide(PageCount(2001), &T, Ratio::percent(0)),
            Throttle::Until(_)
        ));
    }

    #[test]
    fn the_gap_to_resume_is_no_less_than_between_two_looks_and_no_more_than_four_bursts() {
        let of = |hard: u64| {
            let t = Thresholds {
                background: PageCount(hard / 2),
                free_run: PageCount(hard * 3 / 4),
                hard: PageCount(hard),
                ..T
            };
            let limit = dirtier_limit(&t, Ratio::percent(100));
            (limit - resume_at(&t, Ratio::percent(100)), quanta(&t))
        };
        // 1 MiB, 8 MiB, 100 MiB, 10 GiB
        for (hard, expected) in [
            (256, (28, 1)),
            (2048, (56, 1)),
            (25_600, (700, 2)),
            (2_621_440, (1024, 4)),
        ] {
            assert_eq!(of(hard), (PageCount(expected.0), expected.1), "{hard}");
        }
    }

    #[test]
    fn shares_follow_recent_dirtying() {
        let mut dirtiers = Dirtiers::default();
        for _ in 0..100 {
            dirtiers.dirtied(DirtierId(1), 300);
            dirtiers.dirtied(DirtierId(2), 100);
        }
        let permille = |d: &Dirtiers, n| d.share(DirtierId(n)).of(1000);
        assert!(
            (740..=760).contains(&permille(&dirtiers, 1)),
            "{}",
            permille(&dirtiers, 1)
        );
        for _ in 0..20 {
            dirtiers.dirtied(DirtierId(3), PERIOD_PAGES);
        }
        assert_eq!((permille(&dirtiers, 1), permille(&dirtiers, 3)), (0, 1000));
    }
}
