//! The report's first lines: writing in queue order beside two laps and beside Millpond, what the post says of its own, and
//! the other parts each in a line; on real files the kernel beside Millpond's engine.

use super::published::{LOADS, published};
use super::runs::row;
use super::{BUDGETS, DEADLOCK, IN_TRANSIT, NEWS};
use crate::report::Metric;
use crate::report::verdict::{Circumstances, Figure, Side, compare, time, two_digits};

/// A comparison of two rows of a workload: the rows, what they are called, and by what they are compared.
type Pair = (&'static str, [&'static str; 2], &'static str, &'static [Figure]);

const OF_NEWS: &[Figure] = &[
    Figure::new("load", "load_mean", two_digits),
    Figure::new("one article in 100", "article_latency_p99_us", time),
    Figure::new("readers got", "articles_per_s", two_digits)
        .higher()
        .cost("as many articles"),
    Figure::new("it wrote", "pageouts_per_s", two_digits).cost("as many pages"),
];

const OF_STREAM: &[Figure] = &[
    Figure::new("in transit at most", "in_transit_max_kib", mib),
    Figure::new("one article in 100", "article_latency_p99_us", time),
    Figure::new("it wrote", "written_mb_per_s", two_digits)
        .higher()
        .cost("as many bytes a second"),
];

/// On real files.
pub(super) const OF_FILES: &[Figure] = &[
    Figure::new("slowest article", "article_latency_max_us", time),
    Figure::new("one in 100", "article_latency_p99_us", time),
    Figure::new("readers got", "articles_per_s", two_digits)
        .higher()
        .cost("as many articles"),
];

const PAIRS: [Pair; 6] = [
    (
        NEWS,
        ["queue-order", "two-laps"],
        "queue order -> two laps",
        OF_NEWS,
    ),
    (
        NEWS,
        ["queue-order", "millpond"],
        "queue order -> Millpond",
        OF_NEWS,
    ),
    (NEWS, ["two-laps", "millpond"], "two laps -> Millpond", OF_NEWS),
    (
        BUDGETS,
        ["queue-order no budget", "two-laps no budget"],
        "queue order without a budget -> two laps without one",
        OF_NEWS,
    ),
    (
        IN_TRANSIT,
        ["no-limit", "high-1M-low-512K"],
        "no limit in transit -> 1 MiB high, 512 KiB low",
        OF_STREAM,
    ),
    (
        DEADLOCK,
        ["two-laps without reserve", "two-laps with reserve"],
        "without a reserve for I/O -> with it",
        &[Figure::new("deadlocks", "deadlocks", two_digits)],
    ),
];

/// For runs in virtual time.
pub(super) fn of_virtual_time(metrics: &[Metric]) -> Vec<String> {
    let line = |(workload, pair, sides, figures): &Pair| {
        let rows = pair.map(row);
        let pair = rows.each_ref().map(|row| Side { row, workload });
        let verdict = compare(metrics, pair, figures, &Circumstances::exact())?;
        Some(verdict.between(&format!("{workload}: {sides}")))
    };
    let mut lines: Vec<String> = PAIRS.iter().filter_map(line).collect();
    let is_blown_up = |metric: &Metric| metric.workload == NEWS && metric.variant == "queue-order";
    if metrics.iter().any(is_blown_up) {
        lines.extend(of_the_post());
    }
    lines
}

/// The post's figures of its machine.
fn of_the_post() -> Option<String> {
    let said: Vec<String> = LOADS
        .iter()
        .map(|(row, _)| Some(format!("{} {}", published(row)?, row.replace('-', " "))))
        .collect::<Option<_>>()?;
    Some(format!("news, the post of 2000: load {}.", said.join(", ")))
}

fn mib(kib: f64) -> String {
    format!("{} MiB", two_digits(kib / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RowName;
    use crate::report::tests::{self, metric};
    use crate::report::verdict::kernel_beside_engine;

    #[test]
    fn each_pair_that_ran_has_a_line_and_the_post_its_own() {
        let of = |workload, variant, figures: &[(&str, f64)]| -> Vec<Metric> {
            let of = |&(name, value)| metric(&row(variant), workload, name, &[value]);
            figures.iter().map(of).collect()
        };
        let news = |variant, load| {
            let figures = [
                ("load_mean", load),
                ("article_latency_p99_us", 20e3),
                ("articles_per_s", 80.0),
                ("pageouts_per_s", 40.0),
            ];
            of(NEWS, variant, &figures)
        };
        let metrics = [
            news("queue-order", 75.0),
            news("two-laps", 2.5),
            of(DEADLOCK, "two-laps without reserve", &[("deadlocks", 1.0)]),
            of(DEADLOCK, "two-laps with reserve", &[("deadlocks", 0.0)]),
        ];
        assert_eq!(
            of_virtual_time(&metrics.concat()),
            [
                "news: queue order -> two laps: better. Load 75 -> 2.5, one article in 100 20 ms -> 20 ms; readers got 1.00 times \
                 as many articles, it wrote 1.00 times as many pages.",
                "deadlock: without a reserve for I/O -> with it: better. Deadlocks 1 -> 0.",
                "news, the post of 2000: load 1-2 clean first, 50-150 queue order, 1-2 two laps.",
            ]
        );
    }

    #[test]
    fn each_of_the_kernels_rows_is_beside_the_engine() {
        let names = [
            tests::row("kernel", "direct"),
            tests::row("kernel", "memory-group"),
            tests::row("engine", "goal"),
        ];
        let of = |names: &[RowName], metrics: &[Metric]| {
            kernel_beside_engine(NEWS, names, metrics, OF_FILES, &Circumstances::default())
        };
        let metric = |row: &RowName, name: &str, runs: [f64; 2]| metric(row, NEWS, name, &runs);
        let metrics: Vec<Metric> = names
            .iter()
            .zip([[40e3; 2], [80e3; 2], [4e3; 2]])
            .flat_map(|(row, slowest)| {
                [
                    metric(row, "article_latency_max_us", slowest),
                    metric(row, "article_latency_p99_us", slowest.map(|us| us / 4.0)),
                    metric(row, "articles_per_s", [100.0; 2]),
                ]
            })
            .collect();
        assert_eq!(
            of(&names, &metrics),
            [
                "news: direct -> Millpond: better. Slowest article 40 ms -> 4 ms, one in 100 10 ms -> 1 ms; readers got 1.00 \
                 times as many articles (runs overlap).",
                "news: memory-group -> Millpond: better. Slowest article 80 ms -> 4 ms, one in 100 20 ms -> 1 ms; readers got \
                 1.00 times as many articles (runs overlap).",
            ]
        );
        assert!(of(&names[..2], &metrics).is_empty());
    }
}
