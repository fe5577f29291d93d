//! gorman2011 as a user meets it: in virtual time, and on real files as small as it can be.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use support::{scratch, text, words};

fn millpond(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(args).current_dir(dir.path()).output().unwrap()
}

#[test]
fn reclaim_of_2011_runs_in_virtual_time_and_prints_the_posts_tables() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.html");
    let mut args = words(
        "lab run gorman2011 --on sim --variant vanilla,prioinode --workload micro --scale 0.1 --table post,trace --report",
    );
    args.push(report.to_str().unwrap());
    let ran = millpond(&args);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "sim prioinode",
        "micro, in virtual time",
        "micro, as posted in July 2011",
        "Kswapd reclaim write file async I/O 380 332 56 32 0 0",
        "KSwapd time congest waited 2937ms",
        "Reclaim's decisions: micro on vanilla",
        "clean: freed",
        "0.1 of the post's data",
    ] {
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
    assert!(std::fs::read_to_string(&report).unwrap().contains("gorman2011"));
    for (args, expected) in [
        (
            "lab run gorman2011 --on paced",
            "it paces the writers of axboe2016 only",
        ),
        (
            "lab run gorman2011 --table reasons",
            "unknown table `reasons`; allowed: post, trace",
        ),
        (
            "lab run gorman2011 --filesystem jfs",
            "`jfs`; allowed: xfs, ext3, ext4, btrfs",
        ),
    ] {
        let refused = millpond(&words(args));
        assert!(!refused.status.success());
        assert!(
            text(&refused.stderr).contains(expected),
            "{}",
            text(&refused.stderr)
        );
    }
}

/// A run on real files with little data; `None`, and says why, where that can't be.
fn run(line: &str, dir: &Path) -> Option<(String, Vec<Value>)> {
    let json = dir.join("metrics.jsonl");
    let report = dir.join("report.html");
    let mut args = words(line);
    args.extend([
        "--scale",
        "0.003",
        "--memory",
        "64M",
        "--runs",
        "1",
        "--table",
        "post,trace",
    ]);
    args.extend(["--dir", dir.to_str().unwrap(), "--json", json.to_str().unwrap()]);
    args.extend(["--report", report.to_str().unwrap()]);
    let ran = millpond(&args);
    if ran.status.code() == Some(3) {
        println!("skipped: {}", text(&ran.stderr).trim().replace('\n', " "));
        return None;
    }
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let metrics = std::fs::read_to_string(&json).unwrap();
    let metrics = metrics.lines().map(|line| serde_json::from_str(line).unwrap());
    let said = (text(&ran.stdout), metrics.collect());
    [json, report]
        .iter()
        .for_each(|path| std::fs::remove_file(path).unwrap());
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().collect();
    assert!(left.is_empty(), "something is left: {left:?}");
    Some(said)
}

fn value(metrics: &[Value], target: &str, workload: &str, metric: &str) -> Option<f64> {
    let is = |m: &&Value| m["target"] == target && m["workload"] == workload && m["metric"] == metric;
    let found: Vec<_> = metrics.iter().filter(is).collect();
    assert!(found.len() < 2, "{metric} is there twice");
    found.first()?["value"].as_f64()
}

#[test]
fn on_real_files_the_engine_writes_nothing_from_reclaim_and_every_metric_has_its_name() {
    let dir = scratch();
    let Some((said, metrics)) = run("lab run gorman2011 --on engine", dir.path()) else {
        return;
    };
    for words in [
        "fs_mark on 16 MiB of memory: 2 rounds of 7 files of 10 MiB, 1 thread",
        "micro on 16 MiB of memory: one file of 32 MiB",
        "reclaim wrote 0 file pages (asked: 0)",
        "Kswapd reclaim write file async I/O",
        "The slowest calls of fs_mark: engine goal",
    ] {
        assert!(said.contains(words), "{words} is not in\n{said}");
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
    let Some((said, metrics)) = run("lab run gorman2011 --on kernel,engine", dir.path()) else {
        return;
    };
    assert!(said.contains("% of the "), "no comparison in\n{said}");
    let reclaimed = value(&metrics, "kernel", "fs_mark", "pgsteal_direct");
    assert!(reclaimed.is_some_and(|pages| pages > 2048.0), "{reclaimed:?}");
    let mapped = |target| value(&metrics, target, "micro", "touch_max_us");
    assert!(mapped("kernel").is_some() && mapped("engine").is_some());
}
