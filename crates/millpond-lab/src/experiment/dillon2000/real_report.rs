//! The report of the runs on real files: a table for each load, the load over time, and the comparison with the kernel.

use super::real::Measured;
use super::{EXPERIMENT, SATURATED, answer, report};
use crate::report::table::{columns, label, pick};
use crate::report::{Metric, Report, RowName, lookup};
use millpond::internal::quantity::{micros, number};

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
        let columns = columns(load.name, COLUMNS);
        let title = format!("{} on real files: {}", load.name, load.description());
        report.tables.push(pick(&title, "", &columns, names, &metrics));
        report
            .answers
            .extend(answer::of_real_files(load.name, names, &metrics));
        report.verdict.extend(verdict(load.name, names, &metrics));
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

/// How the engine stands beside the kernel: at least as many articles, and with a p99 of at most half, where all the disk has
/// is asked for.
fn verdict(load: &str, names: &[RowName], metrics: &[Metric]) -> Vec<String> {
    let Some(engine) = names.iter().find(|name| name.target == "engine") else {
        return Vec::new();
    };
    let of = |row: &RowName, metric: &str| lookup(metrics, row, load, metric).map(|m| m.value);
    let beside = |kernel: &RowName| {
        let both = |metric| Some((of(engine, metric)?, of(kernel, metric)?));
        let ((ours, theirs), (our_p99, their_p99), (our_load, their_load)) = (
            both("articles_per_s")?,
            both("article_latency_p99_us")?,
            both("load_mean")?,
        );
        let is_missed = load == SATURATED && (ours < theirs || our_p99 * 2.0 > their_p99);
        Some(format!(
            "{load}{}: {} articles a second with a p99 of {} and a load of {}; {} with {} and {} on {}.",
            if is_missed { " MISSED" } else { "" },
            number(ours),
            micros(our_p99),
            number(our_load),
            number(theirs),
            micros(their_p99),
            number(their_load),
            kernel.variant
        ))
    };
    let kernels = names.iter().filter(|name| name.target == "kernel");
    kernels.filter_map(beside).collect()
}
