//! Why the device was asked for what it was asked, and what the admission held back: a line for each row and reason.

use super::EXPERIMENT;
use crate::report::table::{WIDTH, cell, label, layout};
use crate::report::{Appendix, Cell, Metric, REASONS, RowName, Table, lookup};
use crate::workload::axboe2016::Phase;
use millpond_core::io::Reason;

const COLUMNS: [(&str, &str); 7] = [
    ("requests", "io_{}_requests"),
    ("bytes", "io_{}_mib"),
    ("mean", "io_{}_mean_us"),
    ("longest", "io_{}_max_us"),
    ("held back", "admission_{}_waits"),
    ("in all", "admission_{}_wait_seconds"),
    ("longest", "admission_{}_wait_max_us"),
];

/// The tables of all workloads whose rows counted by reason.
pub(super) fn appendices(rows: &[RowName], metrics: &[Metric]) -> Vec<Appendix> {
    let of = |phase: Phase| {
        let heads = COLUMNS.map(|(head, _)| head);
        let mut table = Table::new("", ["", "reason"].into_iter().chain(heads));
        for row in rows {
            for reason in Reason::ALL {
                let find = |(_, metric): (&str, &str)| {
                    let name = metric.replace("{}", reason.name());
                    lookup(metrics, row, phase.name(), &name).map_or_else(Cell::default, cell)
                };
                let mut cells = COLUMNS.map(find).to_vec();
                if cells.iter().any(|cell| !cell.value.is_empty()) {
                    cells.insert(0, Cell::from(reason.name().to_owned()));
                    table.push(label(row, rows), cells);
                }
            }
        }
        (!table.rows.is_empty()).then(|| Appendix {
            name: REASONS,
            title: format!(
                "Requests to the device and writes held back by the admission, by reason: {}",
                phase.name()
            ),
            text: layout(&table, WIDTH),
        })
    };
    let phases = Phase::ALL
        .into_iter()
        .filter(|p| EXPERIMENT.workloads.contains(&p.name()));
    phases.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{metric, row};

    #[test]
    fn each_reason_that_there_was_has_a_line() {
        let row = row("engine", "goal");
        let metrics = [
            metric(&row, "writers-and-reader", "io_fault_requests", &[17.0]),
            metric(&row, "writers-and-reader", "io_sync_requests", &[9.0]),
            metric(
                &row,
                "writers-and-reader",
                "admission_sync_wait_max_us",
                &[4_000.0],
            ),
        ];
        let all = appendices(std::slice::from_ref(&row), &metrics);
        assert_eq!(all.len(), 1);
        let lines: Vec<Vec<&str>> = all[0]
            .text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1][..4].join(" "), "engine goal fault 17.0");
        let sync = "engine goal sync 9.00 us - - - - - 4.00 ms";
        assert_eq!(lines[2].join(" "), sync);
    }
}
