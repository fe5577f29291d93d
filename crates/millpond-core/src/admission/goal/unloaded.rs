//! Read latency while no write is in transit: no goal below it is useful.
//!
//! Decides the unloaded p95; the goal in force is at least three times that. The inputs are the latencies of reads
//! during which no write was in transit, 200 at a time. Known as: Vegas's base round trip, BBR's `RTprop`.
//!
//! The p99 of 200 reads depends on one or two of them, and on a busy machine it is occasionally three times its usual
//! value: a goal of 500 us became 960 us for seconds. So this uses the 95th percentile, and the median of the last
//! three. Old values are dropped at once, not by halves: with several readers they include the time these make each
//! other wait, and a goal raised for that must come down as soon as the wait is over.

use crate::latencies::Latencies;
use crate::units::{Instant, Nanos};

/// The number of reads that have a tail.
const READS: u32 = 200;
/// After this time fewer are enough.
const READS_MIN: u32 = 20;
const SPAN: Nanos = Nanos::from_secs(2);

/// Reads during which no write was in transit.
#[derive(Clone, Debug)]
pub(super) struct UnloadedReads {
    reads: Latencies,
    since: Instant,
    /// The p95s of the last windows, oldest first; 0 before there were any.
    last: [Nanos; 3],
}

impl UnloadedReads {
    pub(super) fn new() -> UnloadedReads {
        UnloadedReads {
            reads: Latencies::default(),
            since: Instant(0),
            last: [Nanos::ZERO; 3],
        }
    }

    pub(super) fn add(&mut self, now: Instant, latency: Nanos) {
        self.reads.add(latency);
        let (total, is_long) = (self.reads.total(), now.since(self.since) >= SPAN);
        if total >= READS || (is_long && total >= READS_MIN) {
            let p95 = self.reads.nth_largest(total / 20 + 1).unwrap_or_default();
            let [_, second, third] = self.last;
            self.last = match third {
                Nanos::ZERO => [p95; 3],
                _ => [second, third, p95],
            };
            (self.reads, self.since) = (Latencies::default(), now);
        }
    }

    /// The middle of the last three; 0 before there were enough reads.
    pub(super) fn p95(&self) -> Nanos {
        let mut last = self.last;
        last.sort_unstable();
        last[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p95_after(reads: &mut UnloadedReads, us: u64) -> Nanos {
        for _ in 0..READS {
            reads.add(Instant(0), Nanos::from_micros(us));
        }
        reads.p95()
    }

    #[test]
    fn one_tail_out_of_the_usual_changes_nothing_and_two_do() {
        let mut reads = UnloadedReads::new();
        assert_eq!(reads.p95(), Nanos::ZERO);
        let usual = p95_after(&mut reads, 100);
        assert!(usual >= Nanos::from_micros(100));
        assert_eq!(p95_after(&mut reads, 400), usual);
        assert_eq!(p95_after(&mut reads, 100), usual);
        assert_eq!(p95_after(&mut reads, 100), usual);
        assert_eq!(p95_after(&mut reads, 400), usual);
        assert!(p95_after(&mut reads, 400) >= Nanos::from_micros(400));
    }
}
