//! The experiment's charts: of each row the run in the middle.

use super::report::{BOTH, P99, READER, SECONDS, WRITERS};
use crate::outcome::Outcome;
use crate::report::table::label;
use crate::report::{Axis, Chart, Line, Points, RowName, Runs, Scale};
use millpond::internal::quantity::{micros_tick, number_tick};

/// The charts of rows that ran in one place; a row's look is its place in `all`, so that it has one colour in the report.
pub(super) fn charts(place: &str, rows: &[RowName], all: &[RowName], results: &[Runs]) -> Vec<Chart> {
    let seconds = |label: &str| Axis::new(label, Scale::Linear, number_tick);
    let latency = || Axis::new("latency", Scale::Log, micros_tick);
    let rate = || Axis::new("MB/s", Scale::Linear, number_tick);
    let over_time = |workload: &'static str, series: &'static str, typical: &'static str| -> Vec<Line> {
        lines((rows, all), results, workload, typical, &|outcome| {
            Some(outcome.series(series)?.points())
        })
    };
    let curve = |workload: &'static str| -> Vec<Line> {
        lines((rows, all), results, workload, P99, &|outcome| {
            Some(
                outcome
                    .latency_curve
                    .iter()
                    .map(|&(share, us)| (share, Some(us)))
                    .collect(),
            )
        })
    };
    let alone = curve(READER).into_iter().map(|line| {
        let name = format!("{}, reader alone", line.name);
        Line { name, ..line }.reference()
    });
    let beside = if results.iter().any(|runs| runs.workload == BOTH) {
        BOTH
    } else {
        WRITERS
    };
    let charts = [
        Chart {
            title: format!("How long reads waited, over time ({place})"),
            caption: "The longest read under way in each tenth of a second, beside the writers. A calm line is what \
                      the reader wants; a line that climbs by a power of ten is a reader waiting behind writeback."
                .into(),
            x: seconds("seconds since the writers began"),
            y: latency(),
            lines: over_time(BOTH, "reader_latency_max_us", P99),
        },
        Chart {
            title: format!("How long reads waited, by share of reads ({place})"),
            caption: "Each point: this share of the reads that missed took no longer. Further right are rarer, \
                      slower reads; the last point is the slowest. Dashed: the same reader without writers, which is what \
                      the device does when nothing else is asked of it."
                .into(),
            x: Axis::new("share of reads that were no slower", Scale::Tail, share),
            y: latency(),
            lines: curve(BOTH).into_iter().chain(alone).collect(),
        },
        Chart {
            title: format!("What the writers handed over ({place})"),
            caption: "Bytes that write calls accepted. A page cache takes them at the speed of memory until it is full; \
                      then the device's speed shows."
                .into(),
            x: seconds("seconds since the writers began"),
            y: rate(),
            lines: over_time(beside, "writers_mb_per_s", SECONDS),
        },
        Chart {
            title: format!("What reached the device ({place})"),
            caption: "Bytes written to the device, by all programs, from its own counters. After the last write call it is the sync."
                .into(),
            x: seconds("seconds since the writers began"),
            y: rate(),
            lines: over_time(beside, "device_written_mb_per_s", SECONDS),
        },
    ];
    charts
        .into_iter()
        .filter(|chart| !chart.lines.is_empty())
        .collect()
}

/// One line for each row that has one: of the run that is the median by `typical`.
fn lines(
    (rows, all): (&[RowName], &[RowName]),
    results: &[Runs],
    workload: &str,
    typical: &str,
    points: &dyn Fn(&Outcome) -> Option<Points>,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        let look = all.iter().position(|other| other == row).unwrap_or(0);
        let runs = results
            .iter()
            .find(|runs| runs.row == *row && runs.workload == workload);
        if let Some(points) = runs.and_then(|r| r.typical(typical)).and_then(points)
            && points.iter().any(|p| p.1.is_some())
        {
            lines.push(Line::new(label(row, rows), look, points));
        }
    }
    lines
}

/// A share on the axis of tails: "99.9 %".
fn share(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_as_percent() {
        assert_eq!(
            [0.0, 0.5, 0.999, 0.999_999].map(share),
            ["0 %", "50 %", "99.9 %", "99.9999 %"]
        );
    }
}
