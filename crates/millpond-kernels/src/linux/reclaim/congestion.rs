//! When a device's queue counts as congested, and which threads sleep for it (Linux to 5.15).
//!
//! A queue of 128 requests is congested from 113 on and no longer below 103 (`blk_queue_congestion_threshold`). Two
//! sleeps looked at that:
//!
//! ```text
//!   congestion_wait(t)           until any device leaves congestion, or t. Nothing congested, or nothing that leaves it: t.
//!   wait_iff_congested(zone, t)  the same, but only if a device is congested and the zone is marked; else give up the
//!                                processor for once and go on
//! ```
//!
//! The second is why the post counts 65056 waits of 1 ms together.

use millpond_core::units::Nanos;

/// `BLKDEV_MAX_RQ`: requests of a kind that a queue has room for.
pub const REQUESTS_MAX: u32 = 128;

/// `HZ/10`: how long reclaim's sleeps last at most.
pub const WAIT_MAX: Nanos = Nanos::from_millis(100);

/// A queue's congestion, with its hysteresis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Congestion {
    requests_max: u32,
    is_on: bool,
}

/// The effect of a change of the queue's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// It is congested now.
    Began,
    /// It is no longer congested: threads that wait for that are to be woken.
    Ended,
}

impl Congestion {
    /// A queue of `requests_max` requests, empty.
    pub fn new(requests_max: u32) -> Congestion {
        Congestion {
            requests_max,
            is_on: false,
        }
    }

    /// From this many requests on it is congested: `n - n/8 + 1`.
    pub fn on_from(&self) -> u32 {
        (self.requests_max - self.requests_max / 8 + 1).min(self.requests_max)
    }

    /// Below this many it no longer is: `n - n/8 - n/16 - 1`.
    pub fn off_below(&self) -> u32 {
        (self.requests_max - self.requests_max / 8 - self.requests_max / 16)
            .saturating_sub(1)
            .max(1)
    }

    /// Whether it is.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The queue now holds this many requests.
    pub fn update(&mut self, requests: u32) -> Change {
        if !self.is_on && requests >= self.on_from() {
            self.is_on = true;
            return Change::Began;
        }
        if self.is_on && requests < self.off_below() {
            self.is_on = false;
            return Change::Ended;
        }
        Change::None
    }
}

/// The effect of `wait_iff_congested`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Gives up the processor for once.
    Yields,
    /// Sleeps, until congestion ends or [`WAIT_MAX`].
    Sleeps,
}

/// `wait_iff_congested`.
pub fn wait_iff_congested(device_congested: bool, zone_congested: bool) -> Wait {
    if device_congested && zone_congested {
        Wait::Sleeps
    } else {
        Wait::Yields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_128_is_congested_from_113_until_below_103() {
        let mut congestion = Congestion::new(REQUESTS_MAX);
        assert_eq!((congestion.on_from(), congestion.off_below()), (113, 103));
        assert_eq!(congestion.update(112), Change::None);
        assert_eq!(congestion.update(113), Change::Began);
        assert_eq!(congestion.update(103), Change::None);
        assert!(congestion.is_on());
        assert_eq!(congestion.update(102), Change::Ended);
        assert!(!congestion.is_on());
    }

    #[test]
    fn without_both_marks_nobody_sleeps() {
        assert_eq!(wait_iff_congested(true, true), Wait::Sleeps);
        for (device, zone) in [(true, false), (false, true), (false, false)] {
            assert_eq!(wait_iff_congested(device, zone), Wait::Yields);
        }
    }
}
