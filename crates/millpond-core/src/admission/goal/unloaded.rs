//! What reads take while no write is in transit: below that no goal is of use.
//!
//! What it decides: the unloaded p95; the goal in force is three times that at least. A higher percentile of several readers is
//! what they make each other wait, and no property of the device. By what: the latencies of reads during
//! which no write was in transit, the last 200 to 400 of them. In the literature: Vegas' base round trip, BBR's `RTprop`.

use crate::latencies::Latencies;
use crate::units::Nanos;

/// So many reads have a tail that one of them does not make.
const READS_MIN: u32 = 64;
/// When there are so many each counts half.
const READS_MAX: u32 = 400;

/// Reads during which no write was in transit.
#[derive(Clone, Debug, Default)]
pub(super) struct UnloadedReads {
    reads: Latencies,
    p95: Nanos,
}

impl UnloadedReads {
    pub(super) fn add(&mut self, latency: Nanos) {
        self.reads.add(latency);
        if self.reads.total() >= READS_MIN {
            self.p95 = self
                .reads
                .nth_largest(self.reads.total() / 20 + 1)
                .unwrap_or_default();
        }
        if self.reads.total() >= READS_MAX {
            self.reads.halve();
        }
    }

    /// 0 before there were enough reads.
    pub(super) fn p95(&self) -> Nanos {
        self.p95
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A goal of 500 us became 960 us by it, for seconds.
    #[test]
    fn one_read_out_of_the_usual_changes_nothing_and_what_stays_is_learnt() {
        let mut reads = UnloadedReads::default();
        for n in 0..READS_MIN {
            assert_eq!(reads.p95(), Nanos::ZERO);
            reads.add(Nanos::from_micros(if n == 7 { 400 } else { 100 }));
        }
        let usual = reads.p95();
        assert!((100..130).contains(&(usual.0 / 1_000)), "{usual:?}");
        for _ in 0..READS_MIN {
            reads.add(Nanos::from_micros(400));
        }
        assert!(reads.p95() >= Nanos::from_micros(400));
        for _ in 0..4 * READS_MAX {
            reads.add(Nanos::from_micros(100));
        }
        assert_eq!(reads.p95(), usual);
    }
}
