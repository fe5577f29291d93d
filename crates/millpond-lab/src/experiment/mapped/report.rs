//! Tables and definitions of the experiment.

use super::{EXPERIMENT, HOT_SET, MEMORIES, Plan, WRITERS, answer};
use crate::report::table::{Column, pick};
use crate::report::{Metric, Report, RowName, Runs};
use millpond::internal::quantity::size;

/// A table for each: its title and its metric, of all loads that have no table of their own.
const TABLES: [(&str, &str); 5] = [
    ("Accesses a second", "accesses_per_s"),
    ("The median access", "access_p50_us"),
    ("One access in 100 takes as long or longer", "access_p99_us"),
    ("The slowest access", "access_max_us"),
    (
        "Processor for an access, of all threads of the process",
        "processor_per_access_us",
    ),
];

/// Of the loads that have one.
const BESIDE: [Column; 9] = [
    Column::new("hot set: in memory", HOT_SET, "hot_hits_percent"),
    Column::new("in the last quarter", HOT_SET, "hot_hits_late_percent"),
    Column::new("touches/s", HOT_SET, "accesses_per_s"),
    Column::new("writers", WRITERS, "writers_mb_per_s"),
    Column::new("reader: reads/s", WRITERS, "accesses_per_s"),
    Column::new("p50", WRITERS, "access_p50_us"),
    Column::new("p99", WRITERS, "access_p99_us"),
    Column::new("p99.9", WRITERS, "access_p999_us"),
    Column::new("slowest", WRITERS, "access_max_us"),
];

pub(super) fn report(plan: &Plan, names: &[RowName], results: &[Runs]) -> Report {
    let metrics: Vec<Metric> = crate::report::metrics(results, EXPERIMENT.name);
    let memory = size(plan.memory);
    let file = size(millpond_core::units::Bytes(plan.file_bytes()));
    let mut report = Report {
        title: "mapped: a file larger than memory, through a mapping".into(),
        intro: vec![format!(
            "A file of {file} is touched within {memory} of memory, {MEMORIES} times less: through the kernel's mmap in a memory \
             group of that size, through Millpond's mapping within a budget of that size, and by calls. What does an access \
             take?"
        )],
        definitions: DEFINITIONS.to_vec(),
        ..Report::default()
    };
    for (name, _) in &plan.loads {
        report.answers.extend(answer::of(name, names, &metrics));
    }
    let mut add = |title: &str, columns: &[Column]| {
        report.tables.push(pick(title, "", columns, names, &metrics));
    };
    let of = |metric, is_in: &dyn Fn(&str) -> bool| -> Vec<Column> {
        let loads = plan.loads.iter().filter(|(name, _)| is_in(name));
        loads.map(|(name, _)| Column::new(name, name, metric)).collect()
    };
    for (title, metric) in TABLES {
        add(title, &of(metric, &|name| ![HOT_SET, WRITERS].contains(&name)));
    }
    add("A hot set beside a scan, a reader beside writers", &BESIDE);
    let some = |name: &str| ["uniform-8", "change-8", "sequential", WRITERS].contains(&name);
    add(
        &format!("Resident at most, above what the process had before; the budget is {memory}"),
        &of("resident_above_start_mib", &some),
    );
    add(
        "The kernel's page tables for the process, at the end",
        &of("page_tables_mib", &some),
    );
    report.tables.retain(|table| !table.rows.is_empty());
    report.add_rows(names, results);
    report.metrics = metrics;
    report
}

const DEFINITIONS: [(&str, &str); 9] = [
    (
        "uniform, zipf, change",
        "A word of any page is read (uniform), or of pages chosen by Zipf's law (zipf), or one is read and another written (change). The number is that of \
         threads. Before it is measured, the load runs as long with eight threads.",
    ),
    (
        "records",
        "Records of 256 KiB anywhere; a word of each page. An access is a record.",
    ),
    ("sequential", "The same, one record after the other."),
    (
        "in-memory",
        "Words of a part of the file that is in memory, a quarter of it.",
    ),
    (
        "hot-set",
        "Random touches of a part half as large as memory; after each, a page of a scan of the rest of the file. It has a quarter of \
         the other loads' memory, the scan covers four times that, and it runs until the scan is complete.",
    ),
    (
        "writers",
        "A word of any page is read while two threads write files through the same cache as fast as they can.",
    ),
    (
        "vectors",
        "Lists of 256 KiB by Zipf's law, four threads; a word of each cache line. An access is a list.",
    ),
    (
        "weights",
        "Twice the memory in order, repeatedly, in pieces of 256 KiB; a word of each cache line. An access is a piece.",
    ),
    (
        "in memory",
        "Touches that waited for no read: in the kernel, without a major fault; in Millpond, of a resident page.",
    ),
];
