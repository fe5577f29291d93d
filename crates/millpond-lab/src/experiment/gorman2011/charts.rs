//! The experiment's charts: what reclaim wrote, looked at and made wait for, a column for each system, and the post's
//! own figures dashed beside ours.

use super::post::published;
use crate::report::{Axis, Chart, Line, Scale};
use millpond::internal::quantity::number_tick;

/// A run's value of a system's metric.
type Of<'a> = &'a dyn Fn(&str, &str) -> Option<f64>;

/// A chart: what it is called, its axis, and its lines with what they are of.
struct Plot {
    title: &'static str,
    caption: &'static str,
    y: &'static str,
    /// The line's name, its look in all charts of the report, the metric, and what it is divided by.
    lines: &'static [(&'static str, usize, &'static str, f64)],
}

const PLOTS: [Plot; 3] = [
    Plot {
        title: "Pages that reclaim had written",
        caption: "File pages are what the series is about: none from its second patch on. Pages to swap are still written.",
        y: "pages",
        lines: &[
            ("file pages", 0, "kswapd_write_file", 1.0),
            ("anonymous pages", 1, "kswapd_write_anon", 1.0),
        ],
    },
    Plot {
        title: "Pages that reclaim looked at",
        caption: "A caller that needs a frame scans while the background reclaimer is asleep. Pages scanned and not freed were \
                  scanned in vain.",
        y: "million pages",
        lines: &[
            ("by the background", 2, "pgscan_kswapd", 1e6),
            ("by those who needed a frame", 3, "pgscan_direct", 1e6),
            ("freed", 4, "pgsteal", 1e6),
        ],
    },
    Plot {
        title: "Stalls of those who needed a frame",
        caption: "From the beginning of a direct reclaim to its end, all together. Millpond's row does not measure it.",
        y: "seconds",
        lines: &[("those who needed a frame", 3, "direct_stall_seconds", 1.0)],
    },
];

/// The charts of a load, with a bar for each of these systems that has one. `is_whole`: of all of the post's data, so that its
/// counts can stand beside ours.
pub(super) fn charts(workload: &str, systems: &[&str], is_whole: bool, of: Of<'_>) -> Vec<Chart> {
    let charts = PLOTS.iter().map(|plot| Chart {
        title: format!("{}: {workload} (in virtual time)", plot.title),
        caption: format!(
            "{} Dashed: the post's own figures, of all of its data.",
            plot.caption
        ),
        x: Axis::new("", Scale::Each, number_tick),
        y: Axis::new(plot.y, Scale::Linear, number_tick),
        lines: lines(workload, systems, is_whole, plot, of),
    });
    charts.filter(|chart| !chart.lines.is_empty()).collect()
}

fn lines(workload: &str, systems: &[&str], is_whole: bool, plot: &Plot, of: Of<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for &(name, look, metric, divisor) in plot.lines {
        let of_system = |system: &str| Some(of(system, metric)? / divisor);
        let ours = Line::bars(name, look, systems, of_system);
        if !ours.has_points() {
            continue;
        }
        lines.push(ours);
        let of_post = |system: &str| Some(posted(workload, system, metric)? / divisor);
        let theirs = Line::bars(format!("{name}, the post"), look, systems, of_post);
        if is_whole && theirs.has_points() {
            lines.push(theirs.reference());
        }
    }
    lines
}

/// The post prints what each kind of reclaim freed, and not the sum.
fn posted(workload: &str, system: &str, metric: &str) -> Option<f64> {
    let of = |metric| published(workload, system, metric);
    match metric {
        "pgsteal" => Some(of("pgsteal_kswapd")? + of("pgsteal_direct")?),
        other => of(other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FS_MARK, MICRO};
    use super::*;
    use crate::report::{html::STYLE, svg};

    #[test]
    fn each_system_that_ran_has_a_point_over_its_name_and_the_posts_stands_beside_it() {
        let systems = ["vanilla", "prioinode", "millpond"];
        let of = |system: &str, metric: &str| match (system, metric) {
            ("millpond", "direct_stall_seconds" | "kswapd_write_anon") => None,
            ("vanilla", "pgscan_kswapd") => Some(3e6),
            _ => Some(2.0),
        };
        for workload in [FS_MARK, MICRO] {
            let charts = charts(workload, &systems, true, &of);
            assert_eq!(charts.len(), 3);
            for chart in &charts {
                let drawing = svg::standalone(chart, STYLE).unwrap();
                // the last one's stalls are not measured, so there is nothing above its name
                for system in &systems[..2] {
                    assert!(
                        drawing.contains(&format!(">{system}<")),
                        "{}: {system}",
                        chart.title
                    );
                }
            }
            assert!(svg::standalone(&charts[1], STYLE).unwrap().contains(">millpond<"));
            let scans = &charts[1].lines;
            assert_eq!(scans[0].points[0], (0.0, Some(3.0)), "in millions");
            assert!(!scans[0].is_reference && scans[1].is_reference);
            assert_eq!(scans[1].points[2].1, None, "the post has no column of ours");
            let lines = charts.iter().flat_map(|chart| &chart.lines);
            let looks: Vec<usize> = lines
                .filter(|line| line.name.ends_with("those who needed a frame"))
                .map(|line| line.look)
                .collect();
            assert_eq!(looks, [3, 3], "one colour in the whole report");
        }
        let part = charts(FS_MARK, &systems, false, &of);
        let references = part
            .iter()
            .flat_map(|chart| &chart.lines)
            .filter(|line| line.is_reference);
        assert_eq!(
            references.count(),
            0,
            "counts of a part of the data are not the post's"
        );
        let charts = charts(FS_MARK, &systems, true, &of);
        assert_eq!(charts[0].lines[1].points[0], (0.0, Some(4483.0)));
        assert_eq!(charts[1].lines[5].points[0].1, Some(9.564_914));
        assert_eq!(
            charts[2].lines[0].points[2].1, None,
            "what is not measured is a gap"
        );
    }

    #[test]
    fn no_chart_of_unmeasured_figures() {
        assert!(charts(FS_MARK, &["vanilla"], true, &|_, _| None).is_empty());
    }
}
