//! The report of the runs on real memory: a table for each load and for each number of threads, and sentences.

use super::published::THREADS;
use super::real::{BOUNDS, Measured};
use super::{EXPERIMENT, answer};
use crate::report::table::{cell, columns, label, pick};
use crate::report::{Cell, Metric, Report, RowName, Table, TableRow, lookup};
use crate::workload::kim2020::loads::{Ebizzy, Load};
use millpond::internal::quantity::number;

const COLUMNS: [(&str, &str); 6] = [
    ("swap ins", "swap_ins_pages"),
    ("swap outs", "swap_outs_pages"),
    ("file reads", "file_reads_pages"),
    ("elapsed", "elapsed_seconds"),
    ("optimum", "misses_optimum_pages"),
    ("LRU", "misses_lru_pages"),
];

/// Adds what was measured on real memory to `report`.
pub(super) fn add(report: &mut Report, measured: &Measured) {
    let metrics: Vec<Metric> = crate::report::metrics(&measured.results, EXPERIMENT.name);
    let names = &measured.names;
    for (name, load) in &crate::workload::kim2020::loads::ROUNDS {
        if !measured.loads.contains(load) {
            continue;
        }
        let columns = columns(name, COLUMNS);
        let title = format!("{name} on real memory");
        report.tables.push(pick(&title, "", &columns, names, &metrics));
    }
    for threads in THREADS {
        report.tables.extend(tables(measured, &metrics, threads));
    }
    for load in &measured.loads {
        report
            .answers
            .extend(answer::of_real_memory(&load.name(), names, &metrics));
        report.verdict.extend(sentence(&load.name(), names, &metrics));
    }
    report.notes.extend(measured.notes.iter().cloned());
    for name in names {
        let mut own = measured.results.iter().filter(|runs| runs.row == *name);
        if let Some(outcome) = own.next().and_then(|runs| runs.outcomes.first()) {
            report
                .settings
                .push((label(name, names), outcome.settings.clone()));
        }
    }
    report.machine.extend(measured.machine.iter().cloned());
    report.metrics.extend(metrics);
}

/// The cells of the grid that were run with this number of threads: sizes by rows, skews by columns.
fn tables(measured: &Measured, metrics: &[Metric], threads: u32) -> Vec<Table> {
    let cells: Vec<Ebizzy> = measured
        .loads
        .iter()
        .filter_map(|load| match load {
            Load::Ebizzy(cell) if cell.threads == threads => Some(*cell),
            _ => None,
        })
        .collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let sorted = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.dedup();
        values
    };
    let sizes = sorted(cells.iter().map(|cell| cell.mb).collect());
    let skews = sorted(cells.iter().map(|cell| cell.skew_tenths.into()).collect());
    let head: Vec<String> = std::iter::once(String::new())
        .chain(skews.iter().map(|skew| format!("{}.{}", skew / 10, skew % 10)))
        .collect();
    let table = |what: &str, of_bounds: &[(&str, &str)], metric: &str| {
        let mut table = Table {
            title: format!("ebizzy on real memory, threads: {threads}, {what} by skew"),
            head: head.clone(),
            ..Table::default()
        };
        let row = |mb: u64, name: &RowName, shown: &str, metric: &str| TableRow {
            label: format!("{mb}M {shown}"),
            cells: skews
                .iter()
                .map(|&skew| {
                    let load = Load::Ebizzy(Ebizzy {
                        mb,
                        skew_tenths: skew as u32,
                        threads,
                    });
                    lookup(metrics, name, &load.name(), metric).map_or_else(Cell::default, cell)
                })
                .collect(),
        };
        for &mb in &sizes {
            for name in &measured.names {
                if name.target == BOUNDS {
                    table.rows.extend(
                        of_bounds
                            .iter()
                            .map(|(shown, metric)| row(mb, name, shown, metric)),
                    );
                } else {
                    let shown = format!("{} {}", name.target, name.variant);
                    table.rows.push(row(mb, name, &shown, metric));
                }
            }
        }
        table
    };
    let bounds = [
        ("LRU", "swap_ins_per_record_lru_pages"),
        ("most popular kept", "swap_ins_per_record_most_popular_kept_pages"),
        ("optimum", "swap_ins_per_record_optimum_pages"),
    ];
    vec![
        table("records a second", &[], "records_per_s"),
        table(
            "pages swapped in for a record",
            &bounds,
            "swap_ins_per_record_pages",
        ),
    ]
}

/// How the engine stands beside the kernel as shipped, and how much of the way to the optimum that is.
fn sentence(load: &str, names: &[RowName], metrics: &[Metric]) -> Option<String> {
    let find = |target: &'static str| names.iter().filter(move |name| name.target == target);
    let of = |name: &RowName, metric: &str| lookup(metrics, name, load, metric).map(|m| m.value);
    let engine = find("engine").next()?;
    let shipped = find("kernel").next()?;
    let optimum = of(find(BOUNDS).next()?, "misses_optimum_pages")?;
    let ins = |name| of(name, "swap_ins_pages");
    let (own, kernels) = (ins(engine)?, ins(shipped)?);
    let way = if kernels > optimum {
        format!(
            ", {} of the way to the optimum, which is {}",
            percent((kernels - own) / (kernels - optimum)),
            number(optimum)
        )
    } else {
        String::new()
    };
    let time = |name| of(name, "elapsed_seconds");
    let own_time = time(engine)?;
    let times: Vec<String> = find("kernel")
        .filter_map(|name| Some(format!("{} ({})", number(time(name)? / own_time), name.variant)))
        .collect();
    // Of the first row with a handler's threads, a region whose threads serve their own faults.
    let others: String = find("engine")
        .skip(1)
        .filter_map(|name| {
            let times = number(own_time / time(name)?);
            Some(format!(", and {} {times} times as that", name.variant))
        })
        .collect();
    Some(format!(
        "{load}: {} pages swapped in by the engine and {} by the kernel ({}){way}; {} times as fast{others}.",
        number(own),
        number(kernels),
        shipped.variant,
        times.join(" and ")
    ))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
