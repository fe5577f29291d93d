//! The report's first lines: writing in queue order beside two laps and beside Millpond, what the post says of its own, and
//! the other parts each in a line; on real files the kernel beside Millpond's engine.

use super::published::{LOADS, published};
use super::{BUDGETS, DEADLOCK, IN_TRANSIT, NEWS};
use crate::report::verdict::{Circumstances, Compared, judge, kernel_beside_engine, time, two_digits};
use crate::report::{Metric, RowName};

type Of<'a> = &'a dyn Fn(&str, &str, &str) -> Option<f64>;

/// A comparison of two rows of a workload: the rows, and what they are called.
type Pair = (&'static str, [&'static str; 2], &'static str);

const PAIRS: [Pair; 6] = [
    (NEWS, ["queue-order", "two-laps"], "queue order -> two laps"),
    (NEWS, ["queue-order", "millpond"], "queue order -> Millpond"),
    (NEWS, ["two-laps", "millpond"], "two laps -> Millpond"),
    (
        BUDGETS,
        ["queue-order no budget", "two-laps no budget"],
        "queue order without a budget -> two laps without one",
    ),
    (
        IN_TRANSIT,
        ["no-limit", "high-1M-low-512K"],
        "no limit in transit -> 1 MiB high, 512 KiB low",
    ),
    (
        DEADLOCK,
        ["two-laps without reserve", "two-laps with reserve"],
        "without a reserve for I/O -> with it",
    ),
];

/// For runs in virtual time. `of`: a workload's row's metric.
pub(super) fn of_virtual_time(of: Of<'_>) -> Vec<String> {
    let exact = Circumstances::exact();
    let mut lines = Vec::new();
    for (workload, [before, after], sides) in PAIRS {
        let compared = |what, metric, show: fn(f64) -> String| {
            let [before, after] = [before, after].map(|row| of(workload, row, metric));
            Compared::new(what, show, before.as_slice(), after.as_slice())
        };
        let compared = match workload {
            DEADLOCK => vec![compared("deadlocks", "deadlocks", two_digits)],
            IN_TRANSIT => vec![
                compared("in transit at most", "in_transit_max_kib", mib),
                compared("one article in 100", "article_latency_p99_us", time),
                compared("it wrote", "written_mb_per_s", two_digits)
                    .higher()
                    .cost("as many bytes a second"),
            ],
            _ => vec![
                compared("load", "load_mean", two_digits),
                compared("one article in 100", "article_latency_p99_us", time),
                compared("readers got", "articles_per_s", two_digits)
                    .higher()
                    .cost("as many articles"),
                compared("it wrote", "pageouts_per_s", two_digits).cost("as many pages"),
            ],
        };
        // a row that did not run has nothing
        if compared.iter().any(|c| c.before.is_empty() || c.after.is_empty()) {
            continue;
        }
        let line = judge(&compared, &exact).map(|verdict| verdict.between(&format!("{workload}: {sides}")));
        lines.extend(line);
    }
    if of(NEWS, "queue-order", "load_mean").is_some() {
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

/// For a load on real files: each of the kernel's rows beside the engine.
pub(super) fn of_real_files(load: &str, names: &[RowName], metrics: &[Metric]) -> Vec<String> {
    kernel_beside_engine(load, names, metrics, &Circumstances::default(), |compared| {
        vec![
            compared("slowest article", "article_latency_max_us", time),
            compared("one in 100", "article_latency_p99_us", time),
            compared("readers got", "articles_per_s", two_digits)
                .higher()
                .cost("as many articles"),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{metric, row};

    #[test]
    fn each_pair_that_ran_has_a_line_and_the_post_its_own() {
        let numbers = |workload: &str, row: &str, metric: &str| match (workload, row, metric) {
            (NEWS, "queue-order", "load_mean") => Some(75.0),
            (NEWS, "two-laps", "load_mean") => Some(2.5),
            (NEWS, "queue-order" | "two-laps", "article_latency_p99_us") => Some(20e3),
            (NEWS, "queue-order" | "two-laps", "articles_per_s") => Some(80.0),
            (NEWS, "queue-order" | "two-laps", "pageouts_per_s") => Some(40.0),
            (DEADLOCK, "two-laps without reserve", _) => Some(1.0),
            (DEADLOCK, "two-laps with reserve", _) => Some(0.0),
            _ => None,
        };
        assert_eq!(
            of_virtual_time(&numbers),
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
            row("kernel", "direct"),
            row("kernel", "memory-group"),
            row("engine", "goal"),
        ];
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
            of_real_files(NEWS, &names, &metrics),
            [
                "news: direct -> Millpond: better. Slowest article 40 ms -> 4 ms, one in 100 10 ms -> 1 ms; readers got 1.00 \
                 times as many articles (runs overlap).",
                "news: memory-group -> Millpond: better. Slowest article 80 ms -> 4 ms, one in 100 20 ms -> 1 ms; readers got \
                 1.00 times as many articles (runs overlap).",
            ]
        );
        assert!(of_real_files(NEWS, &names[..2], &metrics).is_empty());
    }
}
