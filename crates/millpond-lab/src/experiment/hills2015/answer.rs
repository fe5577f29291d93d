//! The report's first lines: a touched limit by the kernel's rule and by Millpond's, on the post's machine; where both ran, the
//! kernel beside Millpond; then each row's storm beside its calm. The post's fault is told as the post's, and is no verdict.

use super::dd::{PARTS, POST, metric_of};
use super::report::{MAX, RATE, SECONDS};
use super::{CALM_RUN, DD, HARD, STORM_RUN};
use crate::report::verdict::{Circumstances, Compared, judge, time, too_short, two_digits};
use crate::report::{Metric, RowName, lookup};

fn rate(mb: f64) -> String {
    format!("{} MB/s", two_digits(mb))
}

/// For `dd` on the post's machine.
pub(super) fn of_dd(metrics: &[Metric]) -> Vec<String> {
    let exact = Circumstances::exact();
    let of = |variant: &str, part: &str| {
        let is_it = |m: &&Metric| m.variant == variant && m.metric == metric_of(part);
        metrics.iter().find(is_it).map(|m| m.value)
    };
    let (boot, touched) = (PARTS[0], PARTS[3]);
    let (kernel, millpond) = ("bug404 hz=1000", "millpond hz=250");
    let Some(collapsed) = of(kernel, touched) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let Some(after) = of(millpond, touched) {
        let compared = Compared::new("rate", rate, &[collapsed], &[after]).higher();
        let sides = format!("{DD}: once dirty_ratio was touched, Linux 4.0.5 -> Millpond's rule");
        lines.extend(judge(&[compared], &exact).map(|verdict| verdict.between(&sides)));
    }
    if let Some(booted) = of(kernel, boot) {
        lines.push(format!(
            "{DD}, what the post reports: Linux 4.0.5 writes {} at boot and {} once dirty_ratio was touched; the post has {} and about \
             {}.",
            rate(booted),
            rate(collapsed),
            rate(POST[0]),
            rate(POST[3])
        ));
    }
    lines
}

/// What ran on files, or in virtual time: the kernel beside the engine, then each row's storm beside its calm.
/// Nobody gains by a touched limit, so the rate is judged like the wait, and not as its price. `scale`: of rows on files.
pub(super) fn of_rows(names: &[RowName], metrics: &[Metric], scale: f64) -> Vec<String> {
    let runs = |row: &RowName, workload: &str, metric: &str| {
        lookup(metrics, row, workload, metric).map_or_else(Vec::new, |metric| metric.runs.clone())
    };
    let line = |(before, after): ((&RowName, &str), (&RowName, &str)), sides: &str| {
        let compared = |what, metric, show: fn(f64) -> String| {
            Compared::new(
                what,
                show,
                &runs(before.0, before.1, metric),
                &runs(after.0, after.1, metric),
            )
        };
        let compared = [
            compared("longest write", MAX, time),
            compared("it wrote", RATE, two_digits)
                .higher()
                .times("as many bytes a second"),
        ];
        let circumstances = Circumstances {
            is_exact: after.0.target == "sim",
            ..Circumstances::default()
        };
        let verdict = judge(&compared, &circumstances)?;
        let seconds = [before, after].map(|side| lookup(metrics, side.0, side.1, SECONDS).map(|m| m.value));
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
            let sides = format!("{about}: the kernel -> Millpond");
            lines.extend(line(((kernel, workload), (engine, workload)), &sides));
        }
    }
    for row in names {
        let who = who(row);
        let worst = worst(row, metrics);
        lines.extend(line(
            ((row, CALM_RUN), (row, STORM_RUN)),
            &format!("{STORM_RUN}: {who}, limits left alone -> touched all the time"),
        ));
        if let Some((workload, limit)) = worst {
            lines.extend(line(
                ((row, "limits-own"), (row, workload)),
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
    let of = HARD.iter().filter(|(hard, ..)| hard.is_some());
    let waits = of.filter_map(|&(_, workload, limit)| {
        let longest = lookup(metrics, row, workload, MAX)?.value;
        Some((longest, (workload, limit)))
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
        let of = |variant: &str, part: &str, value: f64| Metric {
            variant: variant.into(),
            ..metric("sim", DD, &metric_of(part), &[value])
        };
        let metrics = [
            of("bug404 hz=1000", PARTS[0], 150.0),
            of("bug404 hz=1000", PARTS[3], 4.1),
            of("millpond hz=250", PARTS[3], 150.0),
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
