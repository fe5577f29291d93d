//! Who dirties how much, and when a dirtier waits.
//!
//! Each dirtier has a share of what was dirtied recently: counts that are halved every [`PERIOD_PAGES`]
//! pages. [`decide`] is a pure function of that share, of what is dirty and of the limits.

use super::limits::{Thresholds, dirtier_limit};
use crate::event::DirtierId;
use crate::units::{PageCount, Ratio};
use alloc::collections::BTreeMap;

/// After so many dirtied pages every dirtier's count is halved: 64 MiB of 4 KiB pages, long enough to
/// tell a steady writer from a burst, short enough to forget one that has stopped.
pub const PERIOD_PAGES: u64 = 16_384;

/// Recent dirtying by dirtier.
#[derive(Clone, Debug, Default)]
pub struct Dirtiers {
    recent: BTreeMap<DirtierId, u64>,
    total: u64,
    since_halved: u64,
}

impl Dirtiers {
    /// Counts `pages` for `dirtier`. A walk over all dirtiers once in [`PERIOD_PAGES`].
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

    /// The share of `dirtier` in what was dirtied recently.
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
    /// Go on.
    Run,
    /// Wait until no more than this many pages are dirty or being written.
    Until(PageCount),
}

/// Whether a dirtier with `share` of the recent dirtying waits when `unclean` pages (dirty or being
/// written) are there.
pub fn decide(unclean: PageCount, thresholds: &Thresholds, share: Ratio) -> Throttle {
    if unclean <= thresholds.free_run {
        return Throttle::Run;
    }
    let limit = dirtier_limit(thresholds, share);
    if unclean <= limit {
        return Throttle::Run;
    }
    // Let it go only when there is room for more than one page, or it sleeps and wakes for every write that
    // ends: a thirty-second of the limit, but no less than goes out in one request. Not below the background limit:
    // there nothing is written, and only the end of the pause would end it.
    let gap = (limit.0 / 32).max(1);
    Throttle::Until(PageCount(limit.0 - gap).max(thresholds.background))
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Thresholds = Thresholds {
        background: PageCount(1000),
        free_run: PageCount(1500),
        hard: PageCount(2000),
        failed: PageCount(500),
        ceiling: PageCount(9000),
    };

    #[test]
    fn nobody_waits_below_the_free_run_limit() {
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

    /// With limits close together a dirtier waited for fewer dirty pages than background writing leaves, for as long as
    /// a pause may last.
    #[test]
    fn nobody_waits_for_what_is_not_going_to_be_written() {
        let close = Thresholds {
            background: PageCount(990),
            free_run: PageCount(995),
            hard: PageCount(1000),
            ..T
        };
        assert_eq!(
            decide(PageCount(996), &close, Ratio::percent(100)),
            Throttle::Until(PageCount(990))
        );
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
