//! The experiment's report: a table of what matters most, answers, and the post's tables on request.

use super::options::Plan;
use super::runs::row;
use super::{EXPERIMENT, FS_MARK, answer, post};
use crate::outcome::Setting;
use crate::report::table::{columns, pick};
use crate::report::{Axis, Chart, Report, RowName, Runs, Scale, metrics};
use millpond::internal::quantity::number_tick;

/// What reclaim wrote, looked at and made wait for: a chart each, a column for each system. Title, caption, axis, its look in
/// all charts of the report, and the metrics.
type Plot = (
    &'static str,
    &'static str,
    Show,
    usize,
    &'static [(&'static str, &'static str)],
);
type Show = (&'static str, fn(f64) -> String);

const PLOTS: [Plot; 3] = [
    (
        "Pages that reclaim had written",
        "File pages are what the series is about: none from its second patch on. Pages to swap are still written.",
        ("pages", number_tick),
        0,
        &[
            ("file pages", "kswapd_write_file"),
            ("anonymous pages", "kswapd_write_anon"),
        ],
    ),
    (
        "Pages that reclaim looked at",
        "A caller that needs a frame scans while the background reclaimer is asleep. Pages scanned and not freed were scanned in \
         vain.",
        ("million pages", millions),
        2,
        &[
            ("by the background", "pgscan_kswapd"),
            ("by those who needed a frame", "pgscan_direct"),
            ("freed", "pgsteal"),
        ],
    ),
    (
        "Stalls of those who needed a frame",
        "From the beginning of a direct reclaim to its end, all together. Millpond's row does not measure it.",
        ("seconds", number_tick),
        3,
        &[("those who needed a frame", "direct_stall_seconds")],
    ),
];

fn millions(value: f64) -> String {
    number_tick(value / 1e6)
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

pub(super) fn report(plan: &Plan, results: &[Runs]) -> Report {
    let mut report = Report {
        definitions: DEFINITIONS.to_vec(),
        ..empty()
    };
    let metrics = metrics(results, EXPERIMENT.name);
    let systems: Vec<&str> = plan.systems.iter().map(|system| system.name()).collect();
    let rows: Vec<RowName> = systems.iter().map(|system| row(system)).collect();
    let of_post = post::COLUMNS
        .into_iter()
        .filter(|column| systems.contains(column));
    let with_post: Vec<RowName> = of_post.map(post::row).chain(rows.iter().cloned()).collect();
    for &(workload, _) in &plan.loads {
        let mut all = post::metrics(workload, &systems);
        all.extend_from_slice(&metrics);
        let mut heads = columns(workload, &COLUMNS_OF_TABLE);
        heads.retain(|column| workload == FS_MARK || !column.metric.starts_with("files_per_s"));
        let title = format!("{workload} (in virtual time, on {})", plan.filesystem.name());
        report.tables.push(pick(&title, "", &heads, &with_post, &all));
        report
            .answers
            .extend(answer::of_virtual_time(workload, plan.scale, &all));
        let named: Vec<_> = rows.iter().map(|row| (row.variant.clone(), row)).collect();
        let title = format!("{workload}, in virtual time");
        report
            .appendices
            .extend(post::appendices(&title, workload, &named, &all));
        report.appendices.push(post::of_the_post(workload));
        // counts of a part of the data are not the post's
        let shown = if plan.scale == 1.0 { &with_post } else { &rows };
        for (title, caption, (axis, show), look, heads) in PLOTS {
            let title = format!("{title}: {workload} (in virtual time)");
            let y = Axis::new(axis, Scale::Linear, show);
            let heads = columns(workload, heads);
            report
                .charts
                .extend(Chart::of_rows([&title, caption], y, look, &heads, shown, &all));
        }
    }
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
    report.add_rows(&rows, results);
    report.machine = vec![Setting::new("scale", plan.scale), Setting::new("seed", plan.seed)];
    report.metrics = metrics;
    report
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
