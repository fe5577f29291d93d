//! The report of the runs on real memory: a table for each load and for each number of threads.

use super::grid::{self, Grid, GridRow};
use super::published::THREADS;
use super::runs::BOUNDS;
use super::{EXPERIMENT, answer};
use crate::experiment::Measured;
use crate::report::table::{cell, columns, pick};
use crate::report::{Metric, Report, RowName, Table, lookup};
use crate::workload::kim2020::loads::{Ebizzy, Load, ROUNDS};

const COLUMNS: [(&str, &str); 6] = [
    ("swap ins", "swap_ins_pages"),
    ("swap outs", "swap_outs_pages"),
    ("file reads", "file_reads_pages"),
    ("elapsed", "elapsed_seconds"),
    ("optimum", "misses_optimum_pages"),
    ("LRU", "misses_lru_pages"),
];

/// Adds what was measured on real memory to `report`; the bounds are the last of its rows.
pub(super) fn add(report: &mut Report, loads: &[Load], measured: &Measured) {
    let metrics: Vec<Metric> = crate::report::metrics(&measured.results, EXPERIMENT.name);
    let names = &measured.names;
    for (name, _) in ROUNDS.iter().filter(|(_, load)| loads.contains(load)) {
        let columns = columns(name, &COLUMNS);
        let title = format!("{name} on real memory");
        report.tables.push(pick(&title, "", &columns, names, &metrics));
    }
    for threads in THREADS {
        report.tables.extend(tables(loads, names, &metrics, threads));
    }
    for load in loads {
        report
            .answers
            .extend(answer::of_real_memory(&load.name(), names, &metrics));
    }
    measured.add_to(report, metrics);
}

/// The cells of the grid that were run with this number of threads.
fn tables(loads: &[Load], names: &[RowName], metrics: &[Metric], threads: u32) -> Vec<Table> {
    let Some(grid) = Grid::with_threads(threads, loads) else {
        return Vec::new();
    };
    let of = |name: &'_ RowName, metric: &'static str| {
        let name = name.clone();
        move |load: Ebizzy| {
            let load = Load::Ebizzy(load).name();
            lookup(metrics, &name, &load, metric).map(cell)
        }
    };
    let table = |what: &str, bounds: &[(&'static str, &'static str)], metric| {
        let mut rows = Vec::new();
        for name in names {
            match name.target == BOUNDS {
                true => rows.extend(
                    bounds
                        .iter()
                        .map(|(shown, metric)| GridRow::new(*shown, of(name, metric))),
                ),
                false => {
                    let shown = format!("{} {}", name.target, name.variant);
                    rows.push(GridRow::new(shown, of(name, metric)));
                }
            }
        }
        grid.table(" on real memory", &format!("{what} by skew"), &rows)
    };
    let per_record = "swap_ins_per_record_pages";
    vec![
        table("records a second", &[], "records_per_s"),
        table("pages swapped in for a record", &grid::BOUNDS, per_record),
    ]
}
