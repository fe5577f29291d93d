//! `set`, `inspect`, `stat` and `caches` on live caches in other processes, as a user or a script meets them.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use crate::support::caches::{self, CacheProcess};
use crate::support::{text, words};
use millpond::PageCache;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// For a mount whose process is gone.
const GONE: &str = "is gone, perhaps killed";

/// Not a test: what the other tests start in a process of its own.
#[test]
fn a_process_that_has_caches() {
    let Some(count) = caches::wanted() else { return };
    let build = || {
        let builder = PageCache::builder().memory(16 << 20).control(true);
        builder.build().unwrap()
    };
    let caches: Vec<_> = (0..count).map(|_| build()).collect();
    caches::serve(caches.iter().map(|cache| cache.control_path().unwrap()));
}

fn start(folder: &Path, count: u32) -> CacheProcess {
    CacheProcess::start("control::a_process_that_has_caches", folder, count)
}

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(words(line)).env("XDG_RUNTIME_DIR", folder);
    // Caches of other tests, and of this machine's user, are not meant.
    command.env("TMPDIR", folder);
    command
}

/// A cache that takes seconds to answer, as on a very busy machine, is reported as not answering, and asked again.
fn run(folder: &Path, line: &str) -> Output {
    let is_late = |output: &Output| {
        [&output.stdout, &output.stderr]
            .iter()
            .any(|said| text(said).contains("does not answer: "))
    };
    let mut asked = (0..60).map(|_| command(folder, line).output().unwrap());
    asked.find(|output| !is_late(output)).unwrap()
}

/// The list of `caches` without mounts whose process is gone: those belong to other tests.
fn listed(folder: &Path) -> String {
    let said = says(folder, "caches");
    let lines = said.lines().filter(|line| !line.contains(GONE));
    lines.map(|line| format!("{line}\n")).collect()
}

fn says(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn fails(folder: &Path, line: &str, code: i32) -> String {
    let output = run(folder, line);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{line}: {}",
        text(&output.stderr)
    );
    assert_eq!(text(&output.stdout), "", "{line}");
    text(&output.stderr)
}

#[test]
fn the_one_cache_that_runs_is_set_and_says_what_became_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    let said = says(folder, "set dirty.hard=2M dirty.background=1M");
    for line in [
        "dirty.hard               20% -> 2M",
        "dirty.background         10% -> 1M",
        "limits that follow:",
        "  dirty.hard             778 -> 512 pages (3.04 MiB -> 2 MiB)",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    assert_eq!(
        says(folder, "set dirty.hard=2M"),
        "all of this is already set: nothing has changed\n"
    );
    // It was cut in silence.
    let cut = says(folder, "set dirty.background=4M");
    assert!(
        cut.contains("note: dirty.background is now 511 pages, not the 1024 that this asks for: it is 1 to 511 (dirty.hard - 1)"),
        "{cut}"
    );
    let fits = says(folder, "set dirty.background=1M");
    assert!(!fits.contains("note:"), "{fits}");
    let limits = says(folder, "inspect limits dirty.hard");
    assert!(!limits.contains("dirty.background ="), "{limits}");
    let goal = says(folder, "inspect limits admission.goal");
    assert!(goal.starts_with("admission.goal = "), "{goal}");
    // The last line has a time.
    let same = says(folder, "inspect limits admission.read_latency");
    assert_eq!(same.lines().next(), goal.lines().next());
    let follow = says(folder, "inspect limits reserve");
    assert!(
        follow.contains("depends on") && follow.contains("reserve"),
        "{follow}"
    );
    let other = fails(folder, "inspect limits hung_io_timeout", 2);
    assert!(
        other.contains("ask `millpond inspect options hung_io_timeout`"),
        "{other}"
    );
    let none = fails(folder, "inspect limits nothing", 2);
    assert!(none.contains("admission.goal"), "{none}");
    assert!(
        limits.starts_with("dirty.hard = 512 pages, 2 MiB\n    = 2097152 B / 4096 B, rounded up, 256"),
        "{limits}"
    );
    assert!(
        limits.contains("last changed: dirty.hard, ") && limits.contains(" by millpond (pid "),
        "{limits}"
    );
    let options = says(folder, "inspect options dirty.h");
    assert!(
        options.starts_with("dirty.hard=2M ") && options.ends_with("; default: 20%\n"),
        "{options}"
    );
    // Before reading the history, because it changes nothing there.
    let measure = says(folder, "set admission.read_latency=measure");
    assert!(
        measure.starts_with("note: the goal for reads is 2ms until reads of the idle disk are measured"),
        "{measure}"
    );
    let history = says(folder, "inspect history");
    assert!(
        history.starts_with("1  ") && history.contains("dirty.background         10% -> 1M"),
        "{history}"
    );
    caches.end();
}

/// The page that shows how to do the numbers again by hand has those that a cache has.
#[test]
fn the_documents_limits_are_a_caches() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    says(folder, "set memory=64M dirty.hard=8M");
    let page = include_str!("../../../../docs/CONTROL.md");
    let (_, shown) = page.split_once("$ millpond inspect limits\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    // When and by whom is another thing each time.
    let lasting = |line: &&str| !line.starts_with("    set: ");
    let limits = says(folder, "inspect limits");
    assert!(shown.lines().filter(lasting).count() >= 6, "{shown}");
    for line in shown.lines().filter(lasting) {
        assert!(limits.lines().any(|printed| printed == line), "{line}:\n{limits}");
    }
    let (_, goal) = limits.split_once("admission.goal = 2000 us now\n").unwrap();
    assert!(
        goal.starts_with("    = 3 * 0 us (unloaded p95 of the last reads), "),
        "{goal}"
    );
    let json: Value = serde_json::from_str(&says(folder, "inspect limits dirty.hard --json")).unwrap();
    assert_eq!(json["limits"].as_array().unwrap().len(), 1);
    assert_eq!(json["limits"][0]["inputs"]["dirty.ceiling"], 14951);
    caches.end();
}

#[test]
fn a_bad_setting_changes_nothing_and_names_the_range() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    for (line, why) in [
        ("set dirty.hart=2M", "did you mean dirty.hard?"),
        (
            "set goal.read_latency=2ms",
            "did you mean admission.read_latency?",
        ),
        (
            "set dirty.hard=20",
            "a size with its unit such as 64M, or a share such as 20%",
        ),
        ("set dirty.hard=2M watermarks.scale=31%", "must be 0 to 30 %"),
        (
            "set memory=8M admission.high=2M",
            "set admission=bytes before it in the same command",
        ),
        ("set memory=100K", "at least 772K are needed"),
        ("set dirty.hard", "is not NAME=VALUE"),
        ("inspect limits hard", "the names are: frames, watermarks.min, "),
        ("inspect limit", "[possible values: limits, options, history]"),
        ("stat 0", "an interval is 10ms to 1h"),
        ("stat 27272", "the cache of process 27272 is --cache 27272"),
    ] {
        let said = fails(folder, line, 2);
        assert!(said.contains(why), "{line}: {said}");
    }
    let history = says(folder, "inspect history");
    assert!(
        history.starts_with("no setting has changed since the cache was made "),
        "{history}"
    );
    caches.end();
}

#[test]
fn of_several_caches_one_is_named_by_its_process_or_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let none = fails(folder, "stat", 1);
    assert!(
        none.contains("no cache with a control socket is running") || none.contains(GONE),
        "{none}"
    );
    assert_eq!(listed(folder), "");
    let (one, two) = (start(folder, 1), start(folder, 2));
    let all = listed(folder);
    assert_eq!(all.lines().count(), 4, "{all}");
    for socket in one.sockets.iter().chain(&two.sockets) {
        assert!(all.contains(&*socket.to_string_lossy()), "{all}");
    }
    let json = says(folder, "caches --json");
    let about: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(about["memory_bytes"], 16 << 20);

    let said = fails(folder, "set dirty.failed=2%", 2);
    assert!(
        said.contains("several caches are running") && said.contains(&one.pid()),
        "{said}"
    );
    says(folder, &format!("set dirty.failed=2% --cache {}", one.pid()));
    let said = fails(folder, &format!("set dirty.failed=2% --cache {}", two.pid()), 2);
    assert!(said.contains("has several caches"), "{said}");
    says(
        folder,
        &format!("set dirty.failed=3% --cache {}", two.sockets[1].display()),
    );
    let failed = |socket: &Path| {
        says(
            folder,
            &format!("inspect options dirty.failed --cache {}", socket.display()),
        )
    };
    assert!(failed(&one.sockets[0]).starts_with("dirty.failed=2%"));
    assert!(failed(&two.sockets[0]).starts_with("dirty.failed=25%"));
    assert!(failed(&two.sockets[1]).starts_with("dirty.failed=3%"));
    assert!(fails(folder, "stat --cache /not/there", 1).contains("`millpond caches` lists"));
    one.end();
    two.end();
    assert_eq!(listed(folder), "");
}

#[test]
fn remains_of_a_killed_process_are_not_listed_and_go_with_the_next_cache() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let killed = start(folder, 1);
    let socket = killed.sockets[0].clone();
    killed.kill();
    assert!(socket.exists());
    assert_eq!(listed(folder), "");
    let said = fails(folder, &format!("stat --cache {}", socket.display()), 1);
    assert!(said.contains("the cache that made it is gone"), "{said}");
    let next = start(folder, 1);
    assert!(!socket.exists());
    says(folder, "stat");
    next.end();
}

#[test]
fn stat_has_a_line_an_interval_until_it_is_enough_or_the_cache_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, caches) = (folder.path(), start(folder.path(), 1));
    assert_eq!(says(folder, "stat").lines().count(), 3);
    assert_eq!(says(folder, "stat 20ms 22").lines().count(), 26, "two headings");
    assert!(says(folder, "stat --reasons").starts_with("reason "));
    let said = says(folder, "stat 20ms 3 --json");
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    let ages: Vec<_> = lines.iter().map(|line| line["age_s"].as_f64().unwrap()).collect();
    assert!(ages.is_sorted() && ages[0] < ages[2], "{ages:?}");
    assert_eq!(lines[0]["per_second"]["nr_written_per_s"], 0.0);
    assert!(lines[0]["now"]["frames"].as_u64().unwrap() > 3000);

    let mut watching = command(folder, "stat 20ms");
    let mut watching = watching
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert!(seen.by_ref().take(5).all(|line| line.is_ok()));
    caches.end();
    let rest = seen.count();
    let output = watching.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "after {rest} lines more");
    assert!(
        text(&output.stderr).contains("the cache has ended"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn every_command_has_an_example_in_its_help() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["set", "inspect", "stat", "caches"] {
        let help = says(folder.path(), &format!("{name} --help"));
        let example = format!("Examples:\n  millpond {name}");
        assert!(
            help.contains(&example) && help.contains("Exit codes: 0"),
            "{help}"
        );
    }
}
