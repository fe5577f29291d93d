//! A histogram of latencies: four buckets per power of two from 1 us up, fine enough to see a difference of a quarter.

use crate::units::Nanos;

const BUCKETS: usize = 112;

/// Number of latencies, by size.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            counts: [0; BUCKETS],
            total: 0,
        }
    }
}

impl Latencies {
    /// Adds one.
    pub(crate) fn add(&mut self, latency: Nanos) {
        self.counts[bucket(latency)] += 1;
        self.total += 1;
    }

    /// The number of latencies.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Halves the weight of every latency. Half of each size and of all above it remain, so rare large latencies are
    /// not forgotten first.
    pub(crate) fn halve(&mut self) {
        let (mut above, mut left) = (0, 0);
        for count in self.counts.iter_mut().rev() {
            above += *count;
            *count = above / 2 - left;
            left += *count;
        }
        self.total = left;
    }

    /// The latencies of both.
    pub(crate) fn merge(&mut self, other: &Latencies) {
        for (own, others) in self.counts.iter_mut().zip(&other.counts) {
            *own += others;
        }
        self.total += other.total;
    }

    /// The value that more than one in a hundred exceed beyond chance, by two standard errors of their number: of 20
    /// the second largest, of 100 the fourth, of 10,000 the 121st. So it is the 99th percentile for large numbers,
    /// without a jump on the way there. `None` without latencies.
    pub(crate) fn p99(&self) -> Option<Nanos> {
        self.nth_largest((self.total + 20 * self.total.isqrt()) / 100 + 1)
    }

    /// The `nth` largest, counting from 1, at most a quarter too high; `None` if there are fewer.
    pub(crate) fn nth_largest(&self, nth: u32) -> Option<Nanos> {
        let mut left = nth.max(1);
        for (n, &count) in self.counts.iter().enumerate().rev() {
            if count >= left {
                return Some(edge(n));
            }
            left -= count;
        }
        None
    }
}

fn bucket(latency: Nanos) -> usize {
    let us = (latency.0 / 1_000).max(4);
    let log = us.ilog2();
    ((log as usize - 2) * 4 + ((us >> (log - 2)) & 3) as usize).min(BUCKETS - 1)
}

/// The end of a bucket.
fn edge(bucket: usize) -> Nanos {
    let (log, quarter) = ((bucket / 4) as u32, (bucket % 4) as u64);
    Nanos::from_micros((5 + quarter) << log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_largest_is_within_a_quarter() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.nth_largest(1), None);
        for us in 1..=1000 {
            latencies.add(Nanos::from_micros(us));
        }
        let p95 = latencies.nth_largest(50).unwrap_or_default().0 / 1_000;
        assert!((950..1200).contains(&p95), "{p95}");
        assert_eq!(latencies.nth_largest(1_001), None);
    }

    #[test]
    fn the_99th_percentile_of_few_is_within_what_chance_explains() {
        let with_late = |reads: u32, late: u32| {
            let mut latencies = Latencies::default();
            for n in 0..reads {
                latencies.add(Nanos::from_millis(if n < late { 50 } else { 1 }));
            }
            latencies.p99() > Some(Nanos::from_millis(10))
        };
        for (reads, late) in [(20, 2), (100, 4), (400, 9), (10_000, 121)] {
            assert!(with_late(reads, late), "{late} of {reads}");
            assert!(!with_late(reads, late - 1), "{late} of {reads}, but for one");
        }
    }

    #[test]
    fn rare_high_latencies_are_not_forgotten_first() {
        let mut latencies = Latencies::default();
        for n in 0..400 {
            latencies.add(Nanos::from_millis(if n < 4 { 10 << n } else { 1 }));
        }
        latencies.halve();
        assert_eq!(latencies.total(), 200);
        let second = latencies.nth_largest(2);
        assert!(second >= Some(Nanos::from_millis(10)), "{second:?}");
        latencies.halve();
        assert_eq!(latencies.nth_largest(1), second);
    }

    #[test]
    fn merged_latencies_count_as_if_added() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.add(Nanos::from_micros(10));
        other.add(Nanos::from_millis(10));
        one.merge(&other);
        assert_eq!(one.total(), 2);
        assert!(one.nth_largest(1) > Some(Nanos::from_millis(9)));
    }
}
