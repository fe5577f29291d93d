//! Tables of the mixed loads, in which the writers have other company than the post's reader: one for each.

use super::report::{MAX, P99, READS, SECONDS};
use crate::report::table::{Column, pick};
use crate::report::{Metric, RowName, Table, lookup};
use crate::workload::axboe2016::Phase;
use crate::workload::axboe2016::phase::Actor;

/// The tables of `place` for the workloads beyond the post's that were run.
pub(super) fn tables(place: &str, rows: &[RowName], metrics: &[Metric]) -> Vec<Table> {
    let others = Phase::ALL
        .into_iter()
        .filter(|phase| !Phase::POST.contains(phase));
    others
        .filter_map(|phase| {
            let columns = columns(phase);
            let has = |c: &&Column| {
                let of = |row| lookup(metrics, row, c.workload, c.metric).is_some();
                rows.iter().any(of)
            };
            let used: Vec<Column> = columns.iter().filter(has).copied().collect();
            let title = format!("{} ({place})", title(phase));
            (!used.is_empty()).then(|| pick(&title, "", &used, rows, metrics))
        })
        .collect()
}

fn title(phase: Phase) -> &'static str {
    match phase {
        Phase::WritersAndReader => "Reader and writers together",
        Phase::ReaderAlone => "Reader alone",
        Phase::WritersAlone => "Writers alone",
        Phase::ThinkingReader => "A reader that thinks for 5 ms after each page, beside the writers",
        Phase::SeveralReaders => "Eight readers beside the writers",
        Phase::CachedReader => "A reader of cached data, one read in a hundred anywhere, beside the writers",
        Phase::LogWriter => "A log that is synced after each record, beside the writers",
        Phase::LogWriterAlone => "The log alone",
        Phase::Checkpoints => "Checkpoints of a thousand scattered pages, beside the writers",
        Phase::Scan => "A scan beside the writers",
    }
}

fn columns(phase: Phase) -> Vec<Column> {
    let name = phase.name();
    let mut columns = match phase.actor() {
        Some(Actor::Readers(..)) => vec![
            Column::new("reads/s", name, READS),
            Column::new("p50", name, "reader_latency_p50_us"),
            Column::new("p99", name, P99),
            Column::new("p99.9", name, "reader_latency_p999_us"),
            Column::new("slowest", name, MAX),
        ],
        Some(Actor::CachedReader) => vec![
            Column::new("reads/s", name, READS),
            Column::new("hits", name, "reader_hits_percent"),
            Column::new("miss p50", name, "reader_latency_p50_us"),
            Column::new("miss p99", name, P99),
            Column::new("slowest", name, MAX),
        ],
        Some(Actor::Log) => vec![
            Column::new("syncs/s", name, "syncs_per_s"),
            Column::new("sync p50", name, "sync_p50_us"),
            Column::new("sync p99", name, "sync_p99_us"),
            Column::new("sync p99.9", name, "sync_p999_us"),
            Column::new("slowest", name, "sync_max_us"),
            Column::new("slowest write", name, "append_max_us"),
        ],
        Some(Actor::Checkpoints) => vec![
            Column::new("syncs/s", name, "syncs_per_s"),
            Column::new("sync p50", name, "sync_p50_us"),
            Column::new("sync p99", name, "sync_p99_us"),
            Column::new("slowest", name, "sync_max_us"),
        ],
        Some(Actor::Scan) => vec![
            Column::new("scan", name, "scan_mb_per_s"),
            Column::new("call p50", name, "scan_call_p50_us"),
            Column::new("call p99", name, "scan_call_p99_us"),
            Column::new("slowest", name, "scan_call_max_us"),
        ],
        None => Vec::new(),
    };
    columns.push(Column::new("writers", name, SECONDS));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{metric, row};

    #[test]
    fn each_workload_that_was_run_has_a_table_of_its_own() {
        let row = row("engine", "goal");
        let metrics = [
            metric(&row, "log-writer", "sync_p99_us", &[2_500.0]),
            metric(&row, "log-writer", SECONDS, &[20.0]),
            metric(&row, "writers-and-reader", P99, &[7.0]),
            metric(&row, "scan", "scan_mb_per_s", &[90.0]),
        ];
        let tables = tables("here", std::slice::from_ref(&row), &metrics);
        let titles: Vec<_> = tables.iter().map(|t| t.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "A log that is synced after each record, beside the writers (here)",
                "A scan beside the writers (here)"
            ]
        );
        assert_eq!(tables[0].head, ["", "sync p99", "writers"]);
        assert_eq!(tables[0].rows[0].cells[0].value, "2.50 ms");
    }
}
