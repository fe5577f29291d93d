//! The experiment's charts: dd on the post's machine by what was set last, and the writer's rate and its longest write under
//! each limit. Names are on the horizontal axes, so they are bars.

use super::dd::{PARTS, POST, metric_of};
use super::report::{MAX, RATE};
use super::{CALM_RUN, HARD, STORM_RUN};
use crate::report::table::label;
use crate::report::{Axis, Chart, Line, Metric, RowName, Scale, lookup};
use millpond::internal::quantity::{micros_tick, number_tick};

/// Colours: one for a thing in the whole report. Millpond in virtual time has its own only beside the engine's row.
const KERNEL: usize = 0;
const MILLPOND: usize = 1;
const FIXED: usize = 2;
const SIMULATED: usize = 3;

/// `dd`: the rate by what was set last, of each rule, and the post's.
pub(super) fn of_dd(metrics: &[Metric]) -> Option<Chart> {
    let rules = [
        ("bug404 hz=1000", "Linux 4.0.5, 1000 Hz", KERNEL),
        ("fixed hz=250", "each zone clamped by itself", FIXED),
        ("millpond hz=250", "Millpond's rule", MILLPOND),
    ];
    let mut lines = Vec::new();
    for (variant, name, look) in rules {
        let of = |part: &str| {
            let is_it = |m: &&Metric| m.variant == variant && m.metric == metric_of(part);
            metrics.iter().find(is_it).map(|m| m.value)
        };
        lines.push(Line::bars(name, look, &PARTS, of));
    }
    let of_post = |part: &str| Some(POST[PARTS.iter().position(|name| *name == part)?]);
    let post = Line::bars("Linux 4.0.5, the post (about)", KERNEL, &PARTS, of_post).reference();
    lines.insert(1, post);
    (!metrics.is_empty()).then(|| Chart {
        title: "dd on the post's machine, by what dirty_ratio was set to last".into(),
        caption: "At boot, set to the same 20 again, to 21, and back to 20. Dashed: what the post has."
            .into(),
        x: Axis::new("", Scale::Each, number_tick),
        y: Axis::new("MB/s", Scale::Linear, number_tick),
        lines,
    })
}

/// The rows' rate and longest write under each limit, and in the storm.
pub(super) fn charts(names: &[RowName], metrics: &[Metric]) -> Vec<Chart> {
    let storm = [(CALM_RUN, "left alone"), (STORM_RUN, "touched")];
    let shown: Vec<(&str, &str)> = HARD
        .iter()
        .map(|&(_, workload, limit)| (workload, limit))
        .chain(storm)
        .filter(|(workload, _)| {
            names
                .iter()
                .any(|row| lookup(metrics, row, workload, RATE).is_some())
        })
        .collect();
    let limits: Vec<&str> = shown.iter().map(|(_, limit)| *limit).collect();
    let lines = |metric: &str| -> Vec<Line> {
        let of = |row: &RowName| {
            let look = match row.target.as_str() {
                "kernel" => KERNEL,
                "sim" if names.iter().any(|row| row.target == "engine") => SIMULATED,
                _ => MILLPOND,
            };
            Line::bars(label(row, names), look, &limits, |limit| {
                let (workload, _) = shown.iter().find(|(_, shown)| *shown == limit)?;
                Some(lookup(metrics, row, workload, metric)?.value)
            })
        };
        let lines = names.iter().map(of);
        lines.filter(Line::has_points).collect()
    };
    let charts = [
        Chart {
            title: "The writer's rate under each limit".into(),
            caption: "To the end of the sync. \"left alone\" and \"touched\" are the storm's two runs."
                .into(),
            x: Axis::new("hard limit on dirty pages", Scale::Each, number_tick),
            y: Axis::new("MB/s", Scale::Linear, number_tick),
            lines: lines(RATE),
        },
        Chart {
            title: "The longest write under each limit".into(),
            caption: "Of 1 MiB, on a logarithmic axis; the lower the better.".into(),
            x: Axis::new("hard limit on dirty pages", Scale::Each, number_tick),
            y: Axis::new("longest write", Scale::Log, micros_tick),
            lines: lines(MAX),
        },
    ];
    charts
        .into_iter()
        .filter(|chart| !chart.lines.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{metric, row};
    use crate::report::{html::STYLE, svg};

    #[test]
    fn each_limit_has_a_bar_for_each_row_that_ran_under_it() {
        let rows = ["kernel", "engine"].map(|target| row(target, target));
        let mut metrics = Vec::new();
        for row in &rows {
            for workload in ["limits-1M", "limits-own", STORM_RUN] {
                metrics.push(metric(row, workload, RATE, &[120.0]));
                metrics.push(metric(row, workload, MAX, &[20e3]));
            }
        }
        let charts = charts(&rows, &metrics);
        assert_eq!(charts.len(), 2);
        for chart in &charts {
            let drawing = svg::standalone(chart, STYLE).unwrap();
            for limit in [">1 MiB<", ">its own<", ">touched<"] {
                assert!(drawing.contains(limit), "{limit} is not in {}", chart.title);
            }
            // bars, and a swatch for each row
            assert_eq!(drawing.matches("<rect").count(), 2 * 3 + 2);
        }
        assert!(super::charts(&rows, &[]).is_empty(), "nothing ran");
    }
}
