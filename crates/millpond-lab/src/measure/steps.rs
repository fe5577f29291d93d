//! The events of each tenth of a second.
//!
//! A thread that does an operation writes it down under the time at which it ended, so a sampling thread that is
//! scheduled late cannot shift it. The longest latency is written under every step during which that
//! operation was under way: a read that waits half a second shows as half a second of waiting, and not as
//! four empty steps and one bad one.

use crate::outcome::Series;
use std::time::Duration;

/// One step: short enough to show single stalls of a disk, long enough for a few of its reads.
pub const STEP: Duration = Duration::from_millis(100);

/// Counts per step.
#[derive(Clone, Debug, Default)]
pub struct Sums(Vec<u64>);

impl Sums {
    /// Adds `amount` to the step that holds `at`.
    #[inline]
    pub fn add(&mut self, at: Duration, amount: u64) {
        let step = step_of(at);
        if step >= self.0.len() {
            self.0.resize(step + 1, 0);
        }
        self.0[step] += amount;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Sums) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (sum, &more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// The sums as a series of `steps` values, each times `factor`.
    pub fn series(&self, name: &str, unit: &str, steps: usize, factor: f64) -> Series {
        let value = |n| Some(self.0.get(n).copied().unwrap_or(0) as f64 * factor);
        Series {
            name: name.into(),
            unit: unit.into(),
            step_s: STEP.as_secs_f64(),
            values: (0..steps).map(value).collect(),
        }
    }
}

/// Mean and greatest latency per step.
#[derive(Clone, Debug, Default)]
pub struct LatencySteps {
    count: Sums,
    sum_ns: Sums,
    greatest_ns: Vec<u64>,
}

impl LatencySteps {
    /// Adds an operation that took `latency` and was under way in the steps from `from` to `to`: less than its latency,
    /// if it began before the first step.
    pub fn add(&mut self, from: Duration, to: Duration, latency: Duration) {
        let ns = latency.as_nanos() as u64;
        self.count.add(to, 1);
        self.sum_ns.add(to, ns);
        let (first, last) = (step_of(from), step_of(to));
        if last >= self.greatest_ns.len() {
            self.greatest_ns.resize(last + 1, 0);
        }
        for greatest in &mut self.greatest_ns[first..=last] {
            *greatest = ns.max(*greatest);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &LatencySteps) {
        self.count.merge(&other.count);
        self.sum_ns.merge(&other.sum_ns);
        if other.greatest_ns.len() > self.greatest_ns.len() {
            self.greatest_ns.resize(other.greatest_ns.len(), 0);
        }
        for (greatest, &other) in self.greatest_ns.iter_mut().zip(&other.greatest_ns) {
            *greatest = other.max(*greatest);
        }
    }

    /// The mean over the operations that ended in each step, in microseconds.
    pub fn mean_series(&self, name: &str, steps: usize) -> Series {
        let value = |n| match self.count.0.get(n) {
            Some(&count) if count > 0 => Some(self.sum_ns.0[n] as f64 / count as f64 / 1e3),
            _ => None,
        };
        self.micros(name, (0..steps).map(value).collect())
    }

    /// The longest of the operations that were under way in each step, in microseconds.
    pub fn max_series(&self, name: &str, steps: usize) -> Series {
        let value = |n| match self.greatest_ns.get(n) {
            Some(&ns) if ns > 0 => Some(ns as f64 / 1e3),
            _ => None,
        };
        self.micros(name, (0..steps).map(value).collect())
    }

    fn micros(&self, name: &str, values: Vec<Option<f64>>) -> Series {
        Series {
            name: name.into(),
            unit: "us".into(),
            step_s: STEP.as_secs_f64(),
            values,
        }
    }
}

/// A counter that others advance, read from time to time: its growth is spread evenly over the time between
/// two readings.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    last: Option<(Duration, u64)>,
    sums: Sums,
}

impl Sampled {
    /// The counter stands at `value` at the time `at`.
    pub fn sample(&mut self, at: Duration, value: u64) {
        if let Some((before, old)) = self.last.replace((at, value))
            && at > before
        {
            let grown = value.saturating_sub(old);
            let mut spread = 0;
            for step in step_of(before)..=step_of(at) {
                let end = (STEP * (step as u32 + 1)).min(at);
                let due = (grown as f64 * (end - before).as_secs_f64() / (at - before).as_secs_f64()) as u64;
                self.sums.add(STEP * step as u32, due - spread);
                spread = due;
            }
        }
    }

    /// The sums per step.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }
}

/// The number of steps in a run of this length; at least one.
pub fn steps_in(length: Duration) -> usize {
    step_of(length.saturating_sub(Duration::from_nanos(1))) + 1
}

fn step_of(at: Duration) -> usize {
    (at.as_nanos() / STEP.as_nanos()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_long_read_is_seen_in_every_step_that_it_spans() {
        let mut steps = LatencySteps::default();
        steps.add(10 * MS, 20 * MS, 10 * MS);
        steps.add(20 * MS, 370 * MS, 350 * MS);
        steps.add(370 * MS, 371 * MS, MS);
        let max = steps.max_series("max", 6).values;
        assert_eq!(
            max,
            [350e3, 350e3, 350e3, 350e3, -1.0, -1.0].map(|us| (us > 0.0).then_some(us))
        );
        let mean = steps.mean_series("mean", 4).values;
        assert_eq!(mean, [Some(10e3), None, None, Some((350e3 + 1e3) / 2.0)]);
    }

    #[test]
    fn sums_of_two_threads_add_up() {
        let (mut a, mut b) = (Sums::default(), Sums::default());
        a.add(50 * MS, 1);
        b.add(99 * MS, 2);
        b.add(250 * MS, 4);
        a.merge(&b);
        assert_eq!(
            a.series("n", "1", 4, 10.0).values,
            [Some(30.0), Some(0.0), Some(40.0), Some(0.0)]
        );
    }

    #[test]
    fn a_late_sample_is_spread_over_the_steps_it_missed_and_nothing_is_lost() {
        let mut sampled = Sampled::default();
        sampled.sample(Duration::ZERO, 1000);
        sampled.sample(100 * MS, 1100);
        sampled.sample(400 * MS, 1401);
        let values = sampled.sums().series("n", "1", 5, 1.0).values;
        assert_eq!(
            values,
            [Some(100.0), Some(100.0), Some(100.0), Some(101.0), Some(0.0)]
        );
    }

    #[test]
    fn a_run_has_a_step_for_each_tenth_that_it_began() {
        assert_eq!(steps_in(Duration::ZERO), 1);
        assert_eq!(steps_in(100 * MS), 1);
        assert_eq!(steps_in(101 * MS), 2);
    }
}
