//! Tables of the mixed loads, in which the writers have other company than the post's reader: one for each.

use super::report::{MAX, P99, P999, READS, SECONDS};
use crate::report::table::{columns, pick, used};
use crate::report::{Metric, RowName, Table};
use crate::workload::axboe2016::Phase;

/// Heads and metrics.
type Heads = &'static [(&'static str, &'static str)];

const READERS: Heads = &[
    ("reads/s", READS),
    ("p50", "reader_latency_p50_us"),
    ("p99", P99),
    ("p99.9", P999),
    ("slowest", MAX),
    ("writers", SECONDS),
];
const LOG: Heads = &[
    ("syncs/s", "syncs_per_s"),
    ("sync p50", "sync_p50_us"),
    ("sync p99", "sync_p99_us"),
    ("sync p99.9", "sync_p999_us"),
    ("slowest", "sync_max_us"),
    ("slowest write", "append_max_us"),
    ("writers", SECONDS),
];

const TABLES: [(Phase, &str, Heads); 7] = [
    (
        Phase::ThinkingReader,
        "A reader that thinks for 5 ms after each page, beside the writers",
        READERS,
    ),
    (Phase::SeveralReaders, "Eight readers beside the writers", READERS),
    (
        Phase::CachedReader,
        "A reader of cached data, one read in a hundred anywhere, beside the writers",
        &[
            ("reads/s", READS),
            ("hits", "reader_hits_percent"),
            ("miss p50", "reader_latency_p50_us"),
            ("miss p99", P99),
            ("slowest", MAX),
            ("writers", SECONDS),
        ],
    ),
    (
        Phase::LogWriter,
        "A log that is synced after each record, beside the writers",
        LOG,
    ),
    (Phase::LogWriterAlone, "The log alone", LOG),
    (
        Phase::Checkpoints,
        "Checkpoints of a thousand scattered pages, beside the writers",
        &[
            ("syncs/s", "syncs_per_s"),
            ("sync p50", "sync_p50_us"),
            ("sync p99", "sync_p99_us"),
            ("slowest", "sync_max_us"),
            ("writers", SECONDS),
        ],
    ),
    (
        Phase::Scan,
        "A scan beside the writers",
        &[
            ("scan", "scan_mb_per_s"),
            ("call p50", "scan_call_p50_us"),
            ("call p99", "scan_call_p99_us"),
            ("slowest", "scan_call_max_us"),
            ("writers", SECONDS),
        ],
    ),
];

/// The tables of `place` for the workloads beyond the post's that were run.
pub(super) fn tables(place: &str, rows: &[RowName], metrics: &[Metric]) -> Vec<Table> {
    let table = |(phase, title, heads): (Phase, &str, Heads)| {
        let used = used(&columns(phase.name(), heads), rows, metrics);
        let title = format!("{title} ({place})");
        (!used.is_empty()).then(|| pick(&title, "", &used, rows, metrics))
    };
    TABLES.into_iter().filter_map(table).collect()
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
