//! The experiment `mapped` as a user meets it, as small as it can be.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::experiment::{Ran, assert_says, run};
use crate::support::scratch;
use serde_json::Value;

/// A row's metric; every one has a name of its own.
fn of(metrics: &[Value], variant: &str, workload: &str, metric: &str) -> Option<f64> {
    let is = |m: &&Value| m["variant"] == variant && m["workload"] == workload && m["metric"] == metric;
    metrics.iter().find(is)?["value"].as_f64()
}

#[test]
fn a_mapped_file_of_four_times_memory_is_touched_by_all_loads_on_every_row_of_the_engine() {
    let dir = scratch();
    let line = "lab run mapped --on engine --scale 0.001";
    let Some(Ran { said, metrics, .. }) = run(line, dir.path()) else {
        return;
    };
    assert_says(
        &said,
        &["Accesses a second", "engine in-thread", "A hot set beside a scan"],
    );
    let loads = [
        "uniform-1",
        "uniform-8",
        "zipf-1",
        "zipf-8",
        "change-1",
        "change-8",
        "records",
        "sequential",
        "in-memory",
        "hot-set",
        "writers",
        "vectors",
        "weights",
    ];
    for row in ["mapping", "in-thread", "page"] {
        for load in loads {
            for metric in [
                "accesses_per_s",
                "access_p50_us",
                "access_p99_us",
                "access_max_us",
            ] {
                let value = of(&metrics, row, load, metric);
                assert!(
                    value.is_some_and(|v| v > 0.0),
                    "{row}, {load}: {metric} is {value:?}"
                );
            }
            for metric in [
                "processor_per_access_us",
                "resident_above_start_mib",
                "page_tables_mib",
            ] {
                assert!(
                    of(&metrics, row, load, metric).is_some(),
                    "{row}, {load}: no {metric}"
                );
            }
        }
        let hits = of(&metrics, row, "hot-set", "hot_hits_percent");
        assert!(hits.is_some_and(|percent| percent <= 100.0), "{row}: {hits:?}");
    }
    // In so short a time the writers of one row may have had no turn.
    let writers =
        ["mapping", "in-thread", "page"].map(|row| of(&metrics, row, "writers", "writers_mb_per_s"));
    assert!(
        writers.iter().all(Option::is_some) && writers.iter().any(|rate| *rate > Some(0.0)),
        "{writers:?}"
    );
}

#[test]
fn the_kernels_mapping_is_measured_in_a_memory_group_with_and_without_read_ahead() {
    let dir = scratch();
    let line = "lab run mapped --on kernel --variant random,normal --workload uniform-1,records,hot-set,writers --scale 0.001";
    let Some(Ran { metrics, .. }) = run(line, dir.path()) else {
        return;
    };
    for row in ["random", "normal"] {
        for load in ["uniform-1", "records", "writers"] {
            let rate = of(&metrics, row, load, "accesses_per_s");
            assert!(rate.is_some_and(|rate| rate > 0.0), "{row}, {load}: {rate:?}");
        }
        let peak = of(&metrics, row, "uniform-1", "memory_group_peak_mib");
        assert!(
            peak.is_none_or(|mib| mib <= 16.0),
            "{row}: {peak:?} in a group of 16 MiB"
        );
    }
    assert!(of(&metrics, "normal", "hot-set", "hot_hits_percent").is_some());
    assert_eq!(
        of(&metrics, "random", "hot-set", "hot_hits_percent"),
        None,
        "it takes minutes"
    );
}
