//! `millpond demo` as a user meets it. What a whole one comes to is seen in CI, where it is the first command.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, helpers included"
)]

use crate::support::terminal::{Terminal, plain};
use crate::support::{scratch, text, words};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn millpond(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(words(line));
    command
}

/// Whether the tests have no disk, which the demo refuses; prints so.
fn is_in_memory(dir: &Path) -> bool {
    let is_in_memory = millpond_lab::machine::is_in_memory(dir);
    if is_in_memory {
        println!("\nskipped: files of tests are in memory here");
    }
    is_in_memory
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn impossible_options_are_refused_before_anything_is_written() {
    let folder = scratch();
    let at = folder.path().display();
    for (line, parts) in [
        (
            format!("demo --seconds 5 --dir {at}"),
            ["--seconds 5", "6 to 600"],
        ),
        (format!("demo --dir {at}/no"), ["--dir", "No such file"]),
        (
            format!("demo --dir {at} --report {at}/no/x.html"),
            ["--report", "directory that exists"],
        ),
        (
            "demo --dir /dev/shm".into(),
            ["--dir /dev/shm", "directory on a disk"],
        ),
    ] {
        let output = millpond(&line).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{line}: {told}");
        assert!(output.stdout.is_empty() && is_empty(folder.path()), "{line}");
    }
}

#[test]
fn an_interrupted_one_leaves_nothing() {
    let folder = scratch();
    if is_in_memory(folder.path()) {
        return;
    }
    let line = format!("demo --seconds 60 --dir {}", folder.path().display());
    let mut process = millpond(&line)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    // it is in the middle of its first run
    lines
        .find(|line| line.as_ref().unwrap().contains("round 1"))
        .unwrap()
        .unwrap();
    assert!(!is_empty(folder.path()));
    let pid = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let told: Vec<_> = lines.map(Result::unwrap).collect();
    assert_eq!(process.wait().unwrap().code(), Some(130), "{told:?}");
    assert!(
        told.last().unwrap().contains("the files it made are removed"),
        "{told:?}"
    );
    assert!(is_empty(folder.path()));
}

/// A whole one beside two threads that compute: it says so before the first round, and ends with what no other program can
/// change.
#[test]
fn on_a_busy_machine_it_says_so_before_and_ends_in_virtual_time() {
    let folder = scratch();
    if is_in_memory(folder.path()) {
        return;
    }
    let line = format!("demo --seconds 6 --dir {}", folder.path().display());
    let ended = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let output = millpond(&line).output();
        ended.store(true, Ordering::Relaxed);
        output.unwrap()
    });
    let (told, shown) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{told}");
    let at = |part: &str| told.find(part).unwrap_or_else(|| panic!("no {part:?} in {told}"));
    assert!(at("this machine is busy: others use ") < at("round 1"), "{told}");
    let joined = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // the simulator's figures, on whatever machine this runs
    let expected =
        "on a modelled SATA SSD and not this disk, the same on every machine, however busy: slowest read";
    assert!(joined.contains(expected), "{shown}");
    assert!(is_empty(folder.path()));
}

#[test]
fn on_a_terminal_a_key_ends_it_and_gives_the_terminal_back() {
    let folder = scratch();
    if is_in_memory(folder.path()) {
        return;
    }
    let line = format!("demo --seconds 60 --dir {}", folder.path().display());
    let Some(mut terminal) = Terminal::start(folder.path(), &line, (80, 24)) else {
        return;
    };
    terminal.wait_for("MILLPOND");
    terminal.press("q");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(130), "{}", plain(&seen));
    let left = seen.rfind("\u{1b}[?1049l").unwrap();
    assert!(
        seen[left..].contains("the files it made are removed"),
        "{}",
        &seen[left..]
    );
    assert!(is_empty(folder.path()));
}
