//! What the post itself reported (Axboe 2016): XFS on a rotating disk, deadline scheduler, Linux
//! 4.6-rc1, 50 files of 100 MB, fio reading another file 4 KiB at a time.
//!
//! Its percentiles are over all reads, and most of those came out of read-ahead: compare how the two columns
//! relate, not their reads with random ones.

/// A number from the post.
#[derive(Debug)]
pub struct Published {
    /// The variant that it belongs to: `off` is without the patches, `v3-10` with them at 10 %.
    pub variant: &'static str,
    /// The workload.
    pub workload: &'static str,
    /// The metric that it corresponds to.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The number.
    pub value: f64,
}

const fn of(
    variant: &'static str,
    workload: &'static str,
    metric: &'static str,
    unit: &'static str,
    value: f64,
) -> Published {
    Published {
        variant,
        workload,
        metric,
        unit,
        value,
    }
}

const BOTH: &str = "writers-and-reader";

/// All of them that have a counterpart here.
pub const PUBLISHED: &[Published] = &[
    of("off", BOTH, "reader_reads_per_s", "1/s", 134.0),
    of("off", BOTH, "reader_latency_p50_us", "us", 43.0),
    of("off", BOTH, "reader_latency_p90_us", "us", 87.0),
    of("off", BOTH, "reader_latency_p95_us", "us", 1_192.0),
    of("off", BOTH, "reader_latency_p99_us", "us", 254_976.0),
    of("off", BOTH, "reader_latency_p999_us", "us", 444_416.0),
    of("off", BOTH, "reader_latency_max_us", "us", 654_204.0),
    of("off", BOTH, "reader_latency_mean_us", "us", 7_432.37),
    of("off", BOTH, "writers_seconds", "s", 66.304),
    of("v3-10", BOTH, "reader_reads_per_s", "1/s", 4_660.0),
    of("v3-10", BOTH, "reader_latency_p50_us", "us", 42.0),
    of("v3-10", BOTH, "reader_latency_p90_us", "us", 56.0),
    of("v3-10", BOTH, "reader_latency_p95_us", "us", 60.0),
    of("v3-10", BOTH, "reader_latency_p99_us", "us", 454.0),
    of("v3-10", BOTH, "reader_latency_p999_us", "us", 36_608.0),
    of("v3-10", BOTH, "reader_latency_max_us", "us", 408_400.0),
    of("v3-10", BOTH, "reader_latency_mean_us", "us", 212.05),
    of("v3-10", BOTH, "writers_seconds", "s", 89.384),
    of("v3-10", "writers-alone", "writers_seconds", "s", 66.919),
];

/// The number that corresponds to a metric.
pub fn published(variant: &str, workload: &str, metric: &str) -> Option<f64> {
    let found = PUBLISHED
        .iter()
        .find(|p| p.variant == variant && p.workload == workload && p.metric == metric);
    found.map(|p| p.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The post's own arithmetic: what it says of the gain follows from its numbers.
    #[test]
    fn the_numbers_fit_each_other() {
        let ratio =
            |metric| published("v3-10", BOTH, metric).unwrap() / published("off", BOTH, metric).unwrap();
        assert!((34.0..36.0).contains(&ratio("reader_reads_per_s")));
        assert!((1.34..1.36).contains(&ratio("writers_seconds")));
        assert!((500.0..600.0).contains(&(1.0 / ratio("reader_latency_p99_us"))));
        // 18640 KB/s in reads of 4 KiB
        assert_eq!(18_640 / 4, 4_660);
        // 550868 B/s likewise, which fio rounds down
        assert_eq!(550_868 / 4_096, 134);
    }

    #[test]
    fn percentiles_rise() {
        let names = ["p50", "p90", "p95", "p99", "p999", "max"].map(|p| format!("reader_latency_{p}_us"));
        for variant in ["off", "v3-10"] {
            let values: Vec<_> = names
                .iter()
                .map(|n| published(variant, BOTH, n).unwrap())
                .collect();
            assert!(values.is_sorted(), "{variant}: {values:?}");
        }
    }
}
