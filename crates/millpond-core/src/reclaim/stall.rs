//! How long a caller waits for a frame that it did not get, and for what.
//!
//! The wait is event-driven with a bound. A completed write or a freed frame wakes the waiter. The bound covers only
//! what no event reports, such as a dropped pin. Linux 5.16-rc1 slept for lack of progress while nothing was being
//! written, and stalled allocators for minutes (until 1b4e3f26f9f7, before 5.16); that wait is a few milliseconds here.

use crate::units::Nanos;

/// Why an allocation has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitReason {
    /// The reclaimable pages are being written. A completed write wakes the waiter.
    Writeback,
    /// Nothing is reclaimable at this moment: all pages are pinned, loading or busy.
    NoProgress,
}

/// Linux's `reclaim_throttle(WRITEBACK)`: at most a tenth of a second.
const WRITEBACK_MAX: Nanos = Nanos::from_millis(100);
/// Linux's single tick at HZ 250.
const NO_PROGRESS_MAX: Nanos = Nanos::from_millis(4);

/// What to wait for when nothing could be freed. `unclean`: pages dirty or being written.
pub fn wait(unclean: u64) -> (WaitReason, Nanos) {
    if unclean > 0 {
        (WaitReason::Writeback, WRITEBACK_MAX)
    } else {
        (WaitReason::NoProgress, NO_PROGRESS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_writes_no_caller_sleeps_for_long() {
        assert_eq!(wait(1), (WaitReason::Writeback, Nanos::from_millis(100)));
        assert_eq!(wait(0), (WaitReason::NoProgress, Nanos::from_millis(4)));
    }
}
