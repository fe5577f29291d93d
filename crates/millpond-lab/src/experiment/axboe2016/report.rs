//! The experiment's report: its tables, notes and definitions; charts and answers come from the files next to it.
//!
//! Rows on real files and rows of a simulator are two groups: one is this machine, the other the post's. The
//! post's own numbers stand in the second group's table.

use super::answer::Answers;
use super::options::Sizes;
use super::{EXPERIMENT, bound, charts, frontier, mixed_loads, post, reasons};
use crate::backend::Row;
use crate::disk_model::DiskModel;
use crate::memory_group::WITHOUT_THROTTLING;
use crate::report::table::{Column, pick, used};
use crate::report::verdict::Circumstances;
use crate::report::{Metric, Report, RowName, Runs, Table, lookup};
use crate::workload::axboe2016::Phase;
use millpond::internal::quantity;

pub(super) const BOTH: &str = Phase::WritersAndReader.name();
pub(super) const READER: &str = Phase::ReaderAlone.name();
pub(super) const WRITERS: &str = Phase::WritersAlone.name();

pub(super) const READS: &str = "reader_reads_per_s";
pub(super) const P99: &str = "reader_latency_p99_us";
pub(super) const P999: &str = "reader_latency_p999_us";
pub(super) const MAX: &str = "reader_latency_max_us";
pub(super) const SECONDS: &str = "writers_seconds";

/// `sizes`: those of real files, and those of the simulator. `doubt`: why what was measured on real files shows nothing.
pub(super) fn report(
    real: &[Row],
    simulated: &[Row],
    results: &[Runs],
    [sizes, simulated_sizes]: [&Sizes; 2],
    doubt: Option<String>,
) -> Report {
    let metrics: Vec<Metric> = crate::report::metrics(results, EXPERIMENT.name);
    let names = |rows: &[Row]| rows.iter().map(super::super::row_name).collect::<Vec<_>>();
    let (real, simulated) = (names(real), names(simulated));
    let all: Vec<RowName> = real.iter().chain(&simulated).cloned().collect();
    let answers = |is_exact, sizes: &Sizes| Answers {
        metrics: &metrics,
        scale: sizes.scale,
        circumstances: Circumstances {
            is_exact,
            doubt: doubt.clone().filter(|_| !is_exact),
            ..Circumstances::default()
        },
    };
    let mut report = Report {
        title: "axboe2016: writers of large files beside a reader".into(),
        intro: vec![
            format!(
                "{} files of {} are written and synced while one reader reads 4 KiB at a time, at random, from another file of {}. How long does it wait, and what do the writers pay for its comfort?",
                sizes.files,
                quantity::size(sizes.file),
                quantity::size(sizes.read_file),
            ),
            format!("After {}.", EXPERIMENT.post),
        ],
        definitions: DEFINITIONS.to_vec(),
        ..Report::default()
    };
    if !real.is_empty() {
        report.tables.extend(tables("this machine", &real, &metrics));
        report
            .tables
            .extend(mixed_loads::tables("this machine", &real, &metrics));
        // the bare disk is a bound, with a table of its own
        let caches: Vec<RowName> = real
            .iter()
            .filter(|row| row.target != frontier::BARE)
            .cloned()
            .collect();
        report
            .answers
            .extend(answers(false, sizes).of_this_machine(&caches));
        report
            .charts
            .extend(charts::charts("this machine", &real, &all, results));
        report.notes.extend(notes(&real, &metrics, sizes));
    }
    let (paced, simulated): (Vec<RowName>, Vec<RowName>) =
        simulated.into_iter().partition(|row| row.target == "paced");
    if !paced.is_empty() {
        let place = "paced writes, in virtual time";
        // alone, doses say nothing
        report
            .tables
            .extend(tables(place, &paced, &metrics).into_iter().take(1));
    }
    if !simulated.is_empty() {
        // with other workloads the post's numbers say nothing
        if metrics.iter().any(|m| m.target == "sim" && is_the_posts(m)) {
            // nor on another disk than the post's
            let place = place(&simulated);
            let (rows, with_post) = match place == THE_POSTS {
                true => beside_the_post(&simulated, &metrics),
                false => (simulated.clone(), metrics.clone()),
            };
            report.tables.extend(tables(&place, &rows, &with_post));
        }
        report
            .tables
            .extend(mixed_loads::tables("in virtual time", &simulated, &metrics));
        report
            .answers
            .extend(answers(true, simulated_sizes).of_virtual_time(&simulated));
        report
            .charts
            .extend(charts::charts("in virtual time", &simulated, &all, results));
    }
    let all: Vec<RowName> = real.into_iter().chain(simulated).chain(paced).collect();
    let frontier = frontier::charts(&all, &metrics);
    report.charts.splice(0..0, frontier);
    report.tables.extend(frontier::tables(&all, &metrics));
    report.tables.extend(bound::tables(&all, &metrics));
    report.add_rows(&all, results);
    report
        .appendices
        .extend(post::appendices(&all, &metrics, results));
    report.appendices.extend(reasons::appendices(&all, &metrics));
    report.add_slowest(&all, results);
    report.metrics = metrics;
    report
}

fn tables(place: &str, rows: &[RowName], metrics: &[Metric]) -> Vec<Table> {
    // The reader's figures, and those of the writers and the process.
    let summary = |title: &str, reader, writers| {
        let columns = [
            Column::new("reads/s", reader, READS),
            Column::new("p50", reader, "reader_latency_p50_us"),
            Column::new("p99", reader, P99),
            Column::new("p99.9", reader, P999),
            Column::new("slowest", reader, MAX),
            Column::new("writers", writers, SECONDS),
            Column::new("resident", writers, "resident_peak_mib"),
            Column::new("machine's cache", writers, "page_cache_growth_mib"),
        ];
        let title = format!("{title} ({place})");
        pick(&title, "", &used(&columns, rows, metrics), rows, metrics)
    };
    vec![
        summary("Reader and writers together", BOTH, BOTH),
        summary("Each alone", READER, WRITERS),
    ]
}

const THE_POSTS: &str = "in virtual time, the post's own machine";

/// The disk of rows in virtual time. The post's rotates.
fn place(rows: &[RowName]) -> String {
    match rows.iter().find(|row| row.device != DiskModel::hdd().to_string()) {
        None => THE_POSTS.into(),
        Some(other) => format!("in virtual time, on a modelled {}", other.device),
    }
}

/// Whether the metric belongs to a workload of the post.
fn is_the_posts(metric: &Metric) -> bool {
    Phase::POST.iter().any(|phase| phase.name() == metric.workload)
}

/// The simulator's rows with the post's before them, and the metrics of both.
fn beside_the_post(rows: &[RowName], metrics: &[Metric]) -> (Vec<RowName>, Vec<Metric>) {
    let post = ["off", "v3-10"].map(post::row);
    let rows = post.into_iter().chain(rows.iter().cloned()).collect();
    (rows, [post::metrics(), metrics.to_vec()].concat())
}

fn notes(rows: &[RowName], metrics: &[Metric], sizes: &Sizes) -> Vec<String> {
    let mut notes = Vec::new();
    let unlimited = rows
        .iter()
        .any(|row| row.target == "kernel" && !row.variant.contains("memory="));
    let limited = rows
        .iter()
        .any(|row| row.target != "kernel" || row.variant.contains("memory="));
    if unlimited && limited {
        notes.push(format!(
            "The kernel without `memory=` has the whole machine's memory for its page cache; the other rows have {}.",
            quantity::size(sizes.memory)
        ));
    }
    if rows.iter().any(|row| row.variant.ends_with("group=v1")) {
        notes.push(format!("group=v1: {WITHOUT_THROTTLING}"));
    }
    let shortest = rows
        .iter()
        .filter_map(|row| lookup(metrics, row, BOTH, SECONDS))
        .map(|m| m.value)
        .fold(f64::MAX, f64::min);
    if shortest < 1.0 {
        notes.push(format!(
            "The writers were done in {}: too short for a tail to show. A larger --scale or --file-size helps.",
            quantity::seconds(shortest)
        ));
    }
    notes
}

const DEFINITIONS: [(&str, &str); 10] = [
    (
        "reads/s",
        "Reads of 4 KiB that the reader completed in a second, hits and misses. It is one thread that asks again as soon as it has \
             an answer. A read counts in full if it overlaps the time from the writers' first write to the end of their sync.",
    ),
    (
        "p50, p99, p99.9, slowest",
        "The latency that 50 %, 99 %, 99.9 % and all of the reads that missed did not exceed (nearest rank). Hits, which came out of \
             memory, are counted separately. With fewer than 1000 reads p99.9 is the slowest one.",
    ),
    (
        "writers",
        "Seconds from the first write call to the end of the sync of everything, as `time (write-files; sync)` shows; MB/s: the bytes \
             written in that time.",
    ),
    (
        "syncs/s, sync p99",
        "The log appends a record of 4 or 8 KiB, makes it durable with a sync of its file alone, and continues with the next. \
             The syncs completed in a second, and how long they took; \"slowest write\" is that of the write calls before them.",
    ),
    (
        "scan",
        "Millions of bytes a second for a reader of the whole file from its start, 256 KiB at a time, again and \
             again. The kernel reads ahead for it.",
    ),
    (
        "hits",
        "The share of reads served from memory. A reader of cached data reads pages of a part of the file as large as an \
             eighth of memory, and one time in a hundred anywhere. In the simulator it thinks for 50 us after each.",
    ),
    (
        "resident",
        "The largest resident set of the run's process (VmHWM). The kernel's page cache is not in it.",
    ),
    (
        "machine's cache",
        "The largest growth of the whole machine's page cache during the run. In Millpond's rows, too, it is the \
             kernel's, from whatever else was read and written meanwhile: Millpond's own pages are in \"resident\".",
    ),
    (
        "the small numbers",
        "The minimum and maximum of the runs; the large number is their median. Charts show the median run.",
    ),
    (
        "kernel",
        "Ordinary buffered writes through this machine's page cache. Without `memory=` the reader reads with O_DIRECT, so that it always \
             misses, and the page cache may use the whole machine; with it, both are in a memory control group of that size and the \
             reader is buffered too, without read-ahead.",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::answer::tests::both;
    use super::*;
    use crate::report::tests::row;
    use millpond_core::units::Bytes;

    #[test]
    fn the_posts_numbers_stand_before_the_simulators() {
        let rows = ["off", "v3-10"].map(|variant| RowName::new("sim", "hdd", variant));
        let mut metrics = both(&rows[0], &[650e3], &[250e3], &[130.0], &[66.0]);
        metrics.extend(both(&rows[1], &[400e3], &[500.0], &[4550.0], &[89.1]));
        let (with_post, all) = beside_the_post(&rows, &metrics);
        let table = tables("virtual", &with_post, &all).remove(0);
        let labels: Vec<_> = table.rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(
            labels,
            ["post, 2016: off", "post, 2016: v3-10", "sim off", "sim v3-10"]
        );
        assert_eq!(table.rows[0].cells[0].value, "134");
    }

    /// The title of an SSD's rows was the post's machine, with the post's rows of a hard disk above them.
    #[test]
    fn another_disk_than_the_posts_has_its_name_in_the_heading_and_no_rows_of_the_post() {
        let on = |device: &str| {
            let name = RowName {
                device: device.into(),
                ..row("sim", "goal")
            };
            let metrics = both(&name, &[650e3], &[250e3], &[130.0], &[66.0]);
            let outcome = crate::outcome::Outcome {
                measures: metrics
                    .iter()
                    .map(|m| crate::outcome::Measure {
                        metric: m.metric.clone(),
                        unit: m.unit.clone(),
                        value: m.value,
                    })
                    .collect(),
                ..crate::outcome::Outcome::default()
            };
            let rows = [sim_row(device)];
            let runs = [Runs::single(
                super::super::super::row_name(&rows[0]),
                BOTH,
                outcome,
            )];
            let sizes = super::super::options::post_sizes();
            let table = report(&[], &rows, &runs, [&sizes, &sizes], None).tables.remove(0);
            (table.title, table.rows[0].label.clone())
        };
        assert_eq!(
            on("sata-ssd"),
            (
                "Reader and writers together (in virtual time, on a modelled sata-ssd)".into(),
                "sim goal".into()
            )
        );
        let (title, first) = on("hdd");
        assert_eq!(first, "post, 2016: off");
        assert!(
            title.ends_with("(in virtual time, the post's own machine)"),
            "{title}"
        );
    }

    fn sim_row(device: &str) -> Row {
        let options = crate::experiment::Options {
            device: device.parse().unwrap(),
            ..crate::experiment::Options::default()
        };
        options
            .request(EXPERIMENT.name, &[], "/".as_ref())
            .row("sim", "goal")
    }

    #[test]
    fn a_short_run_is_called_short() {
        let kernel = row("kernel", "kernel");
        let metrics = both(&kernel, &[1e3], &[1e3], &[1e3], &[0.4]);
        let sizes = Sizes {
            scale: 1.0,
            files: 1,
            file: Bytes(1),
            read_file: Bytes(1),
            memory: Bytes::from_mib(64),
        };
        let notes = notes(std::slice::from_ref(&kernel), &metrics, &sizes);
        assert!(notes.len() == 1 && notes[0].contains("0.400 s"), "{notes:?}");
    }
}
