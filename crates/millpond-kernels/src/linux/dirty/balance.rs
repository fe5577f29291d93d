//! What a task that has dirtied pages does: it runs, or sleeps for a number of ticks.
//!
//! ```text
//!   each page dirtied ──► so many since the last look? ──► balance ──► below free-run: run on, look again later
//!                                                             │
//!                                            over: pause = pages / rate, as long as it is worth it
//! ```
//!
//! The composition of the other files, for one domain with devices and tasks. A pause that is too short is put off: the
//! task dirties more between two looks. One that is too long is cut, and what is left is not owed.
//!
//! Linux 7.0: `balance_dirty_pages_ratelimited_flags`, `balance_dirty_pages`.

use super::device::{Completions, DeviceRatios, background_part, part};
use super::limits::{KernelThresholds, KernelVersion};
use super::pause::{POLL_PAGES_EXCEEDED, longest, pause_max, poll_pages, shortest};
use super::position::{DevicePart, ONE, Span, domain_limit_next, factor};
use super::rate::{Bandwidth, Rate, Shown};
use millpond_core::units::PageCount;

/// A task that dirties pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Pages since the last look.
    pub dirtied: u64,
    /// The number of dirtied pages before its next check.
    pub look_after: u64,
    /// When its last sleep ended.
    pub paused_when: u64,
}

impl Default for Task {
    fn default() -> Self {
        Task {
            dirtied: 0,
            look_after: super::pause::POLL_PAGES,
            paused_when: 0,
        }
    }
}

/// The dirty pages at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Ticks.
    pub now: u64,
    /// Ticks a second.
    pub hz: u64,
    /// The limits in force.
    pub thresholds: KernelThresholds,
    /// Pages dirty or being written, in all.
    pub dirty: PageCount,
    /// On this device.
    pub dirty_device: PageCount,
    /// Pages dirtied for this device since the beginning.
    pub dirtied: u64,
    /// Pages written to it.
    pub written: u64,
    /// Pages that a processor dirties before its task looks (`ratelimit`).
    pub ratelimit: u64,
}

/// The task's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Balance {
    /// Go on.
    Run,
    /// Sleep for this many ticks.
    Pause {
        /// Ticks.
        ticks: u64,
        /// And look again at once after it, without dirtying anything: the rate is 0 and the device has work.
        again: bool,
    },
}

/// A device, the domain with it.
#[derive(Clone, Copy, Debug)]
pub struct Balanced {
    version: KernelVersion,
    ratios: DeviceRatios,
    bandwidth: Bandwidth,
    rate: Rate,
    completions: Completions,
    domain_limit: PageCount,
    is_exceeded: bool,
    /// When bandwidth and rate were found last, with what had been dirtied and written.
    found: (u64, u64, u64),
    halved: u64,
    pages_on_cpu: u64,
}

impl Balanced {
    /// An unknown device.
    pub fn new(version: KernelVersion, ratios: DeviceRatios) -> Balanced {
        Balanced {
            version,
            ratios,
            bandwidth: Bandwidth::START,
            rate: Rate::START,
            completions: Completions::default(),
            domain_limit: PageCount(0),
            is_exceeded: false,
            found: (0, 0, 0),
            halved: 0,
            pages_on_cpu: 0,
        }
    }

    /// The rate that each dirtier may dirty at, pages a second.
    pub fn rate(&self) -> u64 {
        self.rate.pages
    }

    /// Its write rate, pages a second.
    pub fn bandwidth(&self) -> u64 {
        self.bandwidth.average
    }

    /// The domain's own limit is set to this one, as a change of a setting does.
    pub fn set_domain_limit(&mut self, hard: PageCount) {
        self.domain_limit = hard;
    }

    /// The task has dirtied pages: whether it has to look.
    pub fn must_look(&mut self, task: &mut Task, pages: u64, ratelimit: u64) -> bool {
        task.dirtied += pages;
        self.pages_on_cpu += pages;
        let after = match self.is_exceeded {
            true => task.look_after.min(POLL_PAGES_EXCEEDED),
            false => task.look_after,
        };
        let looks = self.pages_on_cpu >= ratelimit;
        if looks {
            self.pages_on_cpu = 0;
        }
        looks || task.dirtied >= after
    }

    /// The task looks.
    pub fn balance(&mut self, task: &mut Task, facts: &Facts) -> Balance {
        let (hard, background) = (facts.thresholds.hard, facts.thresholds.background);
        let strict = self.ratios.is_strict;
        let own_hard = part(
            self.version,
            hard,
            facts.dirty,
            self.completions,
            self.ratios,
            self.ratios.min,
        );
        let own_background = background_part(own_hard, facts.thresholds);
        let (dirty, limit, low) = match strict {
            true => (facts.dirty_device, own_hard, own_background),
            false => (facts.dirty, hard, background),
        };
        if dirty.0 <= (limit.0 + low.0) / 2 {
            task.paused_when = facts.now;
            task.dirtied = 0;
            task.look_after = poll_pages(dirty, limit).0;
            self.is_exceeded = false;
            return Balance::Run;
        }
        self.is_exceeded = facts.dirty_device > own_hard && (facts.dirty > hard || strict);
        let span = Span::of(background, hard, self.domain_limit);
        let device = DevicePart {
            dirty: facts.dirty_device,
            hard: own_hard,
            background: own_background,
            bandwidth: self.bandwidth.average,
            is_strict: strict,
        };
        let factor = factor(self.version, facts.dirty, hard, span, &device);
        self.find(facts, factor, (span, device));
        let rate = self.rate.pages * factor / ONE;
        let longest = longest(self.bandwidth.average, facts.dirty_device, facts.hz);
        let shortest = shortest(self.bandwidth.average, self.rate.pages, rate, longest, facts.hz);
        let (mut now, mut pause) = (facts.now, longest);
        if let Some(period) = (facts.hz * task.dirtied).checked_div(rate) {
            // Negative: it looks in the same tick in which its sleep ended, or before that.
            let since = facts.now as i64 - task.paused_when as i64;
            let due = period as i64 - since;
            if due < shortest.pause as i64 {
                if due < -(facts.hz as i64) {
                    (task.paused_when, task.dirtied) = (facts.now, 0);
                } else if period > 0 {
                    task.paused_when += period;
                    task.dirtied = 0;
                } else if task.look_after <= task.dirtied {
                    task.look_after += task.dirtied;
                }
                return Balance::Run;
            }
            pause = due as u64;
            if pause > longest {
                // What is beyond is forgotten, but for as much again.
                now += (pause - longest).min(longest);
                pause = longest;
            }
        }
        task.paused_when = now + pause;
        task.dirtied = 0;
        task.look_after = shortest.pages;
        Balance::Pause {
            ticks: pause,
            again: rate == 0 && facts.dirty_device > PageCount(WRITTEN_ERROR),
        }
    }

    /// Bandwidth, rate, the domain's limit and the device's share, every 200 ms.
    fn find(&mut self, facts: &Facts, factor: u64, (span, device): (Span, DevicePart)) {
        let (when, dirtied, written) = self.found;
        let elapsed = facts.now - when;
        if elapsed < pause_max(facts.hz) {
            return;
        }
        self.found = (facts.now, facts.dirtied, facts.written);
        self.domain_limit = domain_limit_next(self.domain_limit, facts.thresholds.hard, facts.dirty);
        let new = facts.written - written;
        self.bandwidth = self.bandwidth.next(new, elapsed, facts.hz);
        self.completions.own += new;
        self.completions.all += new;
        if facts.now - self.halved > 3 * facts.hz {
            self.halved = facts.now;
            self.completions.halve();
        }
        let (dirty, setpoint) = match device.is_strict {
            true => (device.dirty, PageCount((device.hard.0 + device.background.0) / 2)),
            false => (facts.dirty, span.setpoint),
        };
        // After a second without a task the figures say nothing.
        if elapsed < facts.hz {
            let shown = Shown {
                dirtied: facts.dirtied - dirtied,
                elapsed,
                average: self.bandwidth.average,
                factor,
                dirty,
                setpoint,
            };
            self.rate = self.rate.next(&shown, facts.hz);
        }
    }
}

/// Below this many pages of a device a stopped task is let go: the possible error of the device's counter, with 8
/// processors (`wb_stat_error`: processors times 8 (1 + log2 of them)).
const WRITTEN_ERROR: u64 = 8 * 8 * 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(hard: u64, dirty: u64) -> Facts {
        Facts {
            now: 1000,
            hz: 250,
            thresholds: KernelThresholds {
                background: PageCount(hard / 2),
                hard: PageCount(hard),
            },
            dirty: PageCount(dirty),
            dirty_device: PageCount(dirty),
            dirtied: dirty,
            written: 0,
            ratelimit: 16,
        }
    }

    #[test]
    fn below_the_free_run_limit_nobody_sleeps() {
        let mut device = Balanced::new(KernelVersion::Linux7, DeviceRatios::default());
        let mut task = Task::default();
        assert_eq!(device.balance(&mut task, &facts(2000, 1500)), Balance::Run);
        assert_eq!(task.look_after, 16, "the square root of 500, as a power of two");
    }

    #[test]
    fn at_the_hard_limit_one_sleeps_for_as_long_as_allowed() {
        let mut device = Balanced::new(KernelVersion::Linux7, DeviceRatios::default());
        let mut task = Task {
            paused_when: 1000,
            ..Task::default()
        };
        let told = device.balance(&mut task, &facts(2000, 2000));
        // 2000 / (1 + 25600/32) + 1
        assert_eq!(
            told,
            Balance::Pause {
                ticks: 3,
                again: true
            }
        );
    }

    #[test]
    fn under_a_hard_limit_of_zero_each_page_costs_a_tick() {
        let mut device = Balanced::new(KernelVersion::Linux7, DeviceRatios::default());
        let mut task = Task {
            paused_when: 1000,
            ..Task::default()
        };
        let told = device.balance(&mut task, &facts(0, 8));
        assert_eq!(
            told,
            Balance::Pause {
                ticks: 1,
                again: false
            }
        );
        // Nothing may be dirtied between two looks at a rate of 0, so the 8 pages of a task over the limits are not reached.
        assert_eq!(task.look_after, 0);
        assert!(device.must_look(&mut task, 1, 16));
    }

    #[test]
    fn over_the_limits_a_task_looks_after_eight_pages() {
        let mut device = Balanced::new(KernelVersion::Linux7, DeviceRatios::default());
        let mut task = Task::default();
        device.balance(&mut task, &facts(2000, 2001));
        task.look_after = 32;
        assert!(!device.must_look(&mut task, 7, 1000));
        assert!(device.must_look(&mut task, 1, 1000));
    }

    #[test]
    fn a_processors_count_makes_a_task_look_too() {
        let mut device = Balanced::new(KernelVersion::Linux7, DeviceRatios::default());
        let (mut one, mut other) = (Task::default(), Task::default());
        assert!(!device.must_look(&mut one, 10, 16));
        assert!(device.must_look(&mut other, 6, 16), "16 pages on this processor");
        assert!(!device.must_look(&mut other, 1, 16));
    }
}
