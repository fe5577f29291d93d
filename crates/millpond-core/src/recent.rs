//! Current read latency: a high percentile over the last one to two seconds.
//!
//! ```text
//!   before ──► now            counts by latency
//!              one second, then `now` becomes `before`; what is older is forgotten
//! ```
//!
//! For explanations only. The admission makes its decisions from its own measurements.

use crate::latencies::Latencies;
use crate::units::{Instant, Nanos};

/// Long enough for some reads on a slow disk, short enough to count as current.
const SPAN: Nanos = Nanos::from_secs(1);

/// Latencies of the recent past.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    began: Instant,
    now: Latencies,
    before: Latencies,
}

impl Recent {
    /// Adds one that ended at `now`.
    pub fn add(&mut self, now: Instant, latency: Nanos) {
        let age = now.since(self.began);
        if age >= SPAN {
            let last = core::mem::take(&mut self.now);
            let is_recent = age < Nanos(2 * SPAN.0);
            self.before = if is_recent { last } else { Latencies::default() };
            self.began = now;
        }
        self.now.add(latency);
    }

    /// The p99, at most a quarter too high; `None` without samples.
    pub fn p99(&self, now: Instant) -> Option<Nanos> {
        let all = self.all(now);
        all.nth_largest(all.total() / 100 + 1)
    }

    /// The median, at most a quarter too high; `None` without samples.
    pub fn p50(&self, now: Instant) -> Option<Nanos> {
        let all = self.all(now);
        all.nth_largest(all.total() / 2 + 1)
    }

    fn all(&self, now: Instant) -> Latencies {
        let age = now.since(self.began);
        let mut all = Latencies::default();
        if age < Nanos(2 * SPAN.0) {
            all.merge(&self.now);
        }
        if age < SPAN {
            all.merge(&self.before);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(0) + Nanos::from_millis(ms)
    }

    #[test]
    fn the_percentile_is_no_less_and_at_most_a_quarter_more() {
        for us in [1, 4, 5, 7, 8, 100, 999, 2_400, 65_000, 400_000] {
            let mut recent = Recent::default();
            recent.add(at(0), Nanos::from_micros(us));
            let p99 = recent.p99(at(0)).map_or(0, |ns| ns.0 / 1_000);
            assert!(p99 > us && p99 <= (us + us / 4 + 1).max(5), "{us} us: {p99}");
        }
    }

    #[test]
    fn one_in_a_hundred_is_left_out_and_two_are_not() {
        let mut recent = Recent::default();
        for _ in 0..99 {
            recent.add(at(1), Nanos::from_micros(100));
        }
        recent.add(at(1), Nanos::from_millis(50));
        assert!(recent.p99(at(1)).is_some_and(|p99| p99 < Nanos::from_micros(200)));
        recent.add(at(1), Nanos::from_millis(50));
        assert!(recent.p99(at(1)).is_some_and(|p99| p99 > Nanos::from_millis(49)));
        assert!(recent.p50(at(1)).is_some_and(|p50| p50 < Nanos::from_micros(200)));
    }

    #[test]
    fn values_of_two_seconds_ago_are_forgotten() {
        let mut recent = Recent::default();
        assert_eq!(recent.p99(at(0)), None);
        recent.add(at(100), Nanos::from_millis(50));
        assert!(recent.p99(at(1_900)).is_some());
        recent.add(at(1_200), Nanos::from_micros(100));
        let with_before = recent.p99(at(1_300));
        assert!(with_before.is_some_and(|p99| p99 > Nanos::from_millis(49)));
        recent.add(at(3_300), Nanos::from_micros(100));
        assert!(
            recent
                .p99(at(3_300))
                .is_some_and(|p99| p99 < Nanos::from_millis(1))
        );
        assert_eq!(recent.p99(at(9_000)), None);
    }
}
