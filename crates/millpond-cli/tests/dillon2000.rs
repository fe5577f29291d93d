//! dillon2000 as a user meets it: a rule in virtual time, and the news on real files as small as they can be.
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

/// A run on real files with little data; `None`, and says why, where that can't be.
fn run(line: &str, dir: &Path) -> Option<(String, Vec<Value>)> {
    let (json, report) = (dir.join("metrics.jsonl"), dir.join("report.html"));
    let mut args = words(line);
    args.extend(["--scale", "0.01", "--runs", "1", "--dir", dir.to_str().unwrap()]);
    args.extend([
        "--json",
        json.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ]);
    let ran = millpond(&args);
    if ran.status.code() == Some(3) {
        println!("skipped: {}", text(&ran.stderr).trim().replace('\n', " "));
        return None;
    }
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let metrics = std::fs::read_to_string(&json).unwrap();
    let metrics = metrics.lines().map(|line| serde_json::from_str(line).unwrap());
    let said = text(&ran.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("How many readers waited, over time (news on real files"));
    let said = (said, metrics.collect());
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

/// What both targets must have measured.
fn check(metrics: &[Value], target: &str) {
    for load in ["news", "saturated"] {
        let of = |metric| value(metrics, target, load, metric);
        assert!(
            of("articles_per_s").is_some_and(|rate| rate > 0.0),
            "{load} on {target}"
        );
        for metric in [
            "load_mean",
            "load_max",
            "article_latency_p50_us",
            "article_latency_p99_us",
            "pageouts_per_s",
            "pgscan",
        ] {
            assert!(of(metric).is_some(), "{load} on {target}: {metric} is missing");
        }
    }
}

#[test]
fn on_real_files_the_engine_serves_the_news_and_reclaim_writes_nothing() {
    let dir = scratch();
    let Some((said, metrics)) = run("lab run dillon2000 --on engine", dir.path()) else {
        return;
    };
    for words in [
        "news on real files: 6 readers take 96 KiB of 40 MiB every 6.75 s or so",
        "saturated on real files: 64 readers take 16 KiB of 30 MiB one after the other and change 4 pages of 3 MiB",
    ] {
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
    check(&metrics, "engine");
    let written = value(&metrics, "engine", "saturated", "file_pages_written_by_reclaim");
    assert_eq!(written, Some(0.0));
}

#[test]
fn the_kernel_serves_them_in_a_memory_group_and_on_the_modelled_disk() {
    for device in ["real", "hdd"] {
        let dir = scratch();
        let line = format!("lab run dillon2000 --on kernel,engine --device {device}");
        let Some((said, metrics)) = run(&line, dir.path()) else {
            continue;
        };
        check(&metrics, "kernel");
        check(&metrics, "engine");
        assert!(
            said.contains(" articles a second with a p99 of "),
            "no comparison in\n{said}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (args, expected) in [
        (
            "lab run dillon2000 --on paced",
            "it paces the writers of axboe2016 only",
        ),
        (
            "lab run dillon2000 --workload saturated",
            "saturated is for real files",
        ),
        (
            "lab run dillon2000 --on engine --workload deadlock",
            "on real files there are news and saturated",
        ),
        (
            "lab run dillon2000 --on engine --scale 2",
            "allowed is 0.005 to 1 on real files",
        ),
    ] {
        let refused = millpond(&words(args));
        assert!(!refused.status.success());
        let said = text(&refused.stderr);
        assert!(said.contains(expected), "{said}");
    }
}
