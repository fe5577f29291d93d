//! The tests of the tests: every deliberate mistake of `millpond_core::mutation` must be noticed.
//!
//! ```text
//!   cargo test --workspace --features millpond-lab/mutations --test mutations -- --nocapture
//!        │
//!        ├─ builds the suites once, with all the mistakes in them
//!        ├─ no mistake switched on: each test that is named here must pass
//!        └─ MILLPOND_MUTATION=…: each test that is named for the mistake must fail, or hang
//! ```
//!
//! Every run is a process of its own, which is stopped if it hangs. It prints a table.
//! `MILLPOND_MUTATION=name` tries only that mistake; `MILLPOND_MUTATIONS=all`
//! runs all tests of the suites with each, not only those that are named, and prints every one that notices.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it has seen"
)]

use millpond_core::mutation::Mutation;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A test that has not ended by then hangs: each takes a few seconds.
const HANGS: Duration = Duration::from_secs(30);
/// How often a test may miss a mistake, or fail with none, before that counts.
const TRIES: usize = 5;
/// With no mistake nothing hangs; it may only be a slow day.
const SLOW_DAY: Duration = Duration::from_secs(900);

/// A suite and one of its tests.
type Test = (&'static str, &'static str);

const SWARM: Test = (
    "millpond-sim/all",
    "swarm::no_world_of_the_swarm_loses_a_write_or_stops",
);
const DEVICES: Test = (
    "millpond-sim/all",
    "devices::readers_of_two_disks_of_different_kinds_have_each_the_goal_of_its_disk",
);
const LATCHED: Test = (
    "millpond/all",
    "faults::syncs::a_device_that_cannot_promise_durability_is_not_believed_again_until_the_file_is_opened_anew",
);
const UNWRITTEN: Test = (
    "millpond/all",
    "faults::writes::pages_that_cannot_be_written_stay_readable_and_every_sync_says_so_until_they_are",
);
const KILLED: Test = ("millpond/all", "kill::synced_data_survives_a_kill_of_the_process");
const CRASHED: Test = (
    "millpond/all",
    "crash::synced_data_survives_a_crash_at_any_moment",
);
const WRITTEN: Test = (
    "millpond/all",
    "basic::written_data_is_read_back_and_is_in_the_file_after_a_sync",
);
const LAST_FRAMES: Test = (
    "millpond/all",
    "contention::threads_take_turns_with_the_last_frames",
);
const CUT_BESIDE: Test = (
    "millpond/all",
    "truncation::a_change_by_a_guard_beside_a_cut_leaves_nothing_past_it",
);
const REFUSED: Test = (
    "millpond/all",
    "refusals::readers_find_what_was_or_what_will_be_and_nothing_of_what_is_refused_by_threads",
);

/// The tests that must notice. Only those that notice each time: more tests do by chance.
fn named_for(mutation: Mutation) -> &'static [Test] {
    use Mutation as M;
    match mutation {
        M::DropDirtyPage => &[SWARM, UNWRITTEN],
        M::SyncBeforeWrites => &[SWARM, UNWRITTEN, KILLED],
        M::SyncForgetsTransit => &[SWARM],
        M::SyncWithoutDevice => &[LATCHED, CRASHED],
        M::SyncHidesError => &[SWARM, UNWRITTEN],
        M::SyncErrorForgotten => &[LATCHED],
        M::SkipTail => &[WRITTEN, CUT_BESIDE, KILLED],
        M::ShortWriteIsWhole => &[
            (
                "millpond/all",
                "conformance::threads_keep_what_every_device_promises",
            ),
            WRITTEN,
        ],
        M::ForgetRedirtied => &[SWARM],
        M::EvictDirty => &[
            (
                "millpond/shuttle",
                "writes::every_dirty_edge_is_reported_once_and_no_change_is_lost",
            ),
            LAST_FRAMES,
        ],
        M::EvictPinned => &[
            (
                "millpond/shuttle",
                "evict::pinned_page_is_not_evicted_and_its_frame_not_given_away",
            ),
            (
                "millpond/millpond",
                "sys::arena::tests::owned_pins_keep_the_table_and_may_be_dropped_elsewhere",
            ),
        ],
        M::FrameTwice => &[SWARM, LAST_FRAMES],
        M::ReserveForAll => &[SWARM],
        M::ShrinkForgotten => &[SWARM],
        M::TransitLeaks => &[SWARM],
        M::OneControllerForAll => &[DEVICES],
        M::DeviceLimitIsTheForms => &[(
            "millpond-core/millpond_core",
            "manager::tests::devices::clusters_are_as_large_as_the_device_says_and_as_many_in_transit",
        )],
        M::ThrottleForever => &[SWARM],
        M::LoseWakeup => &[("millpond/shuttle", "waits::end_of_a_load_wakes_who_waits_for_it")],
        M::SyncNotEndedByCut => &[(
            "millpond-core/millpond_core",
            "manager::tests::write::a_sync_ends_when_the_last_pages_that_it_waits_for_are_cut_off",
        )],
        M::PassNotResumed => &[(
            "millpond-core/millpond_core",
            "manager::tests::write::a_page_in_other_hands_holds_up_a_sync_until_a_tick",
        )],
        M::OldBytesBehindCut => &[
            (
                "millpond/all",
                "basic::truncation_drops_pages_and_growth_reads_zeros",
            ),
            CUT_BESIDE,
        ],
        M::CutBeforeWrites => &[(
            "millpond/all",
            "truncation::a_write_on_its_way_does_not_make_a_file_longer_again_that_was_cut_meanwhile",
        )],
        M::ForgottenBeforeDevice => &[
            REFUSED,
            ("millpond/all", "holes::a_punch_that_is_refused_changes_nothing"),
        ],
        M::HoleIsWritten => &[REFUSED],
        M::PoisonWakesNobody => &[(
            "millpond/all",
            "contention::waiters_for_a_page_get_an_error_when_its_reader_panics",
        )],
        M::OldTwinIsKept => &[("millpond/all", "region::words::a_write_after_a_read_is_kept")],
        M::BimodalShareIsFixed => &[(
            "millpond-core/millpond_core",
            "lru::tests::bimodal::the_share_falls_where_nothing_is_used_again_and_recovers",
        )],
        M::TargetOnlyRises => &[(
            "millpond-core/millpond_core",
            "lru::tests::millpond::the_target_stays_within_memory",
        )],
        M::MappedCopyIsKept => &[(
            "millpond/millpond",
            "sys::mapped_tests::changes_by_a_call_are_touched_at_once",
        )],
        M::OpenedPageIsUnknown => &[(
            "millpond/millpond",
            "sys::mapped_tests::written::stores_are_read_by_calls_at_once_and_on_the_device_after_a_sync",
        )],
        M::OpenedWhilePinned => &[(
            "millpond/shuttle",
            "mapped::a_page_that_is_written_in_a_mapping_is_read_and_written_when_it_is_shut_and_stays_until_then",
        )],
        M::MappedTailIsKept => &[(
            "millpond/millpond",
            "sys::mapped_tests::written::stores_past_the_end_of_a_file_are_never_the_file_s",
        )],
        M::TailIsOpened => &[(
            "millpond/all",
            "mapping::a_store_behind_the_end_of_a_file_that_is_becoming_longer_waits_until_it_is",
        )],
    }
}

/// The commands of `MILLPOND_MUTATIONS=all`.
const SUITES: [&str; 5] = [
    "millpond-core/millpond_core",
    "millpond/millpond",
    "millpond/shuttle",
    "millpond/all",
    "millpond-sim/all",
];

/// A program full of tests, and the folder in which cargo would run it.
struct Suite {
    program: PathBuf,
    folder: PathBuf,
}

/// Builds the suites, with all mistakes in them: all tests of the workspace with this feature, which are there already where
/// they were run so (as `.ci/run` does). By package and target.
fn build() -> BTreeMap<String, Suite> {
    let mut suites = BTreeMap::new();
    let built = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["test", "--workspace", "--features", "millpond-lab/mutations"])
        .args(["--no-run", "--quiet", "--message-format=json"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the tests can't be built");
    for line in String::from_utf8(built.stdout).unwrap().lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |at: &str| message.pointer(at)?.as_str().map(str::to_owned);
        let is_test = message.pointer("/profile/test") == Some(&serde_json::Value::Bool(true));
        let Some(program) = text("/executable").filter(|_| is_test) else {
            continue;
        };
        let manifest = PathBuf::from(text("/manifest_path").unwrap());
        let folder = manifest.parent().unwrap();
        let package = folder.file_name().unwrap().to_string_lossy();
        let suite = Suite {
            program: program.into(),
            folder: folder.into(),
        };
        suites.insert(format!("{package}/{}", text("/target/name").unwrap()), suite);
    }
    suites
}

/// How a process full of tests ended.
#[derive(Debug)]
enum End {
    Passed,
    /// The one test passed because this machine can't do what it needs, which its words say.
    Skipped,
    /// The failed tests.
    Failed(BTreeSet<String>),
    /// It was stopped. Which tests had failed by then.
    Hung(BTreeSet<String>),
}

/// Runs a suite, or one test of it, with a mistake or none. And what it said first when it failed.
fn run(suite: &Suite, test: Option<&str>, mutation: Option<Mutation>, at_most: Duration) -> (End, String) {
    let mut command = Command::new(&suite.program);
    command.args(test.into_iter().flat_map(|test| ["--exact", test]));
    command.arg("--nocapture").current_dir(&suite.folder);
    command.env("RUST_BACKTRACE", "0").env_remove("MILLPOND_MUTATION");
    command.envs(mutation.map(|mutation| ("MILLPOND_MUTATION", mutation.name())));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let (pid, (ended, end)) = (Pid::from_child(&child), channel());
    let waiting = std::thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = ended.send(());
        output.unwrap()
    });
    let hangs = end.recv_timeout(at_most).is_err();
    if hangs {
        // It was not waited for, so its number is still its own; or it has ended in this moment.
        let _ = kill_process(pid, Signal::KILL);
    }
    let output = waiting.join().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout);
    let failed = failed(&lines);
    let end = match output.status.success() {
        _ if hangs => End::Hung(failed),
        true => {
            assert!(
                test.is_none() || lines.contains(" 1 passed"),
                "there is no test {test:?}"
            );
            match test {
                Some(_) if lines.contains("skipped: ") => End::Skipped,
                _ => End::Passed,
            }
        }
        false => End::Failed(failed),
    };
    (end, said(&output))
}

/// Runs a test until it ends as it should, at most [`TRIES`] times. Tests of threads meet a race by chance, so one run that
/// misses a mistake, or one that fails on a busy machine, decides nothing.
fn run_again(again: impl Fn(&End) -> bool, run: impl Fn() -> (End, String)) -> (End, String) {
    let mut ended = run();
    for _ in 1..TRIES {
        if !again(&ended.0) {
            break;
        }
        println!("again, for the test has {:?}: {}", ended.0, ended.1);
        ended = run();
    }
    ended
}

/// The tests that failed, as the harness lists them or says on the way.
fn failed(lines: &str) -> BTreeSet<String> {
    let listed = lines.lines().filter_map(|line| line.strip_prefix("    "));
    let listed = listed.filter(|name| !name.contains(' ') && lines.contains(&format!("test {name} ")));
    listed.map(str::to_owned).collect()
}

/// The first line of the first panic's message.
fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut lines = errors.lines().skip_while(|line| !line.contains("panicked at"));
    let message = lines.nth(1).unwrap_or_default().trim();
    let message: String = message.chars().map(|c| if c == '|' { '/' } else { c }).collect();
    match message.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message,
    }
}

fn seconds(since: Instant) -> String {
    format!("{:.1}", since.elapsed().as_secs_f64())
}

/// What `job` makes of each item, in their order; as many at a time as there are processors, for most tests wait more than they
/// compute.
fn side_by_side<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((n, item)) = items.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
                {
                    let one = job(item);
                    made.lock().unwrap().push((n, one));
                }
            });
        }
    });
    let mut made = made.into_inner().unwrap();
    made.sort_by_key(|&(n, _)| n);
    made.into_iter().map(|(_, one)| one).collect()
}

/// The result of a mistake's tests.
#[derive(Default)]
struct Tried {
    rows: Vec<String>,
    unnoticed: Vec<String>,
}

/// A row for each test: it is to notice.
fn try_named(suites: &BTreeMap<String, Suite>, mutation: Mutation) -> Tried {
    let mut tried = Tried::default();
    for (n, &(suite, test)) in named_for(mutation).iter().enumerate() {
        let began = Instant::now();
        let again = |end: &End| matches!(end, End::Passed);
        let (end, said) = run_again(again, || run(&suites[suite], Some(test), Some(mutation), HANGS));
        let how = match end {
            End::Passed => {
                let unnoticed = format!("{} by {suite}::{test}", mutation.name());
                tried.unnoticed.push(unnoticed);
                "not noticed".to_owned()
            }
            End::Skipped => "skipped here".to_owned(),
            End::Failed(_) => said,
            End::Hung(_) => format!("hangs: stopped after {} s", HANGS.as_secs()),
        };
        let (name, what) = if n == 0 {
            (mutation.name(), mutation.what())
        } else {
            ("", "")
        };
        tried.rows.push(format!(
            "| {name} | {what} | `{suite}::{test}` | {} s | {how} |",
            seconds(began)
        ));
    }
    tried
}

/// A row for each suite that notices.
fn try_all(suites: &BTreeMap<String, Suite>, mutation: Mutation) -> Vec<String> {
    let mut noticed = false;
    for suite in SUITES {
        let began = Instant::now();
        let (end, said) = run(&suites[suite], None, Some(mutation), 6 * HANGS);
        let (tests, how) = match end {
            End::Passed | End::Skipped => continue,
            End::Failed(tests) => (tests, said),
            End::Hung(tests) => (tests, format!("hangs; {said}")),
        };
        noticed = true;
        let tests: Vec<_> = tests.iter().map(|test| format!("`{suite}::{test}`")).collect();
        println!(
            "| {} | {suite} | {} | {} s | {how} |",
            mutation.name(),
            tests.join(" "),
            seconds(began)
        );
    }
    if noticed {
        Vec::new()
    } else {
        vec![format!("{} by any test", mutation.name())]
    }
}

#[test]
fn every_deliberate_mistake_is_noticed() {
    let only = std::env::var("MILLPOND_MUTATION").ok();
    let mutations = Mutation::ALL
        .iter()
        .filter(|m| only.as_ref().is_none_or(|name| name == m.name()));
    let mutations: Vec<_> = mutations.copied().collect();
    assert!(!mutations.is_empty(), "there is no mistake {only:?}");
    let all = std::env::var("MILLPOND_MUTATIONS").is_ok_and(|what| what == "all");
    let suites = build();
    let began = Instant::now();
    let mut unnoticed = Vec::new();
    if all {
        for &mutation in &mutations {
            unnoticed.extend(try_all(&suites, mutation));
        }
    } else {
        let tests: BTreeSet<_> = mutations.iter().flat_map(|&m| named_for(m)).collect();
        let tests: Vec<_> = tests.into_iter().collect();
        side_by_side(&tests, |&&(suite, test)| {
            let passed = |end: &End| matches!(end, End::Passed | End::Skipped);
            let again = |end: &End| !passed(end);
            let (end, said) = run_again(again, || run(&suites[suite], Some(test), None, SLOW_DAY));
            assert!(
                passed(&end),
                "with no mistake {suite}::{test} has {end:?}: {said}"
            );
        });
        println!(
            "with no mistake {} tests pass in {} s\n",
            tests.len(),
            seconds(began)
        );
        println!("| mistake | what is wrong | noticed by | after | how |\n|---|---|---|---|---|");
        for tried in side_by_side(&mutations, |&mutation| try_named(&suites, mutation)) {
            tried.rows.iter().for_each(|row| println!("{row}"));
            unnoticed.extend(tried.unnoticed);
        }
    }
    println!(
        "\n{} mistakes, {} not noticed; {} s",
        mutations.len(),
        unnoticed.len(),
        seconds(began)
    );
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
