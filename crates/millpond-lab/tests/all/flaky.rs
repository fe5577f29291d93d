//! What `.ci/timed` makes of tests that fail: one that fails beside others and passes alone is named and fails no run, and no
//! other failure is lost. The tests that fail are those of this file, which `.ci/timed` runs with a folder to remember in.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = "MILLPOND_FLAKY_FOLDER";

/// Where `.ci/timed` has run this program: fails if `fails` says so of the number of times that the test has run.
fn run(test: &str, fails: impl Fn(u32) -> bool) {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let is_first = |time: &u32| File::create_new(folder.join(format!("{test}-{time}"))).is_ok();
    let time = (1..).find(is_first).unwrap();
    assert!(!fails(time), "it fails the time number {time}");
}

/// Not a test, as the others below.
#[test]
fn fails_once() {
    run("once", |time| time == 1);
}

#[test]
fn fails_twice() {
    run("twice", |time| [1, 4].contains(&time));
}

#[test]
fn fails_always() {
    run("always", |_| true);
}

mod many {
    #[test]
    fn one() {
        super::run("one", |time| time == 1);
    }

    #[test]
    fn two() {
        super::run("two", |time| time == 1);
    }

    #[test]
    fn three() {
        super::run("three", |time| time == 1);
    }

    #[test]
    fn four() {
        super::run("four", |time| time == 1);
    }
}

mod crash {
    #[test]
    fn finds_something_rare() {
        super::run("rare", |time| time == 1);
    }
}

/// How `.ci/timed` has ended with the tests of this file whose names begin so, which it has called flaky, and how many times it
/// has run tests.
fn timed(tests: &[&str], is_noted: bool) -> (Option<i32>, String, usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (runs, flaky) = (folder.path().join("runs"), folder.path().join("flaky"));
    fs::create_dir(&runs).unwrap();
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/timed"));
    command.arg(std::env::current_exe().unwrap());
    command.args(tests.iter().map(|test| format!("flaky::{test}")));
    command
        .arg("--nocapture")
        .env(FOLDER, &runs)
        .env_remove("MILLPOND_FLAKY");
    if is_noted {
        command.env("MILLPOND_FLAKY", &flaky);
    }
    let ended = command.output().unwrap();
    let noted = fs::read_to_string(&flaky).unwrap_or_default();
    (ended.status.code(), noted, fs::read_dir(runs).unwrap().count())
}

#[test]
fn a_test_that_fails_once_and_passes_alone_is_named_and_no_other_failure_is_lost() {
    let once = String::from("flaky::fails_once of all\n");
    assert_eq!(timed(&["fails_once"], true), (Some(0), once, 6));
    // The night wants to know of each.
    let nothing = String::new;
    assert_eq!(timed(&["fails_once"], false), (Some(101), nothing(), 1));
    assert_eq!(timed(&["fails_twice"], true), (Some(101), nothing(), 4));
    assert_eq!(timed(&["fails_always"], true), (Some(101), nothing(), 2));
    let (code, ..) = timed(&["fails_once", "fails_always"], true);
    assert_eq!(code, Some(101));
    assert_eq!(timed(&["many"], true), (Some(101), nothing(), 4));
    assert_eq!(timed(&["crash"], true), (Some(101), nothing(), 1));
}
