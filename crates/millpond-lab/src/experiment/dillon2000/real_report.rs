//! The report of the runs on real files: a table for each load, the load over time, and the comparison with the kernel.

use super::real::Measured;
use super::{EXPERIMENT, answer, report};
use crate::report::table::{columns, label, pick};
use crate::report::{Metric, Report};

const COLUMNS: [(&str, &str); 8] = [
    ("load", "load_mean"),
    ("highest", "load_max"),
    ("articles/s", "articles_per_s"),
    ("p50", "article_latency_p50_us"),
    ("p99", "article_latency_p99_us"),
    ("slowest", "article_latency_max_us"),
    ("pageouts/s", "pageouts_per_s"),
    ("variation", "pageouts_variation"),
];

/// Adds what was measured on real files to `report`.
pub(super) fn add(report: &mut Report, measured: &Measured) {
    let metrics: Vec<Metric> = crate::report::metrics(&measured.results, EXPERIMENT.name);
    let names = &measured.names;
    for load in &measured.loads {
        let columns = columns(load.name, &COLUMNS);
        let title = format!("{} on real files: {}", load.name, load.description());
        report.tables.push(pick(&title, "", &columns, names, &metrics));
        report
            .answers
            .extend(answer::of_real_files(load.name, names, &metrics));
        let of_load = measured.results.iter().filter(|runs| runs.workload == load.name);
        let firsts = of_load.filter_map(|runs| {
            let outcome = runs.outcomes.first()?;
            let look = match runs.row.target.as_str() {
                "engine" => report::look("millpond"),
                // several of the kernel's have one each
                _ => report::look("kernel") + 2 * names.iter().position(|name| *name == runs.row)?,
            };
            Some((label(&runs.row, names), look, outcome))
        });
        let firsts: Vec<_> = firsts.collect();
        report.charts.extend(report::charts(
            &format!("{} on real files, first run", load.name),
            &firsts,
        ));
    }
    report.notes.extend(measured.notes.iter().cloned());
    if measured.rows.iter().any(|row| row.in_memory_group) {
        report.notes.push(
            "The kernel's memory group has the readers' own memory besides what is left for files, and uses no swap; \
             Millpond has what is left for files. The kernel changes the history through a mapping, Millpond through guards."
                .into(),
        );
    }
    for runs in &measured.results {
        let Some(outcome) = runs.outcomes.first() else {
            continue;
        };
        let name = format!("{}: {}", runs.workload, label(&runs.row, names));
        report.settings.push((name.clone(), outcome.settings.clone()));
        for warning in outcome.warnings.iter() {
            report.notes.push(format!("{name}: {warning}"));
        }
    }
    report.machine.extend(measured.machine.iter().cloned());
    report.metrics.extend(metrics);
}
