//! The report's first lines: Linux before the series beside Linux with it and beside Millpond, with what the post has of
//! its own two; on real files the kernel beside Millpond's engine.

use super::runs::row;
use super::{MICRO, post};
use crate::report::verdict::{
    Circumstances, Figure, Side, Verdict, compare, kernel_beside_engine, time, two_digits,
};
use crate::report::{Metric, RowName, lookup};

const SERIES: &str = "Linux 3.0 -> with the series";

const WRITTEN: &str = "kswapd_write_file";
const IN_VIRTUAL_TIME: [Figure; 3] = [
    Figure::new("file pages written by kswapd", WRITTEN, two_digits),
    Figure::new("direct scans", "direct_scans_percent", percent),
    Figure::new("it took", "elapsed_seconds", two_digits).cost("as long"),
];

const WROTE: Figure = Figure::new("it wrote", "mb_per_s", two_digits)
    .higher()
    .cost("as many bytes a second");
const OF_MICRO: [Figure; 3] = [
    Figure::new("slowest touch of a page", "touch_max_us", time),
    Figure::new("one in 100", "touch_p99_us", time),
    WROTE,
];
const OF_FS_MARK: [Figure; 2] = [
    Figure::new("slowest write of a file", "write_max_us", time),
    WROTE,
];

/// For a load in virtual time, with the post's own line last. `metrics`: the post's among them.
pub(super) fn of_virtual_time(workload: &str, scale: f64, metrics: &[Metric]) -> Vec<String> {
    let line = |rows: [RowName; 2]| {
        let sides = rows.each_ref().map(|row| Side { row, workload });
        compare(metrics, sides, &IN_VIRTUAL_TIME, &Circumstances::exact())
    };
    let mut lines = Vec::new();
    let pairs = [
        (["vanilla", "prioinode"], SERIES),
        (["vanilla", "millpond"], "Linux 3.0 -> Millpond"),
        (["linux-7.0", "millpond"], "Linux 7.0 -> Millpond"),
    ];
    let is_idle = lookup(metrics, &row("vanilla"), workload, WRITTEN).is_some_and(|m| m.value == 0.0);
    for (pair, sides) in pairs {
        let Some(verdict) = line(pair.map(row)) else {
            continue;
        };
        let verdict = if is_idle && scale < 1.0 {
            Verdict::none(scale, "reclaim found no dirty page to write", 1.0)
        } else {
            verdict
        };
        lines.push(verdict.between(&format!("{workload}: {sides}")));
    }
    if let Some(verdict) = line(["vanilla", "prioinode"].map(post::row)).filter(|_| !lines.is_empty()) {
        lines.push(verdict.between(&format!("{workload}, the post of 2011: {SERIES}")));
    }
    lines
}

/// Of a load on real files: each of the kernel's rows beside the engine. `missed`: bounds of its own that the engine has
/// missed. Scans by callers are not compared: a memory group has no kswapd, so all of its scans are theirs by construction.
pub(super) fn of_real_files(
    load: &str,
    names: &[RowName],
    metrics: &[Metric],
    missed: Vec<String>,
) -> Vec<String> {
    let circumstances = Circumstances {
        missed,
        ..Circumstances::default()
    };
    let figures: &[Figure] = if load == MICRO { &OF_MICRO } else { &OF_FS_MARK };
    kernel_beside_engine(load, names, metrics, figures, &circumstances)
}

/// A share in percent, with two digits.
fn percent(percent: f64) -> String {
    format!("{} %", two_digits(percent))
}

#[cfg(test)]
mod tests {
    use super::super::FS_MARK;
    use super::super::options::VARIANTS;
    use super::super::post::published;
    use super::*;
    use crate::report::tests::{metric, row};

    #[test]
    fn before_and_after_stand_beside_the_posts() {
        let mut metrics = post::metrics(FS_MARK, &VARIANTS);
        let figures = IN_VIRTUAL_TIME.map(|figure| figure.metric);
        for figure in figures {
            for system in ["vanilla", "prioinode"] {
                let value = published(FS_MARK, system, figure).unwrap();
                metrics.push(metric(&super::row(system), FS_MARK, figure, &[value]));
            }
        }
        for (figure, value) in figures.into_iter().zip([0.0, 0.0, 500.0]) {
            metrics.push(metric(&super::row("millpond"), FS_MARK, figure, &[value]));
        }
        assert_eq!(
            of_virtual_time(FS_MARK, 1.0, &metrics),
            [
                "fs_mark: Linux 3.0 -> with the series: better. File pages written by kswapd 4483 -> 0, direct scans 37 % -> 1 %; it took 0.93 times as long.",
                "fs_mark: Linux 3.0 -> Millpond: better. File pages written by kswapd 4483 -> 0, direct scans 37 % -> 0 %; it took 0.88 times as long.",
                "fs_mark, the post of 2011: Linux 3.0 -> with the series: better. File pages written by kswapd 4483 -> 0, direct scans 37 % -> 1 %; it took 0.93 times as long.",
            ]
        );
    }

    /// On real files "direct scans 100 % -> 2.8 %" was a gain: a memory group has no kswapd, so the kernel's figure is 100 %
    /// whatever it does. A slower write was "better" by it, with a bound of Millpond's own missed in the next line.
    #[test]
    fn figures_that_a_memory_group_can_not_change_are_no_gain_and_a_missed_bound_is_in_the_grade() {
        let names = [row("kernel", "group=v1"), row("engine", "goal")];
        let metric = |row: &RowName, name: &str, runs: [f64; 2]| metric(row, FS_MARK, name, &runs);
        let of = |slowest: [f64; 2], missed: &[&str]| {
            let metrics = [
                metric(&names[0], "write_max_us", [136e3; 2]),
                metric(&names[1], "write_max_us", slowest),
                metric(&names[0], "foreground_scan_share_percent", [100.0; 2]),
                metric(&names[1], "foreground_scan_share_percent", [2.8; 2]),
                metric(&names[0], "mb_per_s", [100.0; 2]),
                metric(&names[1], "mb_per_s", [92.0; 2]),
            ];
            let missed = missed.iter().map(|&text| text.into()).collect();
            of_real_files(FS_MARK, &names, &metrics, missed).remove(0)
        };
        assert_eq!(
            of([229e3; 2], &[]),
            "fs_mark: group=v1 -> Millpond: worse. Slowest write of a file 136 ms -> 229 ms; it wrote 0.92 times as many bytes a \
             second."
        );
        assert_eq!(
            of([29e3; 2], &["direct scans 2.8 % (at most 0.1)"]),
            "fs_mark: group=v1 -> Millpond: better and worse. Slowest write of a file 136 ms -> 29 ms; it wrote 0.92 times as \
             many bytes a second; bounds missed: direct scans 2.8 % (at most 0.1)."
        );
    }

    #[test]
    fn no_verdict_where_nothing_had_to_be_written() {
        let rows = ["vanilla", "prioinode"].map(super::row);
        let metrics = rows.map(|row| metric(&row, FS_MARK, WRITTEN, &[0.0]));
        let line = of_virtual_time(FS_MARK, 0.08, &metrics).remove(0);
        assert_eq!(
            line,
            "fs_mark: Linux 3.0 -> with the series: no verdict at --scale 0.08: reclaim found no dirty page to write: \
             --scale 1 shows it."
        );
    }
}
