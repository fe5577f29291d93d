//! The output of `millpond doctor`, on this host and on one that allows less.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

#[path = "../../../millpond/tests/all/refuse.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod refuse;

use self::refuse::{Refusal, always, direct, where_refused};
use crate::support::{SMALL_JOB, scratch, text, words};
use millpond_core::units::Bytes;
use millpond_lab::memory_group::MemoryGroup;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

fn millpond(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).arg("--dir").arg(dir).current_dir(dir);
    command
}

fn doctor(dir: &Path) -> Output {
    millpond(&["doctor"], dir).output().unwrap()
}

/// The doctor in a process whose system calls are refused.
fn doctor_where_refused(refusals: &[Refusal], dir: &Path) -> Output {
    // A child has the filters of the thread that made it.
    where_refused(refusals, || doctor(dir))
}

/// The line about `name`.
fn line(output: &Output, name: &str) -> String {
    let out = text(&output.stdout);
    let found = out
        .lines()
        .find(|line| line.get(9..).is_some_and(|rest| rest.starts_with(name)));
    found.unwrap_or_else(|| panic!("no {name} in {out}")).to_owned()
}

/// Whether the main job can run here without our doing; says so if not.
fn is_fit(dir: &Path) -> bool {
    let output = doctor(dir);
    if !output.status.success() {
        println!("skipped: {}", text(&output.stderr));
    }
    output.status.success()
}

#[test]
fn every_check_is_one_line_in_text_and_in_json() {
    let dir = scratch();
    let (plain, json) = (
        doctor(dir.path()),
        millpond(&["doctor", "--json"], dir.path()).output().unwrap(),
    );
    assert_eq!(plain.status.code(), json.status.code());
    let (plain, json) = (text(&plain.stdout), text(&json.stdout));
    let names = [
        "Linux",
        "memory",
        "locked memory",
        "disk",
        "free space",
        "O_DIRECT",
        "RWF_DONTCACHE",
        "io_uring",
        "huge pages",
        "device",
        "read latency",
        "engine",
        "FUSE",
        "memory group",
        "userfaultfd",
    ];
    assert_eq!(plain.lines().count(), names.len(), "{plain}");
    for ((line, value), name) in plain.lines().zip(json.lines()).zip(names) {
        assert!(line[9..].starts_with(name), "{line}");
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(value["name"], name);
        let is_ok = value["ok"].as_bool().unwrap();
        assert_eq!(is_ok, line.starts_with("ok "), "{line}");
        assert_eq!(
            is_ok,
            value["mend"].is_null() && value["effect"].is_null(),
            "{value}"
        );
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "something is left"
    );
}

#[test]
fn without_io_uring_the_main_job_can_run_and_the_line_says_what_to_do() {
    let dir = scratch();
    if !is_fit(dir.path()) {
        return;
    }
    for (errno, name) in [(libc::ENOSYS, "ENOSYS"), (libc::EPERM, "EPERM")] {
        let output = doctor_where_refused(&[always(libc::SYS_io_uring_setup, errno)], dir.path());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let cause = format!("a seccomp filter refuses io_uring_setup ({name})");
        assert_eq!(
            line(&output, "io_uring"),
            format!(
                "no       io_uring       {cause}: threads do the transfers, 32 at a time; allow io_uring_setup, \
                 io_uring_enter and io_uring_register in the seccomp profile of the container or service"
            )
        );
        assert!(line(&output, "engine").ends_with(&format!("read back through thread pool: {cause}")));
    }
}

#[test]
fn without_direct_io_the_main_job_cannot_run_and_neither_does_it() {
    let dir = scratch();
    if !is_fit(dir.path()) {
        return;
    }
    let output = doctor_where_refused(&[direct()], dir.path());
    assert_eq!(output.status.code(), Some(3));
    let place = dir.path().display();
    let said = line(&output, "O_DIRECT");
    assert!(
        said.starts_with(&format!("MISSING  O_DIRECT       {place}: direct I/O is refused")),
        "{said}"
    );
    assert!(
        said.ends_with("`millpond lab run axboe2016` can't run; give a --dir on ext4, xfs or btrfs"),
        "{said}"
    );
    assert_eq!(
        text(&output.stderr),
        "millpond: `millpond lab run axboe2016` can't run here: see O_DIRECT\n"
    );
    assert!(
        line(&output, "engine").starts_with("ok "),
        "the engine does without"
    );
    let job = [words(SMALL_JOB), words("--memory 16M")].concat();
    let run = where_refused(&[direct()], || millpond(&job, dir.path()).output().unwrap());
    assert_eq!(run.status.code(), Some(1));
    assert!(
        text(&run.stderr).contains("has no O_DIRECT; give --dir on one that has"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn with_less_memory_than_is_asked_for_the_main_job_cannot_run() {
    let dir = scratch();
    if !is_fit(dir.path()) {
        return;
    }
    let group = match MemoryGroup::create(Bytes::from_mib(64)) {
        Ok(group) => group,
        Err(why) => return println!("skipped: {why}"),
    };
    let inside = |args: &[&str]| {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .arg(group.path())
            .arg(PROGRAM)
            .args(args);
        command.arg("--dir").arg(dir.path()).output().unwrap()
    };
    let output = inside(&["doctor"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let said = line(&output, "memory");
    let expected = format!(
        "MISSING  memory         a budget of 512 MiB is above the memory limit of the control group {}, 64M: ",
        group.path().display()
    );
    assert!(
        said.starts_with(&expected) && said.contains("; give --memory below it, or raise "),
        "{said}"
    );
    assert_eq!(
        text(&output.stderr),
        "millpond: `millpond lab run axboe2016` can't run here: see memory\n"
    );
    let output = inside(&["doctor", "--memory", "32M"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(line(&output, "memory").starts_with("ok "));
}

#[test]
fn a_low_limit_of_locked_memory_is_reported_with_its_effect() {
    let dir = scratch();
    if !is_fit(dir.path()) {
        return;
    }
    let script = "ulimit -l 16 && exec \"$@\"";
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set", "-ipc_lock", "sh"]);
            command
        }
        false => Command::new("sh"),
    };
    command
        .args(["-c", script, "sh", PROGRAM, "doctor", "--dir"])
        .arg(dir.path());
    let output = match command.output() {
        Ok(output) if !output.stdout.is_empty() => output,
        Ok(output) => return println!("skipped: {}", text(&output.stderr)),
        Err(error) => return println!("skipped: no setpriv(1): {error}"),
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        line(&output, "locked memory"),
        "no       locked memory  16 KiB (ulimit -l), and a ring may take 64 KiB: there may be no io_uring; raise the \
         limit of locked memory (ulimit -l)"
    );
    let ring = line(&output, "io_uring");
    let refused = "no       io_uring       io_uring cannot allocate its ring (ENOMEM): only 16384 bytes may be locked: ";
    // Linux 5.12 and those after it did not count rings.
    assert!(ring.starts_with(refused) || ring.starts_with("ok "), "{ring}");
}

#[test]
fn a_directory_in_which_nothing_can_be_made_is_missing() {
    let output = Command::new(PROGRAM)
        .args(["doctor", "--dir", "/proc"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = line(&output, "directory");
    assert!(
        said.starts_with("MISSING  directory      --dir /proc: "),
        "{said}"
    );
    assert!(
        said.ends_with("; give a --dir in which files can be made"),
        "{said}"
    );
}

fn kernel(args: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel");
    let mut command = Command::new(PROGRAM);
    command
        .args(["doctor", "--kernel"])
        .args(args)
        .current_dir(folder);
    command.output().unwrap()
}

/// Hills 2015: the figures of the post's zone table, and the settings that it names.
#[test]
fn the_posts_fault_is_found_in_its_zone_table() {
    let output = kernel(&["--zoneinfo", "post.zoneinfo", "--sysctl", "post.sysctl"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let dirtyable = line(&output, "dirtyable");
    assert!(
        dirtyable.starts_with("no       dirtyable      1 pages") && dirtyable.contains("high memory 2815313"),
        "{dirtyable}"
    );
    assert!(
        dirtyable.contains("sysctl -w vm.dirty_bytes=") && dirtyable.contains("vm.highmem_is_dirtyable=1")
    );
    assert!(line(&output, "hard limit").starts_with("no       hard limit     0 pages"));
    assert!(line(&output, "ratelimit").starts_with("no       ratelimit      16 pages"));
    // Without the settings those of Linux are taken: the same.
    let by_default = kernel(&["--zoneinfo", "post.zoneinfo", "--json"]);
    let lines: Vec<Value> = text(&by_default.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let wrong = lines.iter().filter(|value| value["ok"] == false);
    let names: Vec<_> = wrong.map(|value| value["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dirtyable", "hard limit", "ratelimit"]);
}

#[test]
fn the_running_kernel_s_limits_are_reported_or_why_not() {
    let output = kernel(&[]);
    if !output.status.success() {
        println!("skipped: {}", text(&output.stderr));
        return;
    }
    for name in ["dirtyable", "hard limit", "background", "ratelimit"] {
        line(&output, name);
    }
}

#[test]
fn files_of_another_machine_that_cannot_be_read_are_named() {
    let output = kernel(&["--zoneinfo", "none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("cannot read none"),
        "{}",
        text(&output.stderr)
    );
    let output = kernel(&["--zoneinfo", "post.sysctl"]);
    assert!(
        text(&output.stderr).contains("no zone in it"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_kernels_limits_are_compared_with_the_group_that_it_runs_in() {
    let group = match MemoryGroup::create(Bytes::from_mib(64)) {
        Ok(group) => group,
        Err(why) => return println!("skipped: {why}"),
    };
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(group.path())
        .args([PROGRAM, "doctor", "--kernel"])
        .output()
        .unwrap();
    if !output.status.success() {
        return println!("skipped: {}", text(&output.stderr));
    }
    let said = line(&output, "memory group");
    assert!(
        said.contains(&format!("{}, limit 64.0 MiB", group.path().display()))
            || said.contains(&format!("{}, limit 64 MiB", group.path().display())),
        "{said}"
    );
    assert!(
        said.starts_with("ok ") || said.contains("; sysctl -w vm.dirty_bytes=") || said.contains("; raise "),
        "{said}"
    );
}

#[test]
fn a_mount_is_tried_and_what_refuses_it_is_named() {
    let dir = scratch();
    if !is_fit(dir.path()) {
        return;
    }
    let said = line(&doctor(dir.path()), "FUSE");
    let works = said.starts_with("ok       FUSE           a mount was made and read");
    assert!(works || said.contains("; "), "{said}");
    if !works || !rustix::process::geteuid().is_root() {
        return println!("skipped: {said}");
    }
    let output = doctor_where_refused(&[always(libc::SYS_mount, libc::EPERM)], dir.path());
    let said = line(&output, "FUSE");
    assert!(
        said.starts_with("no       FUSE           mounting is refused (") && said.contains("CAP_SYS_ADMIN"),
        "{said}"
    );
    // Nothing is left, mounted or not.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
