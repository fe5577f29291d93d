//! `top` on a live cache, as a user at a terminal or a script meets it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, helpers included; what is skipped is said on standard output"
)]

use crate::support::caches::{self, CacheProcess};
use crate::support::terminal::{Terminal, of_folder};
use crate::support::{scratch, text, words};
use millpond::units::Nanos;
use millpond::{OpenOptions, Options, PageCache};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Not a test: what the other tests start in a process of its own.
#[test]
fn a_process_that_is_watched() {
    let Some(count) = caches::wanted() else { return };
    let folder = scratch();
    let mut held = Vec::new();
    // What is dirty is dirty still when the slowest test looks.
    let mut options = Options::default();
    options.flusher.expire = Nanos::from_secs(3600);
    for n in 0..count {
        let cache = PageCache::builder()
            .memory(16 << 20)
            .options(options.clone())
            .control(true)
            .build()
            .unwrap();
        let open = |name: &str| {
            // A terminal is drawn where it has changed, so names that are waited for one after the other are alike nowhere.
            let name = match n % 2 {
                0 => format!("{name}-{n}"),
                _ => format!("{n}-{name}"),
            };
            let path = folder.path().join(name);
            cache.open(path, OpenOptions::new().create(true)).unwrap()
        };
        let (clean, dirty) = (open("clean"), open("dirty"));
        clean.write_at(&vec![1; 4 << 20], 0).unwrap();
        clean.sync_data().unwrap();
        dirty.write_at(&vec![1; 256 << 10], 0).unwrap();
        held.push((cache, clean, dirty));
    }
    caches::serve([]);
}

/// Not a test either: a file that loops beyond memory, and a small one that is in use.
#[test]
fn a_process_whose_memory_is_too_small_for_one_file() {
    if caches::wanted().is_none() {
        return;
    }
    let folder = scratch();
    let cache = PageCache::builder()
        .memory(16 << 20)
        .control(true)
        .build()
        .unwrap();
    let open = |name: &str, bytes: usize| {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![1; bytes]).unwrap();
        cache.open(path, OpenOptions::new()).unwrap()
    };
    let (looped, hot) = (open("looped", 24 << 20), open("hot", 1 << 20));
    const LAP: u64 = 24 << 8;
    let (done, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looping = scope.spawn(|| {
            for n in 0.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                drop(looped.page(n % LAP).unwrap());
                drop(hot.page(n * 7 % 256).unwrap());
                done.store(n + 1, Ordering::Relaxed);
            }
        });
        // What comes back is known by then, however long the laps take.
        while done.load(Ordering::Relaxed) < 3 * LAP {
            assert!(!looping.is_finished(), "it has broken");
            std::thread::yield_now();
        }
        caches::serve([]);
        ends.store(true, Ordering::Relaxed);
    });
}

/// A user's question: is memory too small, and for whom?
#[test]
fn the_screen_and_stat_say_for_which_file_memory_is_too_small() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let caches = CacheProcess::start(
        "watch::a_process_whose_memory_is_too_small_for_one_file",
        folder,
        1,
    );
    let screen = says(folder, "top 1 --count 3 --json");
    let last: Value = serde_json::from_str(screen.lines().last().unwrap()).unwrap();
    let file = |name: &str| {
        let files = last["files"].as_array().unwrap();
        let is_it = |file: &&Value| file["path"].as_str().unwrap().ends_with(name);
        files.iter().find(is_it).unwrap().clone()
    };
    let (looped, hot) = (file("looped"), file("hot"));
    println!(
        "{}\n{}",
        says(folder, "top --once"),
        says(folder, "stat --files 1 1")
    );
    assert!(
        last["fit"]["file"].as_str().unwrap().ends_with("looped"),
        "{last}"
    );
    assert!(hot["hit_ratio"].as_f64().unwrap() > 0.97, "{hot}");
    assert!(looped["hit_ratio"].as_f64().unwrap() < 0.9, "{looped}");
    // 24 MiB and 1 MiB, of which about 15.5 MiB are in memory.
    let more = looped["more_bytes"].as_u64().unwrap() >> 20;
    assert!((1..=12).contains(&more), "{looped}");
    let table = says(folder, "stat --files 1 1");
    let verdict = table.lines().next().unwrap();
    assert!(
        verdict.contains("memory is too small for") && verdict.contains("looped"),
        "{table}"
    );
    let line = says(folder, "stat 1 1");
    assert!(line.contains(" hits "), "{line}");
    caches.end();
}

fn start(folder: &Path, count: u32) -> CacheProcess {
    CacheProcess::start("watch::a_process_that_is_watched", folder, count)
}

fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    of_folder(command.args(words(line)), folder).output().unwrap()
}

fn says(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The alternate screen was left, and the cursor is seen.
fn assert_restored(seen: &str) {
    let entered = seen.rfind("\u{1b}[?1049h").unwrap();
    let left = seen.rfind("\u{1b}[?1049l").unwrap_or_else(|| panic!("{seen:?}"));
    assert!(left > entered);
    let hidden = seen.rfind("\u{1b}[?25l").unwrap();
    assert!(
        seen.rfind("\u{1b}[?25h").is_some_and(|at| at > hidden),
        "{seen:?}"
    );
}

#[test]
fn on_a_terminal_it_draws_its_screen_until_q_and_gives_the_terminal_back() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    if let Some(mut terminal) = Terminal::start(folder, "top 100ms", (80, 24)) {
        terminal.wait_for("clean-0");
        terminal.wait_for("q quit");
        terminal.press("s");
        terminal.wait_for("dirty)");
        terminal.press("q");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{seen}");
        assert_restored(&seen);
    }
    caches.end();
}

#[test]
fn control_c_and_signals_give_the_terminal_back_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    if let Some(mut terminal) = Terminal::start(folder, "top 100ms", (100, 30)) {
        terminal.wait_for("q quit");
        terminal.press("\u{3}");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{seen}");
        assert_restored(&seen);
    }
    if let Some(mut terminal) = Terminal::start(folder, "top 100ms", (60, 20)) {
        terminal.wait_for("60 x 20 is too small");
        // It is the only one below `setsid`, which waits for it, or has become it.
        let above = Pid::from_child(&terminal.process);
        let below = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", above.as_raw_pid()));
        let below = below
            .ok()
            .and_then(|pids| pids.split(' ').next()?.parse().ok().and_then(Pid::from_raw));
        rustix::process::kill_process(below.unwrap_or(above), Signal::TERM).unwrap();
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(143), "{seen}");
        assert_restored(&seen);
    }
    caches.end();
}

#[test]
fn of_several_caches_one_is_chosen_from_their_list() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 2));
    if let Some(mut terminal) = Terminal::start(folder, "top 100ms", (120, 30)) {
        terminal.wait_for("Several caches are running. Which one?");
        terminal.press("2");
        terminal.wait_for("1-clean");
        terminal.press("n");
        terminal.wait_for("clean-0");
        terminal.press("q");
        assert_eq!(terminal.end().0, Some(0));
    }
    let said = run(folder, "top --once");
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("several caches are running"));
    caches.end();
}

#[test]
fn when_the_cache_ends_the_terminal_is_restored_and_a_message_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    match Terminal::start(folder, "top 100ms", (80, 24)) {
        None => caches.end(),
        Some(mut terminal) => {
            // The keys stand there before it has been answered once.
            terminal.wait_for("clean-0");
            caches.end();
            let (code, seen) = terminal.end();
            assert_eq!(code, Some(1), "{seen}");
            assert_restored(&seen);
            assert!(seen.contains("the cache has ended"), "{seen}");
        }
    }
}

#[test]
fn without_a_terminal_it_writes_lines_and_for_scripts_screens_or_json() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    let screen = says(folder, "top 20ms --once");
    for part in [
        "millpond top  ",
        "DEVICE ",
        "WAITS ",
        "FILE (",
        "by in memory)",
        "clean-0",
    ] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    assert!(
        !screen.contains('\u{1b}') && screen.lines().count() <= 24,
        "{screen}"
    );
    let json = says(folder, "top 20ms --count 3 --json --sort dirty");
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0]["files"][0]["path"]
            .as_str()
            .unwrap()
            .ends_with("dirty-0"),
        "{json}"
    );
    assert_eq!(lines[2]["memory"]["dirty"], 256 << 10);

    // A pipe, and a terminal that can't be drawn on.
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    let mut lines = of_folder(command.args(["top", "20ms"]), folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = BufReader::new(lines.stdout.take().unwrap()).lines();
    assert!(
        seen.next()
            .unwrap()
            .unwrap()
            .starts_with("---------- MiB of pages now")
    );
    assert!(seen.by_ref().take(3).all(|line| line.is_ok()));
    caches.end();
    drop(seen);
    let output = lines.wait_with_output().unwrap();
    assert!(
        text(&output.stderr).contains("printing lines as `millpond stat` does"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    // `env` sets it for the program alone.
    let top = format!("TERM=dumb {} top 20ms", env!("CARGO_BIN_EXE_millpond"));
    let mut script = Command::new("script");
    let script = of_folder(script.args(["-qec", &top, "/dev/null"]), folder);
    let started = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let Ok(mut started) = started else {
        println!("\nskipped: no script(1)");
        return caches.end();
    };
    let mut seen = BufReader::new(started.stdout.take().unwrap())
        .lines()
        .map(|line| line.unwrap());
    assert!(seen.any(|line| line.contains("MiB of pages now")));
    caches.end();
    assert!(seen.all(|line| !line.contains("\u{1b}[?1049h")));
    started.wait().unwrap();
}
