//! Linux before 3.2: a dirtier writes pages itself.
//!
//! Above the middle of the limits a task whose device is above the task's own limit, and above the hard limit every task,
//! writes one and a half times what it has dirtied, then sleeps 1, 2, 4 ... 100 ms between looks until enough has gone. A
//! heavy dirtier's limit is up to an eighth lower than the device's part, so that a light one is rarely stopped.
//!
//! Every dirtier then writes its own file in small pieces, one between the other's: that, and uneven pauses, is what the
//! controller of 3.2 did away with. Source: Linux 3.1, `balance_dirty_pages`, `task_dirty_limit`.

use super::limits::KernelThresholds;
use millpond_core::units::{Nanos, PageCount, Ratio};

/// The pages that a stopped task writes itself: half as much again as it has dirtied (`sync_writeback_pages`).
pub fn writes_itself(dirtied: u64) -> u64 {
    dirtied + dirtied / 2
}

/// A task's own limit below its device's `part`, when it did `share` of the recent dirtying.
pub fn task_limit(part: PageCount, share: Ratio) -> PageCount {
    PageCount((part.0 - share.of(part.0 / 8)).max(part.0 / 2))
}

/// Whether a task is stopped.
pub fn is_stopped(
    thresholds: KernelThresholds,
    dirty: PageCount,
    dirty_device: PageCount,
    limit: PageCount,
) -> bool {
    let over_device = dirty > thresholds.free_run() && dirty_device > limit;
    over_device || dirty > thresholds.hard
}

/// The `n`th sleep, from 0: 1, 2, 4 ... 100 ms.
pub fn sleep(n: u32) -> Nanos {
    Nanos::from_millis((1_u64 << n.min(7)).min(100))
}

/// The longest stop of a task that is only a little over its device's part.
pub const KEPT_MAX: Nanos = Nanos::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const T: KernelThresholds = KernelThresholds {
        background: PageCount(1000),
        hard: PageCount(2000),
    };

    #[test]
    fn a_heavy_dirtier_is_stopped_before_a_light_one() {
        let part = PageCount(2000);
        let at = |percent| task_limit(part, Ratio::percent(percent));
        assert_eq!((at(0).0, at(50).0, at(100).0), (2000, 1875, 1750));
        assert!(is_stopped(T, PageCount(1800), PageCount(1800), at(100)));
        assert!(!is_stopped(T, PageCount(1800), PageCount(1800), at(0)));
        assert!(
            !is_stopped(T, PageCount(1500), PageCount(1500), PageCount(0)),
            "free run"
        );
        assert!(
            is_stopped(T, PageCount(2001), PageCount(1), at(0)),
            "the hard limit is for all"
        );
    }

    #[test]
    fn sleeps_double_up_to_100_ms() {
        let sleeps: Vec<u64> = (0..9).map(|n| sleep(n).0 / 1_000_000).collect();
        assert_eq!(sleeps, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!((writes_itself(8), writes_itself(1024)), (12, 1536));
    }
}
