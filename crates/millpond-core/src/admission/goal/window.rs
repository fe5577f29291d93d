//! Latencies of a stretch of time, and their tail: what `limit`, `unloaded` and `time_slices` decide by.

use crate::latencies::Latencies;
use crate::units::{Instant, Nanos};

/// From so many reads on the 99th percentile is looked at, below the 95th: the slowest two of 200 are a tail, the
/// slowest of 20 is not.
pub(super) const WINDOW_READS_P99: u32 = 200;

/// Latencies since a time.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) since: Instant,
    latencies: Latencies,
    sum: Nanos,
}

impl Window {
    pub(super) fn new(since: Instant) -> Window {
        Window {
            since,
            latencies: Latencies::default(),
            sum: Nanos::ZERO,
        }
    }

    pub(super) fn add(&mut self, latency: Nanos) {
        self.latencies.add(latency);
        self.sum.0 += latency.0;
    }

    /// The mean; 0 of none.
    pub(super) fn mean(&self) -> Nanos {
        Nanos(self.sum.0 / u64::from(self.reads().max(1)))
    }

    pub(super) fn reads(&self) -> u32 {
        self.latencies.total()
    }

    /// The 99th percentile, or the 95th of fewer than [`WINDOW_READS_P99`] reads: 0 of none.
    pub(super) fn tail(&self) -> Nanos {
        let reads = self.reads();
        let percent = if reads >= WINDOW_READS_P99 { 99 } else { 95 };
        let nth = reads - reads * percent / 100;
        self.latencies.nth_largest(nth).unwrap_or(Nanos::ZERO)
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
