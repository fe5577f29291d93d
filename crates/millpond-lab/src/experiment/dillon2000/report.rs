//! The experiment's report: tables of what matters most, the load over time, and the answers beside them; in virtual time
//! and on real files.

use super::options::{Plan, VARIANTS};
use super::published::{LOADS, published};
use super::real::Load;
use super::{BUDGETS, DEADLOCK, EXPERIMENT, IN_TRANSIT, NEWS, answer};
use crate::experiment::Measured;
use crate::outcome::{Outcome, Setting};
use crate::report::table::{Column, columns, label, pick};
use crate::report::verdict::{Circumstances, kernel_beside_engine};
use crate::report::{Axis, Cell, Chart, Line, Report, RowName, Runs, Scale, Table, TableRow, metrics};
use millpond::internal::quantity::number_tick;

/// Heads and metrics.
type Columns = &'static [(&'static str, &'static str)];

const NEWS_COLUMNS: [(&str, &str); 8] = [
    ("load", "load_mean"),
    ("highest", "load_max"),
    ("articles/s", "articles_per_s"),
    ("p50", "article_latency_p50_us"),
    ("p99", "article_latency_p99_us"),
    ("pageouts/s", "pageouts_per_s"),
    ("variation", "pageouts_variation"),
    ("disk busy", "disk_busy_percent"),
];

/// Of both loads on real files.
const FILES_COLUMNS: [(&str, &str); 8] = [
    ("load", "load_mean"),
    ("highest", "load_max"),
    ("articles/s", "articles_per_s"),
    ("p50", "article_latency_p50_us"),
    ("p99", "article_latency_p99_us"),
    ("slowest", "article_latency_max_us"),
    ("pageouts/s", "pageouts_per_s"),
    ("variation", "pageouts_variation"),
];

const NEWS_TITLE: &str = "news (in virtual time)";

const MORE_COLUMNS: [(&str, &str); 7] = [
    ("clusters/s", "pageout_clusters_per_s"),
    ("swap ins/s", "swapins_per_s"),
    ("history reads/s", "history_reads_per_s"),
    ("deactivated/s", "deactivations_per_s"),
    ("reactivated/s", "reactivations_per_s"),
    ("rescued", "rescued_dirty_pages"),
    ("second looks", "second_looks"),
];

const STREAM_COLUMNS: [(&str, &str); 8] = [
    ("in transit, most", "in_transit_max_kib"),
    ("mean", "in_transit_mean_kib"),
    ("written", "written_mb_per_s"),
    ("articles/s", "articles_per_s"),
    ("p50", "article_latency_p50_us"),
    ("p99", "article_latency_p99_us"),
    ("load", "load_mean"),
    ("highest", "load_max"),
];

const DEADLOCK_COLUMNS: [(&str, &str); 5] = [
    ("deadlocks", "deadlocks"),
    ("free frames", "free_frames"),
    ("dirty pages", "dirty_pages"),
    ("clusters written", "clusters_written"),
    ("rounds", "rounds_finished"),
];

/// A report without results.
pub(super) fn empty() -> Report {
    Report {
        title: "dillon2000: a news server whose disk is nearly saturated".into(),
        intro: vec![
            "512 MB, 550 readers, 8 MB/s of articles, a history that is changed all the time, one disk that is 70 to 90 % busy with \
             all this. What does it cost to write a dirty page early, and what to leave it for a while?"
                .into(),
            format!("After {}.", EXPERIMENT.post),
        ],
        definitions: DEFINITIONS.to_vec(),
        ..Report::default()
    }
}

pub(super) fn report(plan: &Plan, results: &[Runs]) -> Report {
    let metrics = metrics(results, EXPERIMENT.name);
    let rows: Vec<RowName> = results.iter().map(|runs| runs.row.clone()).collect();
    let mut report = empty();
    let tables: [(&str, &str, Columns); 5] = [
        (NEWS, NEWS_TITLE, &NEWS_COLUMNS),
        (NEWS, "news: where pages went", &MORE_COLUMNS),
        (
            BUDGETS,
            "budgets: the news, by the number of clusters that a scan may write",
            &NEWS_COLUMNS,
        ),
        (
            IN_TRANSIT,
            "in-transit: a huge file is written among 20 readers",
            &STREAM_COLUMNS,
        ),
        (
            DEADLOCK,
            "deadlock: 16 MiB of dirty pages, and each write needs a frame",
            &DEADLOCK_COLUMNS,
        ),
    ];
    for (workload, title, heads) in tables {
        let mut table = pick(title, "", &columns(workload, heads), &rows, &metrics);
        if title == NEWS_TITLE {
            add_the_post(&mut table, &rows);
        }
        report.tables.push(table);
    }
    report.tables.retain(|table| !table.rows.is_empty());
    let news = results.iter().filter(|runs| runs.workload == NEWS);
    let news: Vec<_> = news
        .flat_map(|runs| {
            Some((
                &*runs.row.variant,
                look(&runs.row.variant),
                runs.outcomes.first()?,
            ))
        })
        .collect();
    report.charts.extend(Chart::of_rows(
        [
            "How many readers waited, by rule (in virtual time)",
            "The mean load, on a logarithmic axis.",
        ],
        Axis::new("load", Scale::Log, number_tick),
        // no rule has this color: it is all of them
        VARIANTS.len() + 1,
        &[Column::new("load", NEWS, "load_mean")],
        &rows,
        &metrics,
    ));
    report.charts.extend(charts("in virtual time", &news));
    report.answers = answer::of_virtual_time(&metrics);
    if plan.scale != 1.0 && plan.has(NEWS) {
        report
            .notes
            .push(format!("{} of ten minutes of news.", plan.scale));
    }
    if news.iter().any(|(row, ..)| *row == "millpond") {
        report.notes.push(
            "Millpond has no anonymous memory: its rows have the memory that readers' own data and the kernel leave for files. By \
             default at most a fifth of that may be dirty, and the history is written back within 30 s, which the other rows' is \
             not; millpond-nosync may keep it dirty as they do."
                .into(),
        );
    }
    report.add_rows(&rows, results);
    report.machine = vec![Setting::new("scale", plan.scale), Setting::new("seed", plan.seed)];
    report.metrics = metrics;
    report
}

/// The post's rows before the simulator's: of the load it has a range, and nothing else.
fn add_the_post(table: &mut Table, rows: &[RowName]) {
    let posted = LOADS
        .iter()
        .filter(|(name, _)| rows.iter().any(|row| row.variant == *name));
    let rows = posted.filter_map(|(name, _)| {
        let mut cells = vec![Cell::default(); table.head.len().saturating_sub(1)];
        *cells.first_mut()? = published(name)?.into();
        Some(TableRow {
            label: format!("post, 2000: {name}"),
            cells,
        })
    });
    let rows: Vec<TableRow> = rows.collect();
    table.rows.splice(0..0, rows);
}

/// The colour of a row in all charts of the report: Millpond's engine has that of its rules in virtual time.
fn look(row: &str) -> usize {
    VARIANTS
        .iter()
        .position(|name| *name == row)
        .unwrap_or(VARIANTS.len())
}

/// Adds what was measured on real files.
pub(super) fn add(report: &mut Report, loads: &[Load], measured: &Measured) {
    let metrics = metrics(&measured.results, EXPERIMENT.name);
    let names = &measured.names;
    for load in loads {
        let columns = columns(load.name, &FILES_COLUMNS);
        let title = format!("{} on real files: {}", load.name, load.description());
        report.tables.push(pick(&title, "", &columns, names, &metrics));
        report.answers.extend(kernel_beside_engine(
            load.name,
            names,
            &metrics,
            answer::OF_FILES,
            &Circumstances::default(),
        ));
        let labels: Vec<String> = names.iter().map(|name| label(name, names)).collect();
        let of_load = measured.results.iter().filter(|runs| runs.workload == load.name);
        let firsts = of_load.filter_map(|runs| {
            let at = names.iter().position(|name| *name == runs.row)?;
            let look = match runs.row.target.as_str() {
                "engine" => look("millpond"),
                // several of the kernel's have one each
                _ => look("kernel") + 2 * at,
            };
            Some((&*labels[at], look, runs.outcomes.first()?))
        });
        let whose = format!("{} on real files, first run", load.name);
        report.charts.extend(charts(&whose, &firsts.collect::<Vec<_>>()));
    }
    if names.iter().any(|row| row.target == "kernel") {
        report.notes.push(
            "The kernel's memory group has the readers' own memory besides what is left for files, and uses no swap; \
             Millpond has what is left for files. The kernel changes the history through a mapping, Millpond through guards."
                .into(),
        );
    }
    measured.add_to(report, metrics);
}

/// Load and pageouts over time of these rows, each with its look; `whose`: for the titles.
fn charts(whose: &str, rows: &[(&str, usize, &Outcome)]) -> Vec<Chart> {
    let seconds = || Axis::new("seconds since the measurement began", Scale::Linear, number_tick);
    let lines = |name: &str, is_log: bool| -> Vec<Line> {
        let rows = rows.iter();
        rows.filter_map(|(row, look, outcome)| {
            let mut points = outcome.series(name)?.points();
            // a logarithmic axis has no zero
            for (_, value) in points.iter_mut().filter(|_| is_log) {
                *value = value.filter(|&v| v > 0.0);
            }
            Some(Line::new(*row, *look, points))
        })
        .collect()
    };
    let charts = [
        Chart {
            title: format!("How many readers waited, over time ({whose})"),
            caption: "The mean of each five seconds: the input of a load average. A line that climbs is a disk that does not \
                      keep up."
                .into(),
            x: seconds(),
            y: Axis::new("load", Scale::Log, number_tick),
            lines: lines("load", true),
        },
        Chart {
            title: format!("Pages written, over time ({whose})"),
            caption: "The mean of each five seconds. The post calls two laps \"very consistent\" and clean pages first \"very \
                      inconsistent\"."
                .into(),
            x: seconds(),
            y: Axis::new("pages a second", Scale::Linear, number_tick),
            lines: lines("pageouts_per_s", false),
        },
    ];
    charts
        .into_iter()
        .filter(|chart| !chart.lines.is_empty())
        .collect()
}

const DEFINITIONS: [(&str, &str); 10] = [
    (
        "load",
        "How many readers waited for the disk, for memory or for a page being written, on average over time; \
             highest: over five seconds (in-transit: over one).",
    ),
    (
        "p50, p99",
        "The time from a reader's request for the next article until it has it, its own data and the history included; by \
             nearest rank.",
    ),
    (
        "pageouts",
        "Pages that the daemon wrote; in Millpond's rows and on real files all pages written.",
    ),
    (
        "variation",
        "Standard deviation divided by mean of the pages written in each five seconds: the smaller, the smoother.",
    ),
    ("clusters", "Writes of the daemon, of up to 16 pages each."),
    (
        "rescued",
        "Dirty pages scanned once, marked, and in use when scanned again: a write saved. In modern: in use when the \
             laundry thread reached them.",
    ),
    (
        "second looks",
        "Scans that did not find enough clean pages and then wrote.",
    ),
    (
        "in transit",
        "Bytes that the disk had been given and had not finished, reads included.",
    ),
    (
        "deadlocks",
        "1 if nothing could ever happen again: the disk idle, all processes waiting for memory, and a whole pass of the daemon that \
             changed nothing.",
    ),
    (
        "rounds",
        "How often the processes have changed all of their memory.",
    ),
];
