//! The part of the goal that windows are held to, so that 99 of 100 reads keep the whole of it.
//!
//! What it decides: a scale from 1/2 to 1 on the target of `limit`. By what: of 400 reads beside writers, how many were
//! late; more than 4 of them bring it down by an eighth, no more than 2 up by a 32nd. In the literature: an outer,
//! slower control loop.
//!
//! The limit in transit follows windows of 100 ms, in which a reader of 500 reads a second has 50 reads: of so few only
//! the 95th percentile can be told, and a device (or a busy machine) whose hundredth read takes half as long again misses
//! the goal with every window in order. It goes down to half of it and no further, since on a device that misses for
//! reasons of its own holding back more gains the readers nothing. Measured on the modelled flash disk in real time, where
//! the 99th percentile was 6.4 ms at a goal of 4 ms (docs/decisions/0004-admission-goal.md).

use crate::units::{Instant, Nanos};

/// One in a hundred of these may be over.
const READS: u32 = 400;
const OVER_MAX: u32 = READS / 100;
/// The windows need so long to show what the last step did.
const SPAN_MIN: Nanos = Nanos::from_millis(200);
/// The goal in parts, and the fewest.
const PARTS: u64 = 64;
const PARTS_MIN: u64 = PARTS / 2;
/// Down is quicker than up.
const DOWN: u64 = PARTS / 8;
const UP: u64 = PARTS / 32;

/// The part of the goal that windows are held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetScale {
    parts: u64,
    since: Instant,
    reads: u32,
    over: u32,
}

impl TargetScale {
    pub(super) fn new() -> TargetScale {
        TargetScale {
            parts: PARTS,
            since: Instant(0),
            reads: 0,
            over: 0,
        }
    }

    /// A read beside writers has taken `latency`.
    pub(super) fn add(&mut self, now: Instant, latency: Nanos, goal: Nanos) {
        self.reads += 1;
        self.over += u32::from(latency > goal);
        if now.since(self.since) < SPAN_MIN {
            return;
        }
        let parts = if self.over > OVER_MAX {
            self.parts.saturating_sub(DOWN).max(PARTS_MIN)
        } else if self.reads < READS {
            return;
        } else if self.over <= OVER_MAX / 2 {
            (self.parts + UP).min(PARTS)
        } else {
            self.parts
        };
        *self = TargetScale {
            parts,
            since: now,
            reads: 0,
            over: 0,
        };
    }

    /// What windows are to keep.
    pub(super) fn apply(&self, goal: Nanos) -> Nanos {
        Nanos(goal.0 * self.parts / PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Nanos = Nanos::from_millis(4);

    /// `seconds` of 500 reads a second, one in `every` of which is over.
    fn run(scale: &mut TargetScale, now: &mut Instant, seconds: u32, every: u32) {
        for n in 0..seconds * 500 {
            *now = *now + Nanos::from_millis(2);
            let over = n % every == every - 1;
            scale.add(*now, Nanos::from_millis(if over { 6 } else { 2 }), GOAL);
        }
    }

    #[test]
    fn windows_are_held_to_less_while_more_than_one_in_a_hundred_is_over() {
        let (mut scale, mut now) = (TargetScale::new(), Instant(0));
        run(&mut scale, &mut now, 4, 1_000);
        assert_eq!(scale.apply(GOAL), GOAL);
        run(&mut scale, &mut now, 2, 40);
        assert!(
            scale.apply(GOAL) <= Nanos(GOAL.0 * 7 / 8),
            "{:?}",
            scale.apply(GOAL)
        );
        run(&mut scale, &mut now, 60, 1_000);
        assert_eq!(scale.apply(GOAL), GOAL);
    }

    #[test]
    fn a_device_that_misses_by_itself_is_not_held_to_less_than_half() {
        let (mut scale, mut now) = (TargetScale::new(), Instant(0));
        run(&mut scale, &mut now, 60, 10);
        assert_eq!(scale.apply(GOAL), Nanos(GOAL.0 / 2));
    }
}
