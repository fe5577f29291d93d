//! The frontier: what each configuration gives the reader for what it leaves the writers, one point each.
//!
//! The kernel's configurations, Millpond's goals and, as the line to hold both against, what the device allows when
//! writes are paced. A point is better the further right it is, and the higher (reads a second) or lower (p99).

use super::report::{BOTH, P99, READS, SECONDS};
use crate::report::table::{cell, label};
use crate::report::{Axis, Cell, Chart, Line, Metric, RowName, Scale, Table, lookup};
use millpond::internal::quantity::{micros_tick, number_tick};

pub(super) const WRITERS_RATE: &str = "writers_mb_per_s";

/// Rows that are drawn alike, what the legend calls them, and how many looks further than the first row of that target.
const GROUPS: [Group; 6] = [
    ("kernel", "the kernel", 0, |_| true),
    ("engine", "Millpond: goal/writers' share", 0, |_| true),
    ("sim", "Millpond, simulated", 0, |_| true),
    (BARE, "no cache, a fixed number of writes in transit", 0, |_| true),
    (
        PACED,
        "what the device allows: a dose of writes after each read, or a fixed number in transit",
        0,
        |variant| !variant.contains('/'),
    ),
    (PACED, "the same, a dose after every few reads", 1, |variant| {
        variant.contains('/')
    }),
];

pub(super) const PACED: &str = "paced";
pub(super) const BARE: &str = "bare";

/// The target, its name, the step to its look, and which of its variants are meant.
type Group = (&'static str, &'static str, usize, fn(&str) -> bool);

/// Up to this many rows each have a colour; of more, those of a target share one.
const EACH_MAX: usize = 8;
/// Fewer are seen as well in the table.
const POINTS_MIN: usize = 4;
/// How much lower p99 must be for one row to be called better than another.
const P99_SHARE: f64 = 0.7;

pub(super) fn devices(rows: &[RowName]) -> Vec<&str> {
    let mut devices: Vec<&str> = Vec::new();
    for row in rows {
        if !devices.contains(&row.device.as_str()) {
            devices.push(&row.device);
        }
    }
    devices
}

/// A row's gain for the reader and its price for the writers.
pub(super) struct Point<'a> {
    pub(super) reads: &'a Metric,
    pub(super) p99: &'a Metric,
    seconds: &'a Metric,
    pub(super) written: &'a Metric,
}

impl<'a> Point<'a> {
    pub(super) fn of(row: &RowName, metrics: &'a [Metric]) -> Option<Point<'a>> {
        Some(Point {
            reads: lookup(metrics, row, BOTH, READS)?,
            p99: lookup(metrics, row, BOTH, P99)?,
            seconds: lookup(metrics, row, BOTH, SECONDS)?,
            written: lookup(metrics, row, BOTH, WRITERS_RATE)?,
        })
    }

    /// By how much it misses being no worse than `other` for reader and writers, as a factor; 1 or less: it is not.
    fn misses(&self, other: &Point) -> f64 {
        let reads = other.reads.value / self.reads.value;
        let seconds = self.seconds.value / other.seconds.value;
        reads.max(seconds)
    }
}

/// For each device, the kernel's configurations with the goal of Millpond's that serves no fewer reads with writers that
/// take no longer, and of those the least p99; or, where there is none, with that which misses it by least.
pub(super) fn tables(rows: &[RowName], metrics: &[Metric]) -> Vec<Table> {
    let mut tables = Vec::new();
    for device in devices(rows) {
        let of = |target: &'static str| {
            let own = rows
                .iter()
                .filter(move |row| row.device == device && row.target == target);
            own.filter_map(|row| Some((row, Point::of(row, metrics)?)))
        };
        let ours: Vec<(&RowName, Point)> = of("engine").collect();
        let mut table = Table::new(
            format!("The kernel's configurations and the goal that is better ({device})"),
            [
                "",
                "reads/s",
                "p99",
                "writers",
                "Millpond's",
                "reads/s",
                "p99",
                "writers",
                "of its p99",
                "better",
            ],
        );
        for (row, kernel) in of("kernel") {
            let no_worse = ours.iter().filter(|(_, own)| own.misses(&kernel) <= 1.0);
            let best = no_worse.min_by(|a, b| a.1.p99.value.total_cmp(&b.1.p99.value));
            let nearest = || {
                ours.iter()
                    .min_by(|a, b| a.1.misses(&kernel).total_cmp(&b.1.misses(&kernel)))
            };
            let Some((own_row, own)) = best.or_else(nearest) else {
                continue;
            };
            let (missed, p99) = (own.misses(&kernel), own.p99.value / kernel.p99.value);
            let verdict = match (missed <= 1.0, p99 <= P99_SHARE) {
                (true, true) => "yes".into(),
                (true, false) => "not by p99".into(),
                (false, _) => format!("no, by {:.1} %", (missed - 1.0) * 100.0),
            };
            let of = |point: &Point| [point.reads, point.p99, point.seconds].map(cell);
            let [name, share] = [own_row.variant.clone(), format!("{p99:.2}")].map(Cell::from);
            let cells = of(&kernel).into_iter().chain([name]).chain(of(own));
            table.push(short(row), cells.chain([share, Cell::from(verdict)]));
        }
        // on a real device the kernel has no configurations of ours
        if table.rows.len() > 1 && device != "real" {
            tables.push(table);
        }
    }
    tables
}

/// The charts for each device that has enough points.
pub(super) fn charts(rows: &[RowName], metrics: &[Metric]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for device in devices(rows) {
        let own: Vec<&RowName> = rows.iter().filter(|row| row.device == device).collect();
        for (metric, title, caption, label) in [
            (
                READS,
                "Reads a second against what is written",
                "One point a configuration, beside the writers. Further right and higher is better.",
                "reads/s",
            ),
            (
                P99,
                "The reader's p99 against what is written",
                "One point a configuration, beside the writers. Further right and lower is better.",
                "p99 latency",
            ),
        ] {
            let lines = lines(&own, rows, metrics, metric);
            if lines.iter().map(|line| line.points.len()).sum::<usize>() < POINTS_MIN {
                continue;
            }
            charts.push(Chart {
                title: format!("{title} ({device})"),
                caption: caption.into(),
                x: Axis::new("written, MB/s, sync included", Scale::Linear, number_tick),
                y: Axis::new(
                    label,
                    Scale::Log,
                    if metric == P99 { micros_tick } else { number_tick },
                ),
                lines,
            });
        }
    }
    charts
}

/// The lines of `rows`. Colours and labels are those that they have among `all`.
fn lines(rows: &[&RowName], all: &[RowName], metrics: &[Metric], metric: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for (target, name, step, is_meant) in GROUPS {
        let own = rows
            .iter()
            .filter(|row| row.target == target && is_meant(&row.variant));
        let first = all.iter().position(|row| row.target == target).unwrap_or(0);
        if target != PACED && all.len() <= EACH_MAX {
            // the colour that the row has in the other charts
            lines.extend(own.filter_map(|row| {
                let look = all.iter().position(|other| other == *row)?;
                let [x, y] = [WRITERS_RATE, metric].map(|metric| lookup(metrics, row, BOTH, metric));
                Some(Line {
                    labels: vec![short(row)],
                    ..Line::new(label(row, all), look, vec![(x?.value, Some(y?.value))])
                })
            }));
            continue;
        }
        let mut points: Vec<(f64, f64, String)> = own
            .filter_map(|row| {
                let x = lookup(metrics, row, BOTH, WRITERS_RATE)?.value;
                let y = lookup(metrics, row, BOTH, metric)?.value;
                Some((x, y, short(row)))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !points.is_empty() {
            lines.push(Line {
                name: name.into(),
                look: first + step,
                is_reference: target == PACED,
                labels: points.iter().map(|point| point.2.clone()).collect(),
                points: points.iter().map(|point| (point.0, Some(point.1))).collect(),
            });
        }
    }
    lines
}

/// A point's name: the part of a variant that distinguishes it.
pub(super) fn short(row: &RowName) -> String {
    let variant = row.variant.strip_prefix("kernel ").unwrap_or(&row.variant);
    let variant = variant.split(" memory=").next().unwrap_or(variant);
    let variant = variant.strip_prefix("goal/").unwrap_or(variant);
    variant.trim_end_matches(" xfs").replace("wbt=", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{metric, row};

    #[test]
    fn each_configuration_is_a_point_with_its_name() {
        let mut rows = vec![
            row("kernel", "kernel mq-deadline wbt=default xfs memory=1G"),
            row("kernel", "kernel bfq ext4 memory=1G"),
            row("engine", "goal/60ms"),
            row("paced", "8M/8"),
        ];
        rows.iter_mut().for_each(|row| row.device = "hdd".into());
        rows.push(row("engine", "alone on its device"));
        let mut metrics = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            metrics.push(metric(row, BOTH, WRITERS_RATE, &[100.0 - n as f64]));
            metrics.push(metric(row, BOTH, READS, &[n as f64 + 1.0]));
            metrics.push(metric(row, BOTH, P99, &[1000.0]));
        }
        let charts = charts(&rows, &metrics);
        assert_eq!(charts.len(), 2);
        let lines: Vec<_> = charts[0]
            .lines
            .iter()
            .map(|line| (&*line.name, &line.labels))
            .collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[..2]
                .iter()
                .map(|line| line.1[0].as_str())
                .collect::<Vec<_>>(),
            ["mq-deadline default", "bfq ext4"]
        );
        assert_eq!(charts[0].lines[1].points, [(99.0, Some(2.0))]);
        assert!(charts[0].lines[3].is_reference);
        let looks: Vec<usize> = charts[0].lines.iter().map(|line| line.look).collect();
        assert_eq!(
            looks,
            [0, 1, 2, 4],
            "each row has the color of its place, and doses after every few reads have the next"
        );
        // of many rows those of a target are one line, in the order of what is written
        let mut many = rows.clone();
        many.extend((0..EACH_MAX).map(|n| row("sim", &format!("goal/{n}ms"))));
        let charts = super::charts(&many, &metrics);
        assert_eq!(charts[0].lines.len(), 3);
        assert_eq!(charts[0].lines[0].labels, ["bfq ext4", "mq-deadline default"]);
        assert_eq!(charts[0].lines[0].points, [(99.0, Some(2.0)), (100.0, Some(1.0))]);
    }

    #[test]
    fn the_goal_that_is_no_worse_and_has_the_least_p99_stands_beside_the_kernel_or_the_nearest() {
        let rows = [
            ("kernel", "kernel none wbt=off xfs memory=1G", 20.0, 200e3, 22.0),
            ("kernel", "kernel bfq xfs memory=1G", 60.0, 90e3, 20.0),
            ("engine", "goal/60ms", 40.0, 60e3, 21.0),
            ("engine", "goal/120ms", 50.0, 120e3, 21.0),
            ("engine", "goal/1s", 10.0, 20e3, 19.0),
        ];
        let (mut names, mut metrics) = (Vec::new(), Vec::new());
        for (target, variant, reads, p99, seconds) in rows {
            let mut row = row(target, variant);
            row.device = "hdd".into();
            metrics.push(metric(&row, BOTH, READS, &[reads]));
            metrics.push(metric(&row, BOTH, P99, &[p99]));
            metrics.push(metric(&row, BOTH, SECONDS, &[seconds]));
            metrics.push(metric(&row, BOTH, WRITERS_RATE, &[2_000.0 / seconds]));
            names.push(row);
        }
        let tables = tables(&names, &metrics);
        let shown: Vec<Vec<&str>> = tables[0]
            .rows
            .iter()
            .map(|row| [3, 7, 8].map(|n| &*row.cells[n].value).into())
            .collect();
        assert_eq!(
            shown,
            [
                ["goal/60ms", "0.30", "yes"],
                ["goal/120ms", "1.33", "no, by 20.0 %"]
            ]
        );
    }
}
