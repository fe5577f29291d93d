//! Tables, charts and definitions of the experiment.

use super::{
    CALM_RUN, DD, EXPERIMENT, FOUR_HARD, HARD, Limit, NUMBERS, Options, STORM_RUN, answer, dd, numbers,
};
use crate::backend::Row;
use crate::report::table::{Column, pick};
use crate::report::{Axis, Chart, Metric, Report, RowName, Runs, Scale};
use millpond::internal::quantity::{micros, micros_tick, number, number_tick};

pub(super) const RATE: &str = "writers_mb_per_s";
pub(super) const MAX: &str = "write_latency_max_us";
pub(super) const SECONDS: &str = "writers_seconds";

/// Under each limit: a table's title, its metric, and the form of its cells.
type OfLimits = (&'static str, &'static str, fn(f64) -> String);

const ONE_WRITER: [OfLimits; 2] = [
    (
        "One writer under each limit: MB/s to the end of the sync",
        RATE,
        number,
    ),
    ("The longest write of 1 MiB", MAX, micros),
];
const FOUR_WRITERS: [OfLimits; 3] = [
    ("Four writers, a file each: MB/s", RATE, number),
    ("Four writers: the longest write of 1 MiB", MAX, micros),
    (
        "Four writers: how far apart they are",
        "writers_apart_percent",
        percent,
    ),
];

const STORM: [Column; 6] = [
    Column::new("calm MB/s", CALM_RUN, RATE).shown(number),
    Column::new("storm MB/s", STORM_RUN, RATE).shown(number),
    Column::new("calm longest", CALM_RUN, MAX).shown(micros),
    Column::new("storm longest", STORM_RUN, MAX).shown(micros),
    Column::new("touched", STORM_RUN, "settings_touched").shown(number),
    Column::new("left behind", STORM_RUN, "limits_left_behind").shown(left_behind),
];

fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn left_behind(limits: f64) -> String {
    if limits == 0.0 { "nothing" } else { "OTHER LIMITS" }.into()
}

/// A column for each limit.
fn of_limits(limits: &[Limit], metric: &'static str, show: fn(f64) -> String) -> Vec<Column> {
    let column = |limit: &Limit| Column::new(limit.shown, limit.workload, metric).shown(show);
    limits.iter().map(column).collect()
}

pub(super) fn report(options: &Options, rows: &[Row], results: &[Runs]) -> Report {
    let mut metrics: Vec<Metric> = crate::report::metrics(results, EXPERIMENT.name);
    let names: Vec<RowName> = rows.iter().map(super::super::row_name).collect();
    let mut report = Report {
        title: "hills2015: limits on dirty pages, low and touched".into(),
        intro: vec![
            "A file is written in calls of 1 MiB and synced, under hard limits on dirty pages from 1 MiB to all memory (the background limit is half of each), and while limits are touched all the time. How much of the disk's rate is left, and how long does a single write wait?".into(),
            format!("After {}.", EXPERIMENT.post),
        ],
        definitions: DEFINITIONS.to_vec(),
        ..Report::default()
    };
    if options.has(NUMBERS) {
        let (table, own) = numbers::table();
        report.tables.push(table);
        metrics.extend(own);
    }
    if options.has(DD) {
        let own = dd::metrics();
        report.tables.push(dd::table(&own));
        report.answers.extend(answer::of_dd(&own));
        report.charts.extend(dd::chart(&own));
        metrics.extend(own.into_iter().filter(|metric| metric.target == "sim"));
    }
    for (limits, tables) in [(&HARD[..], &ONE_WRITER[..]), (&FOUR_HARD, &FOUR_WRITERS)] {
        for &(title, metric, show) in tables {
            let columns = of_limits(limits, metric, show);
            report
                .tables
                .push(pick(title, "hard limit", &columns, &names, &metrics));
        }
    }
    let table = pick("Limits touched all the time", "", &STORM, &names, &metrics);
    report.tables.push(table);
    report.tables.retain(|table| !table.rows.is_empty());
    report.add_rows(&names, results);
    report.answers.extend(answer::of_rows(
        &names,
        &metrics,
        options.scale.unwrap_or(super::SCALE_REAL),
    ));
    let rate = Axis::new("MB/s", Scale::Linear, number_tick);
    let longest = Axis::new("longest write", Scale::Log, micros_tick);
    for (title, caption, metric, y) in [
        (
            "The writer's rate under each limit",
            "To the end of the sync. \"left alone\" and \"touched\" are the storm's two runs.",
            RATE,
            rate,
        ),
        (
            "The longest write under each limit",
            "Of 1 MiB, on a logarithmic axis; the lower the better.",
            MAX,
            longest,
        ),
    ] {
        let mut columns = of_limits(&HARD, metric, number);
        columns.push(Column::new("left alone", CALM_RUN, metric));
        columns.push(Column::new("touched", STORM_RUN, metric));
        let x = "hard limit on dirty pages";
        report.charts.extend(Chart::of_columns(
            [title, caption],
            x,
            y,
            &columns,
            &names,
            &metrics,
        ));
    }
    report.metrics = metrics;
    report
}

const DEFINITIONS: [(&str, &str); 8] = [
    (
        "hard limit",
        "How much may be dirty before a dirtier waits. Below 1 MiB it counts as 1 MiB in Millpond.",
    ),
    (
        "MB/s",
        "All bytes divided by the time from the first write to the end of the sync, 10^6 bytes a second.",
    ),
    ("longest write", "The longest single call that writes 1 MiB."),
    (
        "left behind",
        "Whether the limits after the storm differ from those of a fresh cache with the last settings.",
    ),
    (
        "apart",
        "How much less the last writer had written than the first when the first had written everything.",
    ),
    (
        "bug404",
        "The rules of Linux 4.0.5, the post's kernel: a difference of totals, recomputed when a different ratio is set.",
    ),
    (
        "fixed",
        "The same with each zone clamped separately, and recomputed at every change.",
    ),
    ("millpond", "The same with Millpond's notion of dirtyable memory."),
];
