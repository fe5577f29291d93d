//! The experiment's report: a table of what matters most, answers, and the post's tables on request.

use super::options::Plan;
use super::post::{COLUMNS, published};
use super::runs::Run;
use super::{EXPERIMENT, FS_MARK, answer, charts, post, trace};
use crate::outcome::Setting;
use crate::report::table::{columns, pick};
use crate::report::{Metric, Report, RowName, Runs, metrics};

fn row(run: &Run) -> RowName {
    RowName {
        target: "sim".into(),
        device: "hdd".into(),
        variant: run.system.name().into(),
    }
}

const COLUMNS_OF_TABLE: [(&str, &str); 8] = [
    ("elapsed", "elapsed_seconds"),
    ("files/s", "files_per_s_mean"),
    ("files written by kswapd", "kswapd_write_file"),
    ("direct scans", "direct_scans_percent"),
    ("kswapd freed", "kswapd_efficiency_percent"),
    ("direct stall", "direct_stall_seconds"),
    ("swap ins", "pswpin"),
    ("reclaimed", "pgsteal"),
];

/// The beginning of a report of this experiment.
pub(super) fn empty() -> Report {
    Report {
        title: "gorman2011: files are written on a machine that is too small for them".into(),
        intro: vec![
            "One processor, 512 MB and one disk. fs_mark writes files of 10 MiB without a sync, micro one long mapping. What \
             does reclaim scan, write and wait for, and what does each of the post's patches change?"
                .into(),
            format!("After {}.", EXPERIMENT.post),
        ],
        ..Report::default()
    }
}

pub(super) fn report(plan: &Plan, results: &[Run]) -> Report {
    let single = |run: &Run| Runs::single(row(run), run.workload, run.outcome.clone());
    let runs: Vec<Runs> = results.iter().map(single).collect();
    let metrics = metrics(&runs, EXPERIMENT.name);
    let rows: Vec<RowName> = plan
        .systems
        .iter()
        .filter_map(|system| results.iter().find(|run| run.system == *system))
        .map(row)
        .collect();
    let mut report = Report {
        definitions: DEFINITIONS.to_vec(),
        ..empty()
    };
    let of = |workload: &str, system: &str, metric: &str| {
        let run = results
            .iter()
            .find(|r| r.workload == workload && r.system.name() == system)?;
        run.outcome.value(metric)
    };
    for &(workload, _) in &plan.loads {
        let mut columns = columns(workload, &COLUMNS_OF_TABLE);
        columns.retain(|column| workload == FS_MARK || !column.metric.starts_with("files_per_s"));
        let title = format!("{workload} (in virtual time, on {})", plan.filesystem.name());
        let (named, with_post) = beside_the_post(workload, &rows, &metrics);
        report.tables.push(pick(&title, "", &columns, &named, &with_post));
        report.answers.extend(answer::of_virtual_time(
            workload,
            plan.scale,
            &|system, metric| of(workload, system, metric),
        ));
        let systems: Vec<&str> = plan.systems.iter().map(|system| system.name()).collect();
        report
            .appendices
            .extend(post::appendices(workload, &systems, &|system, metric| {
                of(workload, system, metric)
            }));
        report.charts.extend(charts::charts(
            workload,
            &systems,
            plan.scale == 1.0,
            &|system, metric| of(workload, system, metric),
        ));
    }
    report.appendices.extend(results.iter().map(trace::appendix));
    if plan.scale != 1.0 {
        report.notes.push(format!(
            "{} of the post's data: counts are not the post's.",
            plan.scale
        ));
    }
    if plan.systems.iter().any(|system| system.name() == "millpond") {
        report.notes.push(
            "Millpond has the memory that files have on this machine, and no anonymous pages; its micro writes page by page."
                .into(),
        );
    }
    report.add_rows(&rows, &runs);
    report.machine = vec![Setting::new("scale", plan.scale), Setting::new("seed", plan.seed)];
    report.metrics = metrics;
    report
}

/// The rows with the post's columns of the same systems before them, and the metrics of both.
fn beside_the_post(workload: &str, rows: &[RowName], metrics: &[Metric]) -> (Vec<RowName>, Vec<Metric>) {
    let mut with_post = metrics.to_vec();
    let mut names = Vec::new();
    for column in COLUMNS {
        if !rows.iter().any(|row| row.variant == column) {
            continue;
        }
        let name = RowName::new("post", "hdd", format!("post, 2011: {column}"));
        let posted = COLUMNS_OF_TABLE.iter().filter_map(|&(_, metric)| {
            let value = published(workload, column, metric)?;
            // as the simulator has it
            let unit = metrics
                .iter()
                .find(|m| m.metric == metric)
                .map_or("", |m| m.unit.as_str());
            Some(Metric::exact(
                EXPERIMENT.name,
                workload,
                &name,
                metric,
                unit,
                value,
            ))
        });
        with_post.extend(posted);
        names.push(name);
    }
    names.extend(rows.iter().cloned());
    (names, with_post)
}

const DEFINITIONS: [(&str, &str); 6] = [
    (
        "files written by kswapd",
        "File pages that the background reclaimer asked the file system to write, one request each, refused ones too. What xfs \
             writes along with a page is not counted.",
    ),
    (
        "direct scans",
        "Of all pages that reclaim scanned, the share scanned by callers that needed a frame, in whole percent, rounded down.",
    ),
    (
        "kswapd freed",
        "Of the pages that the background reclaimer scanned, the share that it freed: the post's efficiency.",
    ),
    (
        "direct stall",
        "Time between the beginning and the end of direct reclaims, all together. In Millpond's row it is not measured.",
    ),
    ("reclaimed", "Pages freed by reclaim, by any thread."),
    (
        "swap ins",
        "Pages read from swap, including neighbours read with them.",
    ),
];
