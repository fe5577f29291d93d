//! The program as a user or a script meets it.
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use crate::support::{SMALL_JOB, scratch, text, words};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for a disk that is busy with something else; nothing here takes a second on an idle one.
const PATIENCE: Duration = Duration::from_secs(120);

fn millpond(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    millpond(args).current_dir(dir.path()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn bad_input_names_the_value_what_is_allowed_and_the_way_out() {
    // Of each kind one: the ranges of each experiment are tested beside its options.
    let table: [(&[&str], &[&str]); 9] = [
        (&["lab", "run", "axboe2061"], &["`axboe2061`", "axboe2016"]),
        (
            &["lab", "run", "axboe2016", "--variant", "v4"],
            &["`v4`", "v3-10", "goal"],
        ),
        (
            &["lab", "run", "axboe2016", "--table", "posts"],
            &["posts", "post, reasons"],
        ),
        (
            &["lab", "run", "gorman2011", "--table", "lists"],
            &["unknown table `lists`; allowed: post, reasons"],
        ),
        (
            &["lab", "run", "axboe2016", "--memory", "12Q"],
            &["12Q", "512M", "--memory"],
        ),
        (&["lab", "run", "axboe2016", "--files", "-3"], &["-3"]),
        (
            &["lab", "run", "axboe2016", "--read-latency-goal", "40"],
            &["`40`", "40ms"],
        ),
        (
            &["lab", "run", "axboe2016", "--json", "/no/such/dir/x"],
            &["--json /no/such/dir/x", "directory that exists"],
        ),
        (
            &["doctor", "--dir", "/no/such/dir"],
            &["--dir /no/such/dir", "not a directory"],
        ),
    ];
    for (args, words) in table {
        let output = output(args);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for word in words {
            assert!(text.contains(word), "{args:?}: no {word:?} in {text}");
        }
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let output = output(&words("lab run axboe2016 --on kernel --dir /no/such/dir"));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--dir /no/such/dir: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_load_too_large_for_the_disk_is_refused_before_anything_is_written() {
    let dir = scratch();
    let job = words("lab run axboe2016 --on kernel --scale 100 --file-size 100G --dir");
    let output = output(&[job, vec![dir.path().to_str().unwrap()]].concat());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(is_empty(dir.path()));
    if text.contains("that takes 19.5 GiB of memory") {
        return println!("skipped: memory, which is looked at before the disk, is too small");
    }
    assert!(text.contains("are needed") && text.contains("--scale"), "{text}");
}

#[test]
fn every_command_has_help_with_an_example() {
    let table: [&[&str]; 5] = [
        &["--help"],
        &["lab", "--help"],
        &["lab", "list", "--help"],
        &["lab", "run", "--help"],
        &["doctor", "--help"],
    ];
    for args in table {
        let output = output(args);
        let text = text(&output.stdout);
        assert!(output.status.success());
        // `lab` itself only lists its commands
        assert!(
            args == ["lab", "--help"] || text.contains("Example"),
            "{args:?}: {text}"
        );
        assert!(!text.contains("worker"), "{args:?}: {text}");
    }
}

#[test]
fn lists_are_text_or_json_lines() {
    let listed = output(&["lab", "list"]);
    assert!(text(&listed.stdout).contains("axboe2016"));
    for args in [["lab", "list", "--json"], ["doctor", "--json", "--dir=."]] {
        let output = output(&args);
        let text = text(&output.stdout);
        assert!(text.lines().count() >= 2, "{text}");
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value["name"].is_string(), "{line}");
        }
    }
}

#[test]
fn a_small_run_on_the_kernel_gives_table_verdict_report_and_json() {
    let (dir, out) = (scratch(), tempfile::tempdir().unwrap());
    let output = millpond(&words(
        "lab run axboe2016 --on kernel --runs 2 --scale 1 --files 4 --file-size 16M --read-file-size 128M",
    ))
    .args(words("--memory 32M --writers 2"))
    .args(["--json", "out.jsonl", "--dir"])
    .arg(dir.path())
    .current_dir(out.path())
    .output()
    .unwrap();
    let (text, errors) = (text(&output.stdout), stderr(&output));
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "nothing is drawn where stderr is no terminal");
    // A disk on which the writers are done within a second shows no tail.
    let is_told = text.contains("The kernel: reader alone -> beside writers: ");
    assert!(text.contains("reads/s") && is_told, "{text}");
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 120 || line.starts_with("report:")),
        "{text}"
    );
    let report = text
        .lines()
        .find_map(|line| line.strip_prefix("report: "))
        .unwrap();
    let page = fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));

    let json = fs::read_to_string(out.path().join("out.jsonl")).unwrap();
    let mut seen = BTreeSet::new();
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["experiment"], "axboe2016");
        assert_eq!(
            (value["target"].as_str(), value["device"].as_str()),
            (Some("kernel"), Some("real"))
        );
        assert!(
            value["variant"].as_str().is_some_and(|v| v.starts_with("kernel")),
            "{line}"
        );
        // What not every run has a figure for, the time of a hit where nothing was hit, has fewer than two of them.
        let runs = value["runs"].as_array().unwrap().len();
        assert!((1..=2).contains(&runs), "{line}");
        let of = |key: &str| value[key].as_str().unwrap().to_owned();
        if runs == 2 {
            seen.insert((of("workload"), of("metric")));
        }
    }
    for metric in [
        "reader_reads_per_s",
        // Metrics of misses alone are absent where nothing was missed.
        "reader_all_p50_us",
        "reader_all_p99_us",
        "reader_all_max_us",
        "writers_seconds",
        "writers_mb_per_s",
    ] {
        assert!(
            seen.contains(&("writers-and-reader".into(), metric.into())),
            "{metric} is missing"
        );
    }
    assert!(seen.contains(&("reader-alone".into(), "reader_reads_per_s".into())));
    assert!(seen.contains(&("writers-alone".into(), "writers_seconds".into())));
    assert!(is_empty(dir.path()), "something is left");
}

#[test]
fn the_bare_disk_has_a_row_for_each_number_of_writes_and_millpond_its_distance() {
    let (dir, out) = (scratch(), tempfile::tempdir().unwrap());
    let output = millpond(&words(
        "lab run axboe2016 --on bare,engine --workload writers-and-reader --runs 1 --scale 1 --files 4 --file-size 16M",
    ))
    .args(words("--read-file-size 128M --memory 32M --dir"))
    .arg(dir.path())
    .current_dir(out.path())
    .output()
    .unwrap();
    let (text, errors) = (text(&output.stdout), stderr(&output));
    assert!(output.status.success(), "{errors}");
    for row in ["bare 1x1M ", "bare 2x1M ", "bare 4x1M ", "engine goal "] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    assert!(text.contains("Millpond against what the device allows"), "{text}");
    // A bound is no rival: it has no verdict.
    assert!(!text.contains("reader of bare"), "{text}");
    assert!(is_empty(dir.path()), "something is left");
}

#[test]
fn json_to_stdout_is_nothing_but_json() {
    let (dir, out) = (scratch(), tempfile::tempdir().unwrap());
    let output = millpond(&words(SMALL_JOB))
        .args(["--no-reader", "--json", "-", "--dir"])
        .arg(dir.path())
        .current_dir(out.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = text(&output.stdout);
    assert!(!text.is_empty());
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["workload"], "writers-alone");
    }
}

/// On real files and in virtual time: each companion of the writers has its metrics, and no files are left.
#[test]
fn each_workload_has_its_own_metrics_and_tables_come_on_request() {
    let (dir, out) = (scratch(), tempfile::tempdir().unwrap());
    let json = out.path().join("out.jsonl");
    let output = millpond(&[
        "lab",
        "run",
        "axboe2016",
        "--on",
        "engine,sim",
        "--variant",
        "goal",
        "--workload",
        "writers-and-reader,several-readers,log-writer,checkpoints,scan",
        "--table",
        "post,reasons",
        "--runs",
        "1",
        "--scale",
        "1",
    ])
    .args(["--files", "2", "--file-size", "4M", "--read-file-size", "8M"])
    .args(["--memory", "16M", "--json"])
    .arg(&json)
    .arg("--dir")
    .arg(dir.path())
    .current_dir(out.path())
    .output()
    .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut seen = BTreeSet::new();
    for line in fs::read_to_string(&json).unwrap().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let of = |key: &str| value[key].as_str().unwrap().to_owned();
        seen.insert([of("target"), of("workload"), of("metric")].join(" "));
    }
    for target in ["engine", "sim"] {
        for metric in [
            "several-readers reader_all_p99_us",
            "log-writer sync_p50_us",
            "log-writer sync_p99_us",
            "log-writer sync_max_us",
            "log-writer syncs_per_s",
            "log-writer io_sync_requests",
            "checkpoints sync_p50_us",
            "checkpoints writers_seconds",
            "scan scan_mb_per_s",
            "scan writers_seconds",
        ] {
            let metric = format!("{target} {metric}");
            assert!(seen.contains(&metric), "{metric} is missing");
        }
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "A log that is synced after each record, beside the writers (in virtual time)",
        "Checkpoints of a thousand scattered pages, beside the writers (in virtual time)",
        "post, 2016: v3-10\n  read : io=1048576KB",
        "     | 99.00th=[",
        "  writers, with the reader: real 0m",
        "by reason: log-writer",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    assert!(is_empty(dir.path()), "something is left");
}

/// Waits for something that must come, looking now and then.
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn written_file_exists(dir: &Path) -> bool {
    let scratch = fs::read_dir(dir).unwrap().flatten().next();
    scratch.is_some_and(|entry| entry.path().join("written-0000").exists())
}

fn endless(dir: &Path) -> Child {
    millpond(&words(
        "lab run axboe2016 --on kernel --runs 100 --scale 1 --files 200 --file-size 1M --read-file-size 1M",
    ))
    .args(["--memory", "32M", "--dir"])
    .arg(dir)
    .current_dir(dir)
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .unwrap()
}

#[test]
fn ctrl_c_removes_everything_and_exits_with_130() {
    let dir = scratch();
    let mut program = endless(dir.path());
    wait_for("a written file", || written_file_exists(dir.path()));
    let pid = rustix::process::Pid::from_child(&program);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = program.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(is_empty(dir.path()), "something is left");
    for groups in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"] {
        let name = format!("millpond-lab-{}-", program.id());
        let left = fs::read_dir(groups).into_iter().flatten().flatten();
        assert!(
            !left
                .into_iter()
                .any(|e| e.file_name().to_string_lossy().starts_with(&name)),
            "a memory group is left"
        );
    }
}

#[test]
fn remains_of_a_killed_program_are_removed_by_the_next_one() {
    let dir = scratch();
    let mut program = endless(dir.path());
    wait_for("a written file", || written_file_exists(dir.path()));
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(!is_empty(dir.path()));
    // its child notices that it is alone; only then is the directory ownerless
    let job = [words(SMALL_JOB), words("--on kernel --no-reader --dir")].concat();
    let output = output(&[job, vec![dir.path().to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(is_empty(dir.path()), "something is left");
}

#[test]
fn a_worker_whose_parent_is_gone_ends() {
    let dir = scratch();
    let request = serde_json::json!({
        "enter": null,
        "setup": {
            "target": "kernel", "variant": "memory-group", "device": "real", "dir": dir.path(),
            "memory": 33_554_432, "read_latency_goal": null, "seed": 1,
        },
        "workload": {
            "experiment": "axboe2016", "phase": "reader-alone", "files": 1, "file_bytes": 4096, "writers": 1,
            "read_file_bytes": 4096, "reader_alone_ms": 3_600_000, "seed": 1,
        },
    });
    // the one page of the read file, with its stamp: its file's number and its own
    let mut page = vec![0_u8; 4096];
    page[..16].copy_from_slice(&(u128::from(u32::MAX) + 1).to_le_bytes());
    fs::write(dir.path().join("read-file"), page).unwrap();

    let mut worker = millpond(&["lab", "worker"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = worker.stdin.take().unwrap();
    writeln!(stdin, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(worker.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with(r#"{"progress":{"doing":"reading""#), "{line}");
    drop(stdin);
    assert_eq!(worker.wait().unwrap().code(), Some(1));
}

#[test]
fn a_worker_that_gets_no_request_says_what_it_is() {
    let output = millpond(&["lab", "worker"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("for the laboratory's own use"),
        "{}",
        stderr(&output)
    );
}

/// An experiment whose post has no table of its own says where the numbers are.
#[test]
fn every_experiment_takes_the_posts_table() {
    let dir = scratch();
    let report = dir.path().join("report.html");
    let line = "lab run hills2015 --on sim --workload post-numbers --table post --report";
    let ran = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(line.split(' '))
        .arg(&report)
        .output()
        .unwrap();
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(
        said.contains("The post's numbers are in two of the tables above"),
        "{said}"
    );
}
