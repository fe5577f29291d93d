//! Tables and definitions of the experiment.

use super::{CALM_RUN, DD, EXPERIMENT, HARD, NUMBERS, Options, STORM_RUN, answer, charts, dd, numbers};
use crate::backend::Row;
use crate::report::table::label;
use crate::report::{Cell, Metric, Report, RowName, Runs, Table, TableRow, lookup};
use millpond::internal::quantity::{micros, number};

pub(super) const RATE: &str = "writers_mb_per_s";
pub(super) const MAX: &str = "write_latency_max_us";
pub(super) const SECONDS: &str = "writers_seconds";

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
        let (table, own) = dd::table();
        report.tables.push(table);
        report.answers.extend(answer::of_dd(&own));
        report.charts.extend(charts::of_dd(&own));
        metrics.extend(own);
    }
    report.tables.extend(limits(&names, &metrics));
    report.tables.extend(storms(&names, &metrics));
    report.tables.extend(four(&names, &metrics));
    report.add_rows(&names, results);
    report.answers.extend(answer::of_rows(
        &names,
        &metrics,
        options.scale.unwrap_or(super::SCALE_REAL),
    ));
    report.charts.extend(charts::charts(&names, &metrics));
    report.metrics = metrics;
    report
}

/// The median, and the range if there are several runs.
fn cell(metric: Option<&Metric>, show: impl Fn(f64) -> String) -> Cell {
    let Some(metric) = metric else {
        return Cell::default();
    };
    let spread = match metric.runs.len() {
        0 | 1 => String::new(),
        _ => {
            let least = metric.runs.iter().copied().fold(f64::MAX, f64::min);
            let most = metric.runs.iter().copied().fold(f64::MIN, f64::max);
            format!("{}..{}", show(least), show(most))
        }
    };
    Cell {
        value: show(metric.value),
        spread,
    }
}

fn limits(names: &[RowName], metrics: &[Metric]) -> Vec<Table> {
    let table = |title: &str, metric, show: fn(f64) -> String| {
        let rows = names.iter().map(|row| TableRow {
            label: label(row, names),
            cells: HARD
                .iter()
                .map(|(_, name, _)| cell(lookup(metrics, row, name, metric), show))
                .collect(),
        });
        Table {
            title: title.into(),
            head: ["hard limit"]
                .into_iter()
                .chain(HARD.iter().map(|(.., shown)| *shown))
                .map(Into::into)
                .collect(),
            rows: rows
                .filter(|row: &TableRow| row.cells.iter().any(|cell| !cell.value.is_empty()))
                .collect(),
            is_wide: false,
        }
    };
    let tables = [
        table(
            "One writer under each limit: MB/s to the end of the sync",
            RATE,
            number,
        ),
        table("The longest write of 1 MiB", MAX, micros),
    ];
    tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn storms(names: &[RowName], metrics: &[Metric]) -> Option<Table> {
    let of = |row: &RowName, workload, metric| lookup(metrics, row, workload, metric).cloned();
    let rows = names.iter().filter_map(|row| {
        let storm = of(row, STORM_RUN, RATE)?;
        let behind = of(row, STORM_RUN, "limits_left_behind").map_or("not known".into(), |m| {
            if m.value == 0.0 {
                "nothing".to_owned()
            } else {
                "OTHER LIMITS".to_owned()
            }
        });
        Some(TableRow {
            label: label(row, names),
            cells: vec![
                cell(of(row, CALM_RUN, RATE).as_ref(), number),
                cell(Some(&storm), number),
                cell(of(row, CALM_RUN, MAX).as_ref(), micros),
                cell(of(row, STORM_RUN, MAX).as_ref(), micros),
                cell(of(row, STORM_RUN, "settings_touched").as_ref(), number),
                behind.into(),
            ],
        })
    });
    let rows: Vec<_> = rows.collect();
    let head = [
        "",
        "calm MB/s",
        "storm MB/s",
        "calm longest",
        "storm longest",
        "touched",
        "left behind",
    ];
    (!rows.is_empty()).then(|| Table {
        title: "Limits touched all the time".into(),
        head: head.map(Into::into).into(),
        rows,
        is_wide: false,
    })
}

fn four(names: &[RowName], metrics: &[Metric]) -> Option<Table> {
    let limits = [
        ("four-1M", "1 MiB"),
        ("four-4M", "4 MiB"),
        ("four-16M", "16 MiB"),
        ("four-64M", "64 MiB"),
        ("four-own", "its own"),
    ];
    let rows: Vec<_> = names
        .iter()
        .flat_map(|row| limits.iter().map(move |limit| (row, limit)))
        .filter_map(|(row, (workload, shown))| {
            let of = |metric| lookup(metrics, row, workload, metric);
            of(RATE).map(|rate| TableRow {
                label: format!("{}, {shown}", label(row, names)),
                cells: vec![
                    cell(Some(rate), number),
                    cell(of(MAX), micros),
                    cell(of("writers_apart_percent"), |percent| format!("{percent:.1} %")),
                ],
            })
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Four writers, a file each".into(),
        head: ["", "MB/s", "longest write", "apart"].map(Into::into).into(),
        rows,
        is_wide: false,
    })
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
