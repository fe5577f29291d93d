//! The kernel tuned on a disk that is there: a scrap of the experiment on a loop device, and its settings afterwards, which
//! are those of before, however the run ends.
//!
//! Needs root, a loop device, `losetup`, `mkfs.ext4` and schedulers: a test that has not all of it says "skipped" and why.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{scratch, testbed_turn as turn, text, words};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A value that no other test sets.
const DIRTY: &str = "11M";
const DIRTY_BYTES: &str = "11534336";
/// No healthy machine takes as long for it.
const LONG: Duration = Duration::from_secs(120);

/// A file system on a loop device, taken away when it is dropped.
struct Disk {
    files: PathBuf,
    device: String,
    folder: TempDir,
}

fn tool(line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("env")
        .arg(format!("PATH={path}"))
        .args(&words)
        .output()
        .map_err(|e| format!("{line}: {e}"))?;
    match output.status.success() {
        true => Ok(text(&output.stdout).trim().into()),
        false => Err(format!("{line}: {}", text(&output.stderr).trim())),
    }
}

impl Disk {
    fn new() -> Option<Disk> {
        let made = || {
            let folder = scratch();
            let (image, files) = (folder.path().join("image"), folder.path().join("files"));
            fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
            fs::create_dir(&files).unwrap();
            let device = tool(&format!("losetup -f --show {}", image.display()))?;
            // from here on the drop takes it away
            let disk = Disk {
                files,
                device,
                folder,
            };
            tool(&format!("mkfs.ext4 -q -F {}", disk.device))?;
            tool(&format!("mount {} {}", disk.device, disk.files.display()))?;
            disk.set("scheduler", "mq-deadline")?;
            disk.set("wbt_lat_usec", "3000")?;
            disk.set("nr_requests", "77")?;
            disk.set("iosched/read_expire", "123")?;
            Ok(disk)
        };
        made().map_err(|why: String| println!("skipped: {why}")).ok()
    }

    fn queue(&self) -> PathBuf {
        Path::new("/sys/block")
            .join(self.device.trim_start_matches("/dev/"))
            .join("queue")
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        fs::write(self.queue().join(name), value).map_err(|e| format!("{name}: {e}"))
    }

    fn setting(&self, name: &str) -> String {
        fs::read_to_string(self.queue().join(name)).unwrap_or_default()
    }

    /// All that a run may change.
    fn settings(&self) -> BTreeMap<PathBuf, String> {
        let queue = self.queue();
        let own = fs::read_dir(queue.join("iosched"))
            .into_iter()
            .flatten()
            .flatten();
        let limits = [
            "dirty_bytes",
            "dirty_ratio",
            "dirty_background_bytes",
            "dirty_background_ratio",
        ];
        let paths =
            ["scheduler", "wbt_lat_usec", "nr_requests", "read_ahead_kb"].map(|name| queue.join(name));
        let limits = limits.map(|name| Path::new("/proc/sys/vm").join(name));
        let paths = own.map(|entry| entry.path()).chain(paths).chain(limits);
        paths
            .map(|path| (path.clone(), fs::read_to_string(&path).unwrap_or_default()))
            .collect()
    }

    fn run(&self, variants: &str, runs: u32) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
        command.args(words(
            "lab run axboe2016 --on kernel --memory 73M --files 4 --file-size 1M --read-file-size 4M --scale 1 --workload \
             writers-and-reader",
        ));
        command.args(["--kernel-variant", variants, "--runs", &runs.to_string(), "--dir"]);
        command.arg(&self.files);
        command
            .arg("--report")
            .arg(self.folder.path().join("report.html"));
        command
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = tool(&format!("umount {}", self.files.display()));
        let _ = tool(&format!("losetup -d {}", self.device));
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "not so after {LONG:?}: {what}");
        std::thread::yield_now();
    }
}

fn is_skipped(output: &Output) -> bool {
    let is_skipped = output.status.code() == Some(3);
    if is_skipped {
        println!("skipped: {}", text(&output.stderr).trim().replace('\n', " "));
    }
    is_skipped
}

#[test]
fn each_way_to_set_the_kernel_up_has_its_rows_and_leaves_every_setting_as_it_was() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let before = disk.settings();
    let variants = format!("none/2000/dirty={DIRTY}/flush=1M,as-is/dirty={DIRTY},bfq,kyber/0,as-is");
    let output = disk.run(&variants, 1).output().unwrap();
    if is_skipped(&output) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for part in [
        "kernel tuned none",
        "wbt=2000us dirty=11M flush=1M",
        "wbt=3000us dirty=11M",
        "memory=73M group=v",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    assert_eq!(disk.settings(), before);
}

#[test]
fn a_run_that_is_killed_or_interrupted_leaves_every_setting_as_it_was() {
    let _turn = turn();
    let Some(disk) = Disk::new() else { return };
    let before = disk.settings();
    let variant = format!("none/2000/dirty={DIRTY}");
    let once = disk.run(&variant, 1).output().unwrap();
    if is_skipped(&once) {
        return;
    }
    for how in [Signal::KILL, Signal::INT, Signal::TERM] {
        let mut run = disk
            .run(&variant, 100)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the run has set the kernel up", || {
            assert_eq!(run.try_wait().unwrap(), None, "it has ended");
            let dirty = fs::read_to_string("/proc/sys/vm/dirty_bytes").unwrap();
            dirty.trim() == DIRTY_BYTES && disk.setting("scheduler").contains("[none]")
        });
        kill_process(Pid::from_child(&run), how).unwrap();
        run.wait().unwrap();
        until("all settings are put back", || disk.settings() == before);
    }
}

#[test]
fn impossible_settings_are_reported_before_anything_is_done() {
    let folder = scratch();
    for (variant, part) in [
        ("none/xfs", "no file system xfs is made on a real device"),
        (
            "deadline",
            "as-is (on a real device), none, mq-deadline, kyber or bfq",
        ),
        ("none/dirty=1K", "`dirty=1K` is none of what it can be"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_millpond"))
            .args(words("lab run axboe2016 --on kernel --kernel-variant"))
            .arg(variant)
            .arg("--dir")
            .arg(folder.path())
            .output()
            .unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(part), "{told}");
    }
}
