//! gorman2011 as a user meets it: in virtual time, and on real files as small as it can be.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::experiment::{Ran, assert_says, millpond, value};
use crate::support::{experiment, scratch, text, words};
use std::path::Path;

#[test]
fn reclaim_of_2011_runs_in_virtual_time_and_prints_the_posts_tables() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.html");
    let mut args = words(
        "lab run gorman2011 --on sim --variant vanilla,prioinode --workload micro --scale 0.1 --table post --report",
    );
    args.push(report.to_str().unwrap());
    let ran = millpond(&args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout);
    assert_says(
        &said,
        &[
            "sim prioinode",
            "micro, in virtual time",
            "micro, as posted in July 2011",
            "Kswapd reclaim write file async I/O 380 332 56 32 0 0",
            "KSwapd time congest waited 2937ms",
            "0.1 of the post's data",
        ],
    );
    assert!(std::fs::read_to_string(&report).unwrap().contains("gorman2011"));
}

/// On real files, with little data.
fn run(line: &str, dir: &Path) -> Option<Ran> {
    experiment::run(
        &format!("{line} --scale 0.003 --memory 64M --table post,reasons"),
        dir,
    )
}

#[test]
fn on_real_files_the_engine_writes_nothing_from_reclaim_and_every_metric_has_its_name() {
    let dir = scratch();
    let Some(Ran { said, metrics, .. }) = run("lab run gorman2011 --on engine", dir.path()) else {
        return;
    };
    assert_says(
        &said,
        &[
            "fs_mark on 16 MiB of memory: 2 rounds of 7 files of 10 MiB, 1 thread",
            "micro on 16 MiB of memory: one file of 32 MiB",
            "Kswapd reclaim write file async I/O",
            "engine goal, fs_mark: ",
        ],
    );
    let (mapped, metrics): (Vec<_>, Vec<_>) = metrics.into_iter().partition(|m| m["variant"] == "mapping");
    if mapped.is_empty() {
        println!("skipped: micro through a mapping of the engine");
    } else {
        assert!(value(&mapped, "engine", "micro", "touch_max_us").is_some());
        assert_eq!(value(&mapped, "engine", "fs_mark", "mb_per_s"), None);
    }
    for load in ["fs_mark", "micro"] {
        let of = |metric| value(&metrics, "engine", load, metric);
        assert_eq!(of("file_pages_written_by_reclaim"), Some(0.0), "{load}");
        assert!(
            of("pgsteal").is_some_and(|pages| pages > 2048.0),
            "{load}: too little left memory"
        );
        for metric in [
            "foreground_scan_share_percent",
            "reclaimed_percent",
            "mb_per_s",
            "frame_wait_max_us",
            "frame_wait_with_clean_max_us",
            "kswapd_wakeups",
            "reclaim_kswapd_clean_freed",
        ] {
            assert!(of(metric).is_some(), "{load}: {metric} is missing");
        }
    }
    assert!(value(&metrics, "engine", "fs_mark", "files_per_s_mean").is_some());
    assert!(value(&metrics, "engine", "micro", "touch_max_us").is_some());
}

#[test]
fn in_a_memory_group_the_kernel_writes_the_same_files_and_its_scans_are_counted() {
    let dir = scratch();
    let Some(Ran { said, metrics, .. }) = run("lab run gorman2011 --on kernel,engine", dir.path()) else {
        return;
    };
    assert_says(&said, &[" -> Millpond: "]);
    let reclaimed = value(&metrics, "kernel", "fs_mark", "pgsteal_direct");
    assert!(reclaimed.is_some_and(|pages| pages > 2048.0), "{reclaimed:?}");
    let mapped = |target| value(&metrics, target, "micro", "touch_max_us");
    assert!(mapped("kernel").is_some());
}
