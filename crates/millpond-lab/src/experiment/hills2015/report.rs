//! Tables, sentences and definitions of the experiment.

use super::{CALM_RUN, DD, EXPERIMENT, HARD, NUMBERS, Options, STORM_RUN, answer, charts, dd, numbers};
use crate::backend::Row;
use crate::report::table::label;
use crate::report::words::change;
use crate::report::{Cell, Metric, Report, RowName, Runs, Table, TableRow, lookup};
use crate::setup::Device;
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
        let (table, own, verdict) = dd::table();
        report.tables.push(table);
        report.answers.extend(answer::of_dd(&own));
        report.charts.extend(charts::of_dd(&own));
        metrics.extend(own);
        report.verdict.extend(verdict);
    }
    report.tables.extend(limits(&names, &metrics));
    report.tables.extend(storms(&names, &metrics));
    report.tables.extend(four(&names, &metrics));
    for (row, name) in rows.iter().zip(&names) {
        report
            .verdict
            .extend(limits_in_words(row, name, &names, &metrics));
        report.verdict.extend(storm_in_words(name, &names, &metrics));
        let first = results
            .iter()
            .find(|runs| runs.row == *name)
            .and_then(|runs| runs.outcomes.first());
        if let Some(outcome) = first {
            report
                .settings
                .push((label(name, &names), outcome.settings.clone()));
            report.notes.extend(outcome.warnings.iter().cloned());
        }
    }
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

fn limits_in_words(row: &Row, name: &RowName, names: &[RowName], metrics: &[Metric]) -> Option<String> {
    let of = |metric| {
        let found = HARD.iter().filter_map(move |(_, workload, shown)| {
            Some((*shown, lookup(metrics, name, workload, metric)?.value))
        });
        found.collect::<Vec<_>>()
    };
    let (rates, waits) = (of(RATE), of(MAX));
    let slowest = rates.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fastest = rates.iter().map(|(_, rate)| *rate).fold(f64::MIN, f64::max);
    let longest = waits.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (whole, of_what) = match row.setup.device {
        Device::Modelled(disk) => (disk.write_bytes_per_s() / 1e6, "what the disk takes"),
        Device::Real => (fastest, "what it writes under the best of them"),
    };
    Some(format!(
        "{}: under the worst limit ({}) a writer has {} MB/s, {:.0} % of {of_what}; the longest write took {} (under {}).",
        label(name, names),
        slowest.0,
        number(slowest.1),
        100.0 * slowest.1 / whole,
        micros(longest.1),
        longest.0
    ))
}

fn storm_in_words(name: &RowName, names: &[RowName], metrics: &[Metric]) -> Option<String> {
    let of = |workload, metric| lookup(metrics, name, workload, metric).map(|m| m.value);
    let (calm, storm) = (of(CALM_RUN, RATE)?, of(STORM_RUN, RATE)?);
    let compared = match change(storm, calm) {
        same if same == "as much" => format!("{same} as"),
        other => format!("{other} than"),
    };
    let left = match of(STORM_RUN, "limits_left_behind") {
        Some(0.0) => "; afterwards the limits are those of a fresh cache with the last settings",
        Some(_) => "; AFTERWARDS THE LIMITS ARE NOT those of a fresh cache",
        None => "",
    };
    let longest = match (of(CALM_RUN, MAX), of(STORM_RUN, MAX)) {
        (Some(calm), Some(storm)) => format!(
            "; its longest write takes {}, {} without",
            micros(storm),
            micros(calm)
        ),
        _ => String::new(),
    };
    Some(format!(
        "{}: with {} touches of the limits while it writes it has {} MB/s, {compared} without{longest}{left}.",
        label(name, names),
        number(of(STORM_RUN, "settings_touched")?),
        number(storm)
    ))
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
