//! `record` and `replay` as a user meets them: a live cache recorded, the trace replayed.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use crate::support::{scratch, text};
use millpond::trace::Trace;
use millpond::{File, OpenOptions, PageCache};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

struct CacheProcess {
    folder: TempDir,
    _cache: PageCache,
    file: File,
}

impl CacheProcess {
    fn new() -> CacheProcess {
        let folder = scratch();
        let builder = PageCache::builder().memory(2 << 20).calibrate(false);
        let cache = builder.control_at(folder.path().join("sock")).build().unwrap();
        let file = cache.open(folder.path().join("data"), OpenOptions::new().create(true));
        let file = file.unwrap();
        file.write_at(&vec![1; 800 * 4096], 0).unwrap();
        file.sync_data().unwrap();
        CacheProcess {
            folder,
            _cache: cache,
            file,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn record(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("record").arg("--cache").arg(self.path("sock"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Reads pages until `done`, to which it says how many it has read, and says what that gives.
    fn while_it_reads<T>(&self, done: impl FnOnce(&AtomicU64) -> T) -> T {
        let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = vec![0; 4096];
                for n in 0_u64.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    self.file.read_at(&mut buffer, n * n % 797 * 4096).unwrap();
                    reads.store(n + 1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
            let result = done(&reads);
            over.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Records until this many pages have been read meanwhile, and ends it as Ctrl-C does.
    fn record_reads(&self, arguments: &[&str], trace: &str, least: u64) -> Output {
        self.while_it_reads(|reads| {
            let mut command = self.record(arguments);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let child = child.unwrap();
            // It has its handler before the cache begins.
            while std::fs::metadata(self.path(trace)).map_or(0, |there| there.len()) == 0 {
                std::thread::yield_now();
            }
            let before = reads.load(Ordering::Relaxed);
            while reads.load(Ordering::Relaxed) < before + least {
                std::thread::yield_now();
            }
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            child.wait_with_output().unwrap()
        })
    }
}

fn millpond(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

#[test]
fn a_live_cache_is_recorded_for_a_while_and_replayed() {
    let caches = CacheProcess::new();
    // Not for a time, in which a slow machine may read too little.
    let output = caches.record_reads(&["a trace", "--json"], "a trace", 1000);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = caches.path("a trace");
    let trace = Trace::read(&path).unwrap();
    assert_eq!(trace.torn, None);
    assert_eq!(said["accesses"].as_u64().unwrap(), trace.accesses.len() as u64);
    assert!(trace.accesses.len() > 100, "{said}");

    let (path, page, json) = (
        path.to_str().unwrap(),
        caches.path("r.html"),
        caches.path("r.jsonl"),
    );
    let memory = "1M,2M,8M";
    let (page_name, json_name) = (page.to_str().unwrap(), json.to_str().unwrap());
    let output = millpond(&[
        "replay",
        path,
        "--memory",
        memory,
        "--policy",
        "millpond,opt",
        "--report",
        page_name,
        "--json",
        json_name,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in [
        "1 MiB",
        "is enough",
        "The recorded cache, of 2 MiB, missed",
        "* millpond   o opt",
    ] {
        assert!(shown.contains(words), "{words} is not in\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("Pages read against memory")
    );
    let lines = std::fs::read_to_string(json).unwrap();
    let misses: Vec<f64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["metric"] == "misses_pages")
        .map(|line| line["value"].as_f64().unwrap())
        .collect();
    assert_eq!(misses.len(), 6);
    assert!(misses[0] >= misses[4], "more memory, no more misses: {misses:?}");
}

#[test]
fn ctrl_c_ends_a_recording_well() {
    let caches = CacheProcess::new();
    let output = caches.record_reads(&["trace"], "trace", 0);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains(" calls in "),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(Trace::read(&caches.path("trace")).unwrap().torn, None);
}

#[test]
fn a_left_recording_is_ended_and_impossible_ones_say_why() {
    let caches = CacheProcess::new();
    std::fs::write(caches.path("there"), "mine").unwrap();
    let there = caches.record(&["there"]).output().unwrap();
    assert_eq!(there.status.code(), Some(1), "{}", text(&there.stderr));
    assert!(
        text(&there.stderr).contains("File exists"),
        "{}",
        text(&there.stderr)
    );
    let nothing = caches.record(&["--stop"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        text(&nothing.stderr).contains("no recording was made"),
        "{}",
        text(&nothing.stderr)
    );
    let mut child = caches.record(&["left"]).spawn().unwrap();
    while std::fs::metadata(caches.path("left")).map_or(0, |there| there.len()) == 0 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let stopped = caches.record(&["--stop"]).output().unwrap();
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(
        text(&stopped.stdout).contains("left"),
        "{}",
        text(&stopped.stdout)
    );
    assert_eq!(Trace::read(&caches.path("left")).unwrap().torn, None);
    let neither = caches.record(&[]).output().unwrap();
    assert_eq!(neither.status.code(), Some(2));
}

#[test]
fn a_block_trace_of_others_is_counted_by_the_policies_that_are_named() {
    let folder = scratch();
    let path = folder.path().join("usr_0.csv");
    let line = |n: u64| format!("1,usr,0,Read,{},8192,1\n", n % 300 * 8192);
    std::fs::write(&path, (0..900).map(line).collect::<String>()).unwrap();
    let output = millpond(&[
        "replay",
        path.to_str().unwrap(),
        "--policy",
        "opt,lru,lirs,millpond-rule",
        "--memory",
        "300pages",
        "--json",
        "-",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let misses: Vec<f64> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|metric| metric["metric"] == "misses_pages")
        .map(|metric| metric["value"].as_f64().unwrap())
        .collect();
    // A loop over 600 pages, twice as long as memory: LRU misses all of its 1800 uses.
    assert_eq!(misses.len(), 4);
    assert_eq!(misses[1], 1800.0);
    assert!(misses[0] < misses[2] && misses[2] < 1300.0, "{misses:?}");
}

#[test]
fn a_replay_of_nonsense_says_what_is_wrong() {
    let folder = scratch();
    let path = folder.path().join("x");
    std::fs::write(&path, "hello").unwrap();
    let path = path.to_str().unwrap();
    for (arguments, words) in [
        (
            vec!["replay", path],
            "neither its name nor its content say which of these it is",
        ),
        (
            vec!["replay", path, "--policy", "mru"],
            "allowed: millpond, linux-6",
        ),
        (
            vec!["replay", path, "--device", "tape"],
            "unknown model of a disk",
        ),
        (vec!["replay", path, "--memory", "lots"], "--memory"),
        (
            vec!["replay", path, "--format", "msr"],
            "line 1: 1 fields, a record has 7",
        ),
        (vec!["replay", path, "--page-size", "5K"], "must be 4K, 8K"),
    ] {
        let output = millpond(&arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
}

#[test]
fn stopping_what_does_not_go_on_and_a_trace_that_can_not_be_say_what_to_do() {
    let caches = CacheProcess::new();
    let fails = |arguments: &[&str], code, words: &str| {
        let output = caches.record(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {words} is not in {said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    };
    fails(
        &["--stop"],
        1,
        "nothing is being recorded, and no recording was made",
    );
    fails(&["t", "--max-size", "1"], 2, "a trace needs at least 64K");
    assert!(
        caches
            .record(&["t", "--for", "10ms"])
            .output()
            .unwrap()
            .status
            .success()
    );
    fails(&["--stop"], 1, "ended when it was stopped");
    fails(
        &["t", "--for", "10ms"],
        1,
        "give another name, or remove this one",
    );
    fails(&["none/t", "--for", "10ms"], 1, "sees no such directory");
}
