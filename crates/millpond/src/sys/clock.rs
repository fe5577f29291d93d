//! Clocks: the core's time, and how long something was waited for.
//!
//! All are CLOCK_MONOTONIC, which a suspended machine stops (a laptop's lid). A process can be stopped while the machine goes
//! on: by SIGSTOP, a freezer, `docker pause`, a hypervisor. That is no time for whatever gives up or warns after a while, as
//! nothing could have happened that was waited for: the thread that looks first would find its time over before any other has
//! run. Such a thread looks at short intervals, and one that took far longer than the thread has slept counts as little more
//! than that ([`Patience`], [`Watch`]). docs/SEMANTICS.md says which clock is asked where.

use millpond_core::units::Instant;
use parking_lot::Mutex;
use std::time::Duration;

/// What a sleep may take beyond what was asked for, as the machine is busy. More, and the process was stopped.
const LATE_MAX: Duration = Duration::from_secs(1);

/// Counts from its making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            epoch: std::time::Instant::now(),
        }
    }

    /// About 25 ns.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        // The first nanosecond is 1, so that 0 stays "before anything happened".
        Instant(self.epoch.elapsed().as_nanos() as u64 + 1)
    }
}

/// How long a thread has waited, measured by its sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    waited: Duration,
    counted_to: std::time::Instant,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience {
            waited: Duration::ZERO,
            counted_to: std::time::Instant::now(),
        }
    }

    /// Since this was called last the thread has slept for `at_most`, if nothing has woken it.
    pub(crate) fn slept(&mut self, at_most: Duration) {
        self.slept_until(at_most, std::time::Instant::now());
    }

    fn slept_until(&mut self, at_most: Duration, now: std::time::Instant) {
        let took = now.saturating_duration_since(self.counted_to);
        self.waited += took.min(at_most.saturating_add(LATE_MAX));
        self.counted_to = now;
    }

    /// The total so far.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }
}

/// The time of a watch, at which some thread looks at least every [`Watch::EVERY`] as long as there is something to watch.
#[derive(Debug)]
pub(crate) struct Watch {
    patience: Mutex<Patience>,
}

impl Watch {
    /// How often some thread must check.
    pub(crate) const EVERY: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Watch {
        Watch {
            patience: Mutex::new(Patience::new()),
        }
    }

    /// Nanoseconds since it was made. While there is nothing to watch it need not go on.
    pub(crate) fn now_ns(&self) -> u64 {
        let mut patience = self.patience.lock();
        patience.slept(Watch::EVERY);
        patience.waited().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was stopped while it waited gave up as soon as it went on, before any other of its threads had run.
    #[test]
    fn a_stop_is_no_time_that_was_waited() {
        let second = Duration::from_secs(1);
        let mut patience = Patience::new();
        let mut now = patience.counted_to;
        for _ in 0..5 {
            now += second / 4;
            patience.slept_until(second / 4, now);
        }
        assert_eq!(patience.waited(), 5 * second / 4);
        // Stopped for an hour.
        now += 3600 * second;
        patience.slept_until(second / 4, now);
        assert_eq!(patience.waited(), 5 * second / 4 + second / 4 + LATE_MAX);
        // Woken early, and late as on a busy day.
        now += second / 8;
        patience.slept_until(second / 4, now);
        now += second;
        patience.slept_until(second / 4, now);
        assert_eq!(
            patience.waited(),
            5 * second / 4 + second / 4 + LATE_MAX + second / 8 + second
        );
    }
}
