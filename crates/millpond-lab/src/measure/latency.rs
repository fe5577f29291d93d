//! Latencies of single operations and their percentiles.
//!
//! **Definition.** The p-th percentile is the smallest latency that at least p % of the operations did not
//! exceed (nearest rank). The p99 of 60 reads is therefore their maximum, and of no reads nothing.
//! Values are kept to three significant digits in a histogram of constant size (about 250 KiB), the mean,
//! the least and the greatest exactly.
//!
//! The percentiles are over operations, not over time: a reader that waits for each answer before it asks
//! again asks less often while answers are slow. The median over time and the series over time show what this hides.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Latencies beyond this count as this: longer than any run.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// The percentiles every experiment reports: (share, the ending of the metric's name).
pub const PERCENTILES: [(f64, &str); 5] = [
    (0.50, "p50"),
    (0.90, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.999, "p999"),
];

/// Those that fio prints, with the endings of their metrics' names.
pub const FIO_PERCENTILES: [(f64, &str); 17] = [
    (0.01, "p1"),
    (0.05, "p5"),
    (0.10, "p10"),
    (0.20, "p20"),
    (0.30, "p30"),
    (0.40, "p40"),
    (0.50, "p50"),
    (0.60, "p60"),
    (0.70, "p70"),
    (0.80, "p80"),
    (0.90, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.995, "p995"),
    (0.999, "p999"),
    (0.9995, "p9995"),
    (0.9999, "p9999"),
];

/// A set of latencies. Recording takes a few nanoseconds and no allocation.
pub struct Latencies {
    histogram: Histogram<u64>,
    least_ns: u64,
    greatest_ns: u64,
    sum_ns: u128,
    /// Of squares, in microseconds.
    square_sum: f64,
}

impl Latencies {
    /// No latencies yet.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts.
    pub fn new() -> Latencies {
        #[expect(
            clippy::unwrap_used,
            reason = "1 ns to 1 h at 3 digits is within the histogram's bounds"
        )]
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).unwrap();
        Latencies {
            histogram,
            least_ns: u64::MAX,
            greatest_ns: 0,
            sum_ns: 0,
            square_sum: 0.0,
        }
    }

    /// Adds one.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).map_or(LATENCY_NS_MAX, |ns| ns.clamp(1, LATENCY_NS_MAX));
        self.histogram.saturating_record(ns);
        self.least_ns = self.least_ns.min(ns);
        self.greatest_ns = self.greatest_ns.max(ns);
        self.sum_ns += u128::from(ns);
        self.square_sum += (ns as f64 / 1e3).powi(2);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        for value in other.histogram.iter_recorded() {
            self.histogram
                .saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
        self.least_ns = self.least_ns.min(other.least_ns);
        self.greatest_ns = self.greatest_ns.max(other.greatest_ns);
        self.sum_ns += other.sum_ns;
        self.square_sum += other.square_sum;
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency in microseconds that a `share` (0 to 1) of the operations did not exceed.
    pub fn percentile_us(&self, share: f64) -> Option<f64> {
        (self.count() > 0).then(|| {
            let ns = self.histogram.value_at_quantile(share);
            ns.clamp(self.least_ns, self.greatest_ns) as f64 / 1e3
        })
    }

    /// The greatest in microseconds.
    pub fn max_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.greatest_ns as f64 / 1e3)
    }

    /// The arithmetic mean in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64 / 1e3)
    }

    /// The latency, in microseconds, of the operation that is under way at a moment drawn at random: half of all the time
    /// that operations took is in shorter ones.
    pub fn median_over_time_us(&self) -> Option<f64> {
        let ns = |value: u64| value.clamp(self.least_ns, self.greatest_ns);
        let mut left = self.sum_ns / 2;
        let under_way = self.histogram.iter_recorded().find(|values| {
            let took = u128::from(ns(values.value_iterated_to())) * u128::from(values.count_at_value());
            let is_it = took >= left;
            left = left.saturating_sub(took);
            is_it
        });
        under_way.map(|values| ns(values.value_iterated_to()) as f64 / 1e3)
    }

    /// The least in microseconds.
    pub fn min_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.least_ns as f64 / 1e3)
    }

    /// The standard deviation in microseconds.
    pub fn stdev_us(&self) -> Option<f64> {
        let mean = self.mean_us()?;
        let variance = self.square_sum / self.count() as f64 - mean * mean;
        Some(variance.max(0.0).sqrt())
    }

    /// Points (share, microseconds) for a plot, denser towards the slow end, up to the last operation.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let count = self.count();
        if count == 0 {
            return Vec::new();
        }
        let mut points = Vec::new();
        // ten points to each halving of the share that is slower, until less than one operation is left
        let mut slower = 1.0_f64;
        while slower * count as f64 >= 1.0 {
            let share = 1.0 - slower;
            if let Some(us) = self.percentile_us(share) {
                points.push((share, us));
            }
            slower *= 0.5_f64.powf(0.1);
        }
        if let Some(us) = self.max_us() {
            points.push((1.0, us));
        }
        points
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_micros(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        for us in values {
            latencies.record(Duration::from_micros(us));
        }
        latencies
    }

    /// The definition itself, on the sorted values.
    fn nearest_rank(values: &[u64], share: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank - 1]
    }

    #[test]
    fn percentiles_of_1_to_1000_are_their_own_names() {
        let latencies = of_micros(1..=1000);
        for (share, us) in [
            (0.5, 500.0),
            (0.9, 900.0),
            (0.95, 950.0),
            (0.99, 990.0),
            (0.999, 999.0),
        ] {
            let found = latencies.percentile_us(share).unwrap();
            assert!((found - us).abs() <= us * 0.001, "{share}: {found}");
        }
        assert_eq!(latencies.max_us(), Some(1000.0));
        assert_eq!(latencies.mean_us(), Some(500.5));
        assert_eq!(latencies.min_us(), Some(1.0));
        // of 1 to n: the root of (n^2 - 1) / 12
        let stdev = latencies.stdev_us().unwrap();
        assert!((stdev - 288.675).abs() < 0.001, "{stdev}");
    }

    #[test]
    fn p99_of_sixty_reads_is_their_maximum() {
        let latencies = of_micros((1..=59).chain([5000]));
        assert_eq!(latencies.percentile_us(0.99), Some(5000.0));
        let p50 = latencies.percentile_us(0.5).unwrap();
        assert!((p50 - 30.0).abs() < 0.1, "{p50}");
    }

    #[test]
    fn over_time_one_long_read_outweighs_many_short_ones() {
        let latencies = of_micros((0..99).map(|_| 50).chain([10_000]));
        assert!((latencies.percentile_us(0.5).unwrap() - 50.0).abs() < 0.1);
        assert_eq!(latencies.median_over_time_us(), Some(10_000.0));
        let even = of_micros((0..99).map(|_| 50).chain([4_000]));
        assert!((even.median_over_time_us().unwrap() - 50.0).abs() < 0.1);
        assert_eq!(Latencies::new().median_over_time_us(), None);
    }

    #[test]
    fn an_empty_record_has_no_percentiles() {
        let latencies = Latencies::new();
        assert_eq!(latencies.percentile_us(0.5), None);
        assert_eq!(latencies.max_us(), None);
        assert_eq!(latencies.mean_us(), None);
        assert!(latencies.curve().is_empty());
    }

    #[test]
    fn a_latency_beyond_the_scale_counts_as_its_end() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.max_us(), Some(3.6e9));
    }

    proptest! {
        #[test]
        fn agrees_with_the_sorted_list(values in prop::collection::vec(1_u64..10_000_000, 1..300)) {
            let latencies = of_micros(values.iter().copied());
            for (share, _) in PERCENTILES {
                let expected = nearest_rank(&values, share) as f64;
                let found = latencies.percentile_us(share).unwrap();
                prop_assert!((found - expected).abs() <= expected * 0.001 + 0.001, "{}: {} not {}", share, found, expected);
            }
        }

        #[test]
        fn merging_is_recording_all(a in prop::collection::vec(1_u64..1_000_000, 1..50), b in prop::collection::vec(1_u64..1_000_000, 0..50)) {
            let mut merged = of_micros(a.iter().copied());
            merged.merge(&of_micros(b.iter().copied()));
            let all = of_micros(a.into_iter().chain(b));
            prop_assert_eq!(merged.count(), all.count());
            prop_assert_eq!(merged.max_us(), all.max_us());
            prop_assert_eq!(merged.mean_us(), all.mean_us());
            prop_assert_eq!(merged.percentile_us(0.9), all.percentile_us(0.9));
        }

        #[test]
        fn the_curve_rises(values in prop::collection::vec(1_u64..10_000_000, 1..300)) {
            let latencies = of_micros(values);
            let curve = latencies.curve();
            for pair in curve.windows(2) {
                prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{:?}", pair);
            }
            prop_assert_eq!(curve.last().map(|p| p.1), latencies.max_us());
        }
    }
}
