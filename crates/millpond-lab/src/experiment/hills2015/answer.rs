//! The report's first lines: a touched limit by the kernel's rule and by Millpond's, on the post's machine; where both ran, the
//! kernel beside Millpond; then each row's storm beside its calm. The post's fault is told as the post's, and is no verdict.

use super::dd::{self, BOOT, TOUCHED};
use super::report::{MAX, RATE, SECONDS};
use super::{CALM_RUN, DD, HARD, OWN, STORM_RUN};
use crate::report::verdict::{Circumstances, Figure, Side, compare, time, too_short, two_digits};
use crate::report::{Metric, RowName, lookup};

fn rate(mb: f64) -> String {
    format!("{} MB/s", two_digits(mb))
}

/// For `dd` on the post's machine. `metrics`: the post's among them.
pub(super) fn of_dd(metrics: &[Metric]) -> Vec<String> {
    let rows = [dd::row("bug404", 1000), dd::row("millpond", 250)];
    let side = |row| Side { row, workload: DD };
    let figure = Figure::new("rate", TOUCHED, rate).higher();
    let pair = rows.each_ref().map(side);
    let verdict = compare(metrics, pair, &[figure], &Circumstances::exact());
    let sides = format!("{DD}: once dirty_ratio was touched, Linux 4.0.5 -> Millpond's rule");
    let mut lines = Vec::from_iter(verdict.map(|verdict| verdict.between(&sides)));
    let of = |row, metric| lookup(metrics, row, DD, metric).map(|m| rate(m.value));
    let post = dd::row_of_the_post();
    let both = [&rows[0], &post].map(|row| Some((of(row, BOOT)?, of(row, TOUCHED)?)));
    if let [Some(own), Some(post)] = both {
        lines.push(format!(
            "{DD}, what the post reports: Linux 4.0.5 writes {} at boot and {} once dirty_ratio was touched; the post has {} and \
             about {}.",
            own.0, own.1, post.0, post.1
        ));
    }
    lines
}

/// Nobody gains by a touched limit, so the rate is judged like the wait, and not as its price.
const OF_ROWS: [Figure; 2] = [
    Figure::new("longest write", MAX, time),
    Figure::new("it wrote", RATE, two_digits)
        .higher()
        .times("as many bytes a second"),
];

/// What ran on files, or in virtual time: the kernel beside the engine, then each row's storm beside its calm. `scale`: of
/// rows on files.
pub(super) fn of_rows(names: &[RowName], metrics: &[Metric], scale: f64) -> Vec<String> {
    let line = |pair: [Side<'_>; 2], sides: &str| {
        let circumstances = Circumstances {
            is_exact: pair[1].row.target == "sim",
            ..Circumstances::default()
        };
        let verdict = compare(metrics, pair, &OF_ROWS, &circumstances)?;
        let seconds = pair.map(|side| lookup(metrics, side.row, side.workload, SECONDS).map(|m| m.value));
        let shortest = seconds.into_iter().flatten().reduce(f64::min);
        let verdict = match shortest {
            Some(seconds) if !circumstances.is_exact => too_short(seconds, scale).unwrap_or(verdict),
            _ => verdict,
        };
        Some(verdict.between(sides))
    };
    let mut lines = Vec::new();
    let find = |target: &str| names.iter().find(|row| row.target == target);
    if let (Some(kernel), Some(engine)) = (find("kernel"), find("engine")) {
        let shared = [
            (STORM_RUN, "limits touched all the time"),
            ("limits-4M", "a limit of 4 MiB"),
        ];
        for (workload, about) in shared {
            let pair = [kernel, engine].map(|row| Side { row, workload });
            lines.extend(line(pair, &format!("{about}: the kernel -> Millpond")));
        }
    }
    for row in names {
        let who = who(row);
        let pair = |workloads: [&'static str; 2]| workloads.map(|workload| Side { row, workload });
        lines.extend(line(
            pair([CALM_RUN, STORM_RUN]),
            &format!("{STORM_RUN}: {who}, limits left alone -> touched all the time"),
        ));
        if let Some((workload, limit)) = worst(row, metrics) {
            lines.extend(line(
                pair([OWN, workload]),
                &format!("limits: {who}, its own -> {limit}, the worst of the others"),
            ));
        }
    }
    lines
}

fn who(row: &RowName) -> &'static str {
    match row.target.as_str() {
        "kernel" => "the kernel",
        "engine" => "Millpond",
        _ => "Millpond simulated",
    }
}

/// The limit under which a write took longest, of those that were tried.
fn worst(row: &RowName, metrics: &[Metric]) -> Option<(&'static str, &'static str)> {
    let of = HARD.iter().filter(|limit| limit.hard.is_some());
    let waits = of.filter_map(|limit| {
        let longest = lookup(metrics, row, limit.workload, MAX)?.value;
        Some((longest, (limit.workload, limit.shown)))
    });
    waits.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, worst)| worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests;

    fn row(target: &str) -> RowName {
        tests::row(target, "millpond")
    }

    fn metric(target: &str, workload: &str, metric: &str, runs: &[f64]) -> Metric {
        tests::metric(&row(target), workload, metric, runs)
    }

    #[test]
    fn the_storms_longest_write_is_in_its_line() {
        let metrics = [
            metric("engine", CALM_RUN, MAX, &[20e3, 22e3]),
            metric("engine", STORM_RUN, MAX, &[21e3, 25e3]),
            metric("engine", CALM_RUN, RATE, &[120.0, 121.0]),
            metric("engine", STORM_RUN, RATE, &[118.0, 120.5]),
            metric("kernel", STORM_RUN, MAX, &[400e3, 500e3]),
            metric("kernel", STORM_RUN, RATE, &[119.0, 119.5]),
        ];
        let lines = of_rows(&[row("kernel"), row("engine")], &metrics, 0.25);
        assert_eq!(
            lines,
            [
                "limits touched all the time: the kernel -> Millpond: better. Longest write 450 ms -> 23 ms, it wrote 1.00 times as \
                 many bytes a second (runs overlap).",
                "storm: Millpond, limits left alone -> touched all the time: not shown, runs overlap: longest write 21 ms -> 23 ms, it \
                 wrote 0.99 times as many bytes a second.",
            ]
        );
    }

    /// A storm that took three quarters of the rate was "not shown", as the rate was a price, and one whose single slowest
    /// write happened to be shorter was "better".
    #[test]
    fn a_storm_that_costs_the_rate_is_not_better() {
        let of = |waits: [f64; 2], rates: [f64; 2], seconds: f64| {
            let metrics = [
                metric("engine", CALM_RUN, MAX, &[waits[0]]),
                metric("engine", STORM_RUN, MAX, &[waits[1]]),
                metric("engine", CALM_RUN, RATE, &[rates[0]]),
                metric("engine", STORM_RUN, RATE, &[rates[1]]),
                metric("engine", CALM_RUN, SECONDS, &[seconds]),
            ];
            of_rows(&[row("engine")], &metrics, 0.02).remove(0)
        };
        assert_eq!(
            of([26e3, 25e3], [900.0, 207.0], 2.0),
            "storm: Millpond, limits left alone -> touched all the time: worse. Longest write 26 ms -> 25 ms (one run each), it \
             wrote 0.23 times as many bytes a second."
        );
        let mixed = of([26e3, 11e3], [900.0, 207.0], 2.0);
        assert!(mixed.contains(": better and worse. "), "{mixed}");
        let short = of([26e3, 11e3], [900.0, 800.0], 0.03);
        assert!(
            short.contains(
                "no verdict at --scale 0.02: the writers took 0.030 s. A tail needs 1 s: --scale 1 shows it."
            ),
            "{short}"
        );
    }

    #[test]
    fn dd_is_ruined_by_one_rule_and_not_by_the_other() {
        let of = |row: RowName, metric, value| tests::metric(&row, DD, metric, &[value]);
        let metrics = [
            of(dd::row("bug404", 1000), BOOT, 150.0),
            of(dd::row("bug404", 1000), TOUCHED, 4.1),
            of(dd::row("millpond", 250), TOUCHED, 150.0),
            of(dd::row_of_the_post(), BOOT, 150.0),
            of(dd::row_of_the_post(), TOUCHED, 5.0),
        ];
        assert_eq!(
            of_dd(&metrics),
            [
                "post-dd: once dirty_ratio was touched, Linux 4.0.5 -> Millpond's rule: better. Rate 4.1 MB/s -> 150 MB/s.",
                "post-dd, what the post reports: Linux 4.0.5 writes 150 MB/s at boot and 4.1 MB/s once dirty_ratio was touched; the \
                 post has 150 MB/s and about 5 MB/s.",
            ]
        );
    }
}
