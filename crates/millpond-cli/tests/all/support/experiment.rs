//! Experiments of the laboratory, run as a user runs them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part of it; a test fails by panicking, and says why it was skipped"
)]

use super::{text, words};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn millpond(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(args).current_dir(dir.path()).output().unwrap()
}

/// The result of a run on real files.
pub(crate) struct Ran {
    /// Its standard output.
    pub(crate) said: String,
    pub(crate) metrics: Vec<Value>,
    /// The page of plots.
    pub(crate) page: String,
}

/// Runs `line` in `dir`, where nothing is left of it; `None`, and says why, where that can't be. In a group of 16 MiB the kernel
/// ends a process now and then, when the disk is too busy to give it its pages: then it is run again.
pub(crate) fn run(line: &str, dir: &Path) -> Option<Ran> {
    let (json, report) = (dir.join("metrics.jsonl"), dir.join("report.html"));
    let mut args = words(line);
    args.extend(["--runs", "1", "--dir", dir.to_str().unwrap()]);
    args.extend([
        "--json",
        json.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ]);
    let was_killed = |ran: &Output| text(&ran.stderr).contains("was killed, probably for want of memory");
    let mut runs = (0..5).map(|_| millpond(&args));
    let ran = runs.find(|ran| !was_killed(ran)).expect("it is killed each time");
    if ran.status.code() == Some(3) {
        println!("skipped: {}", text(&ran.stderr).trim().replace('\n', " "));
        return None;
    }
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let [metrics, page] = [&json, &report].map(|path| {
        let read = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        read
    });
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().collect();
    assert!(left.is_empty(), "something is left: {left:?}");
    let metrics = metrics.lines().map(|line| serde_json::from_str(line).unwrap());
    Some(Ran {
        said: text(&ran.stdout),
        metrics: metrics.collect(),
        page,
    })
}

pub(crate) fn value(metrics: &[Value], target: &str, workload: &str, metric: &str) -> Option<f64> {
    let is = |m: &&Value| m["target"] == target && m["workload"] == workload && m["metric"] == metric;
    let found: Vec<_> = metrics.iter().filter(is).collect();
    assert!(found.len() < 2, "{metric} is there twice");
    found.first()?["value"].as_f64()
}

/// All these words are in the text, however its lines are broken.
pub(crate) fn assert_says(said: &str, words: &[&str]) {
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in words {
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
}
