//! Latencies of a stretch of time, and their tail.

use crate::units::{Instant, Nanos};

/// From so many reads on the 99th percentile is looked at, below the 95th: the slowest two of 200 are a tail, the
/// slowest of 20 is not.
pub(super) const WINDOW_READS_P99: u32 = 200;

/// Latencies by powers of two with four steps each, from 1 us up: enough to tell a quarter more from a quarter less.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) since: Instant,
    counts: [u32; 128],
    pub(super) reads: u32,
}

impl Window {
    pub(super) fn new() -> Window {
        Window {
            since: Instant(0),
            counts: [0; 128],
            reads: 0,
        }
    }

    pub(super) fn add(&mut self, latency: Nanos) {
        self.counts[Window::bucket(latency)] += 1;
        self.reads += 1;
    }

    fn bucket(latency: Nanos) -> usize {
        let us = (latency.0 / 1_000).max(4);
        let log = us.ilog2();
        ((log as usize) * 4 + ((us >> (log - 2)) & 3) as usize).min(127)
    }

    /// The upper edge of a bucket.
    fn edge(bucket: usize) -> Nanos {
        let (log, quarter) = ((bucket / 4) as u32, (bucket % 4) as u64);
        Nanos::from_micros((5 + quarter) << log >> 2)
    }

    /// The 99th percentile, or the 95th of fewer than [`WINDOW_READS_P99`] reads.
    pub(super) fn tail(&self) -> Nanos {
        self.percentile(if self.reads >= WINDOW_READS_P99 { 99 } else { 95 })
    }

    fn percentile(&self, percent: u32) -> Nanos {
        let mut left = self.reads - self.reads * percent / 100;
        for bucket in (0..self.counts.len()).rev() {
            if self.counts[bucket] >= left.max(1) {
                return Window::edge(bucket);
            }
            left -= self.counts[bucket];
        }
        Nanos::ZERO
    }

    pub(super) fn restart(&mut self, now: Instant) {
        *self = Window {
            since: now,
            ..Window::new()
        };
    }
}

/// The last so many of something, and the largest but one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent {
    values: [Nanos; 32],
    count: u32,
}

impl Recent {
    pub(super) fn new() -> Recent {
        Recent {
            values: [Nanos::ZERO; 32],
            count: 0,
        }
    }

    pub(super) fn add(&mut self, value: Nanos) {
        self.values[self.count as usize % self.values.len()] = value;
        self.count = self.count.saturating_add(1);
    }

    /// The largest but one: of 32 about the 95th percentile. `None` before there are four.
    pub(super) fn tail(&self) -> Option<Nanos> {
        let known = &self.values[..(self.count as usize).min(self.values.len())];
        if known.len() < 4 {
            return None;
        }
        let (mut first, mut second) = (Nanos::ZERO, Nanos::ZERO);
        for &value in known {
            if value >= first {
                (first, second) = (value, first);
            } else {
                second = second.max(value);
            }
        }
        Some(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_the_window_are_within_a_quarter() {
        let mut w = Window::new();
        for us in 1..=1000 {
            w.add(Nanos::from_micros(us));
        }
        let p95 = w.percentile(95).0 / 1_000;
        assert!((950..1200).contains(&p95), "{p95}");
    }

    #[test]
    fn the_tail_of_the_recent_is_the_largest_but_one_and_forgets() {
        let mut r = Recent::new();
        assert_eq!(r.tail(), None);
        for us in [9, 3, 7, 1] {
            r.add(Nanos::from_micros(us));
        }
        assert_eq!(r.tail(), Some(Nanos::from_micros(7)));
        for _ in 0..32 {
            r.add(Nanos::from_micros(2));
        }
        assert_eq!(r.tail(), Some(Nanos::from_micros(2)));
    }
}
