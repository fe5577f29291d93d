//! The kernel on a modelled disk: a scrap of the experiment on a small disk, and what is left of it afterwards, which
//! is nothing, however the run ends.
//!
//! Needs root, FUSE, loop devices, `losetup`, `mkfs.xfs` or `mkfs.ext4` and a memory group: a test that has not all of
//! it says "skipped" and why. There is one such run on a machine at a time, so the tests take turns.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{scratch, testbed_turn as turn, text, words};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const RUN_DIR: &str = "/run/millpond-lab";
/// The dirty limit of a testbed with 73 MiB: no other test sets that.
const DIRTY_BYTES: &str = "14257812";
/// No healthy machine takes as long for it.
const LONG: Duration = Duration::from_secs(120);

/// How often the scrap is written.
fn scrap(dir: &Path, runs: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    let job = "lab run axboe2016 --on kernel --device hdd --memory 73M --files 4 --file-size 1M --read-file-size 4M \
               --scale 1 --workload writers-and-reader";
    command.args(words(&job.split_whitespace().collect::<Vec<_>>().join(" ")));
    command.arg("--runs").arg(runs.to_string());
    command.arg("--dir").arg(dir);
    command.arg("--report").arg(dir.join("report.html"));
    command.arg("--json").arg(dir.join("metrics.jsonl"));
    command
}

/// Runs it once; `None`, and says why, where it cannot be.
fn run(dir: &Path) -> Option<Output> {
    let output = scrap(dir, 1).output().unwrap();
    if output.status.code() == Some(3) {
        println!("skipped: {}", text(&output.stderr).trim().replace('\n', " "));
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(output)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "not so after {LONG:?}: {what}");
        std::thread::yield_now();
    }
}

fn is_mounted() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(&format!(" {RUN_DIR}/files "))
}

/// Processes that the undo log names: the disk's.
fn disks() -> Vec<i32> {
    let undo_log = fs::read_to_string(format!("{RUN_DIR}/undo_log")).unwrap_or_default();
    let lines = undo_log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let pids = lines.filter_map(|step| step["disk"]["pid"].as_i64());
    pids.filter_map(|pid| i32::try_from(pid).ok()).collect()
}

/// The remains, if any.
fn left() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    if let Some(mount) = mounts.lines().find(|line| line.contains(RUN_DIR)) {
        return Some(format!("mounted: {mount}"));
    }
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(RUN_DIR) {
            return Some(format!("attached: {backing}"));
        }
    }
    let folder = fs::read_dir(RUN_DIR).into_iter().flatten().flatten();
    let names: Vec<_> = folder
        .map(|entry| entry.file_name())
        .filter(|name| name != "lock")
        .collect();
    if !names.is_empty() {
        return Some(format!("in {RUN_DIR}: {names:?}"));
    }
    let dirty = fs::read_to_string("/proc/sys/vm/dirty_bytes").unwrap();
    (dirty.trim() == DIRTY_BYTES).then(|| "vm.dirty_bytes".to_owned())
}

/// A run that would go on for long, and has its file system mounted.
fn start(dir: &Path) -> Child {
    let mut child = scrap(dir, 100)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the run has its files", || {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended");
        is_mounted() && fs::read_to_string("/proc/sys/vm/dirty_bytes").unwrap().trim() == DIRTY_BYTES
    });
    child
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn scrap_of_the_experiment_has_its_row_and_leaves_nothing() {
    let _turn = turn();
    let dir = scratch();
    let Some(output) = run(dir.path()) else { return };
    let shown = text(&output.stdout);
    assert!(shown.contains("kernel mq-deadline"), "{shown}");
    let metrics = fs::read_to_string(dir.path().join("metrics.jsonl")).unwrap();
    let metrics: Vec<Value> = metrics
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let value = |name: &str| {
        metrics.iter().find(|m| m["metric"] == name).unwrap()["value"]
            .as_f64()
            .unwrap()
    };
    assert!(metrics.iter().all(|m| m["device"] == "hdd"));
    assert!(value("reader_reads") > 0.0);
    // 4 MiB take 35 ms at the disk's rate of 120 MB/s, however fast the machine is
    assert!(value("writers_seconds") > 0.03, "{}", value("writers_seconds"));
    assert!(value("device_seeks") > 0.0 && value("device_queue_depth_mean") > 0.0);
    assert_eq!(left(), None);
}

#[test]
fn interrupted_run_leaves_nothing() {
    let _turn = turn();
    let dir = scratch();
    if run(dir.path()).is_none() {
        return;
    }
    for how in [Signal::INT, Signal::TERM] {
        let mut child = start(dir.path());
        signal(child.id() as i32, how);
        assert_eq!(child.wait().unwrap().code(), Some(128 + how.as_raw()));
        assert_eq!(left(), None, "after {how:?}");
    }
}

#[test]
fn killed_run_is_undone_by_its_disk() {
    let _turn = turn();
    let dir = scratch();
    if run(dir.path()).is_none() {
        return;
    }
    let mut child = start(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the disk's process has undone the testbed", || left().is_none());
}

#[test]
fn remains_of_a_killed_disk_are_undone_by_the_next_run() {
    let _turn = turn();
    let dir = scratch();
    if run(dir.path()).is_none() {
        return;
    }
    let mut child = start(dir.path());
    let disks = disks();
    assert_eq!(disks.len(), 1);
    // the disk first, or it would undo the testbed
    signal(disks[0], Signal::KILL);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(left(), None);
    run(dir.path()).unwrap();
    assert_eq!(left(), None);
}
