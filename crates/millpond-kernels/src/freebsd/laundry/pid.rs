//! The number of pages that the inactive scan frees, from 2017 on: a controller in place of two thresholds
//! (`subr_pidctrl.c`).
//!
//! ```text
//!   error  = setpoint - free                    ten times a second
//!   output = error/3 + integral/4 + change/8    the integral within 0 and a bound
//! ```
//!
//! A consumer takes pages all the time; the integral learns how many, so that the daemon frees as many each tenth of a
//! second instead of thousands at once. Within an interval the output only grows: what it has said once is not said again.

use millpond_core::units::{Instant, Nanos};

/// The divisors of error, integral and change, `pidctrl_kpd`, `kid` and `kdd`.
const DIVISORS: [i64; 3] = [3, 4, 8];
/// The integral's bound, in setpoints.
const BOUND: i64 = 4;
/// `hz / VM_INACT_SCAN_RATE`.
pub const INTERVAL: Nanos = Nanos::from_millis(100);

/// The controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller {
    setpoint: i64,
    error: i64,
    error_before: i64,
    integral: i64,
    integral_before: i64,
    said: i64,
    interval_since: Instant,
}

impl Controller {
    /// One that keeps `setpoint` pages free.
    pub fn new(setpoint: u64) -> Controller {
        Controller {
            setpoint: setpoint as i64,
            error: 0,
            error_before: 0,
            integral: 0,
            integral_before: 0,
            said: 0,
            interval_since: Instant(0),
        }
    }

    /// The number of pages to free while `free` are free.
    pub fn pages(&mut self, now: Instant, free: u64) -> u64 {
        if now.since(self.interval_since) >= INTERVAL {
            self.interval_since = now;
            self.error_before = self.error;
            self.integral_before = self.integral;
            self.said = 0;
        }
        self.error = self.setpoint - free as i64;
        let bound = BOUND * self.setpoint * DIVISORS[1];
        self.integral = (self.integral_before + self.error).clamp(0, bound);
        let change = self.error - self.error_before;
        let output = self.error / DIVISORS[0] + self.integral / DIVISORS[1] + change / DIVISORS[2];
        let more = (output - self.said).max(0);
        self.said += more;
        more as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Instant {
        Instant(0) + Nanos(INTERVAL.0 * tenths)
    }

    #[test]
    fn error_integral_and_change_are_weighted() {
        let mut pid = Controller::new(3721);
        assert_eq!(pid.pages(at(1), 3721 - 240), 240 / 3 + 240 / 4 + 240 / 8);
        assert_eq!(pid.pages(at(2), 3721 - 240), 240 / 3 + 480 / 4);
        assert_eq!(pid.pages(at(2), 3721 - 240), 0, "what was said is not said again");
        assert_eq!(pid.pages(at(3), 3721 + 100_000), 0, "never negative");
    }

    #[test]
    fn a_steady_consumer_is_served_steadily() {
        let mut pid = Controller::new(3721);
        let mut free = 3721;
        let mut freed = Vec::new();
        for tenth in 1..400 {
            free -= 205;
            let pages = pid.pages(at(tenth), free);
            free += pages;
            freed.push(pages);
        }
        let late = &freed[300..];
        assert!(late.iter().all(|&pages| (200..=210).contains(&pages)), "{late:?}");
        assert!(free > 3400, "{free}");
    }

    #[test]
    fn the_integral_is_bounded() {
        let mut pid = Controller::new(1000);
        (1..100_000).for_each(|tenth| {
            pid.pages(at(tenth), 0);
        });
        assert_eq!(pid.pages(at(100_000), 0), 1000 / 3 + 4 * 1000);
    }
}
