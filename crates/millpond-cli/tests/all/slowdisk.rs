//! `millpond slowdisk` as its users meet it: mounted, with a loop device and a file system on it, ended.
//!
//! Needs what mounting needs, and root for the loop device: a test that has not all of it says "skipped" and why. What
//! is mounted, attached or started is let go of when the test ends, however it ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

/// Does a command; what it says if it fails or is not there.
fn run(command: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(command).args(arguments).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(format!("{command}: {}", said(&output.stderr))),
    }
}

fn slowdisk(point: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("slowdisk").arg(point).args(arguments);
    command
}

/// A slow disk that is mounted, until it is dropped.
struct Disk {
    program: Child,
    point: PathBuf,
    _folder: tempfile::TempDir,
}

impl Disk {
    /// `None`, and says why, where nothing can be mounted.
    fn start(arguments: &[&str]) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("slow");
        fs::create_dir(&point).unwrap();
        let mut program = slowdisk(&point, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let mut disk = Disk {
            program,
            point,
            _folder: folder,
        };
        if line.is_empty() {
            let code = disk.wait().code();
            let mut said = String::new();
            disk.program
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            assert_eq!(code, Some(3), "{said}");
            println!("skipped: {}", said.trim().replace('\n', " "));
            return None;
        }
        assert_eq!(line.trim(), disk.image().display().to_string());
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.point.join("disk.img")
    }

    fn control(&self, word: &str) -> std::io::Result<()> {
        fs::write(self.point.join("control"), word)
    }

    fn statistics(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.point.join("stats")).unwrap()).unwrap()
    }

    fn open(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(self.image()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.program.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Its exit status, within a minute.
    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it has not ended");
            std::thread::yield_now();
        }
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(&format!(" {} ", self.point.display()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What fails here has been done before.
        let _ = run("umount", &["--lazy", &self.point.display().to_string()]);
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A file as a block device, until it is dropped.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Result<Loop, String> {
        let path = image.display().to_string();
        let how = [
            "--find",
            "--show",
            "--direct-io=on",
            "--sector-size",
            "4096",
            &path,
        ];
        run("losetup", &how).map(Loop)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(said) = run("losetup", &["--detach", &self.0]) {
            println!("{said}");
        }
    }
}

/// A file system, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Loop, point: &Path) -> Result<Mounted, String> {
        run("mount", &[&device.0, &point.display().to_string()])?;
        Ok(Mounted(point.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let point = self.0.display().to_string();
        if run("umount", &[&point]).is_err() {
            let _ = run("umount", &["--lazy", &point]);
        }
    }
}

fn keeps_a_file_system(kind: &str, force: &str) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can attach a file as a block device");
    }
    let Some(disk) = Disk::start(&["--model", "hdd,rate=1GB", "--wcache", "16M", "--size", "512M"]) else {
        return;
    };
    let device = match Loop::new(&disk.image()) {
        Ok(device) => device,
        Err(why) => return println!("skipped: {why}"),
    };
    disk.control("untimed").unwrap();
    let tool = format!("mkfs.{kind}");
    if let Err(why) = run(&tool, &["-V"]) {
        return println!("skipped: {why}");
    }
    run(&tool, &["-q", force, &device.0]).unwrap();
    disk.control("timed\nreset\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0_u32..3_000_001)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    {
        let mounted = match Mounted::new(&device, folder.path()) {
            Ok(mounted) => mounted,
            Err(why) => {
                // It was loaded when it was asked for, if it is there.
                let known = fs::read_to_string("/proc/filesystems").unwrap();
                assert!(!known.contains(kind), "{why}");
                return println!("skipped: {why}");
            }
        };
        fs::write(mounted.0.join("file"), &bytes).unwrap();
        File::open(mounted.0.join("file")).unwrap().sync_all().unwrap();
        let seen = disk.statistics();
        assert!(
            seen["write"]["bytes"].as_u64().unwrap() >= bytes.len() as u64,
            "{seen:#}"
        );
        assert!(seen["flushes"].as_u64().unwrap() > 0, "{seen:#}");
    }
    let mounted = Mounted::new(&device, folder.path()).unwrap();
    let again = fs::read(mounted.0.join("file")).unwrap();
    assert!(again == bytes, "the file is another one when it is mounted again");
    let seen = disk.statistics();
    assert!(
        seen["read"]["bytes"].as_u64().unwrap() >= bytes.len() as u64,
        "{seen:#}"
    );
}

#[test]
fn xfs_on_it_keeps_its_files() {
    keeps_a_file_system("xfs", "-f");
}

#[test]
fn ext4_on_it_keeps_its_files() {
    keeps_a_file_system("ext4", "-F");
}

#[test]
fn reads_take_the_time_of_the_model_and_are_counted() {
    let Some(disk) = Disk::start(&["--model", "hdd", "--size", "2G"]) else {
        return;
    };
    let image = disk.open();
    let seeks = |file: &File| {
        let started = Instant::now();
        let mut page = [1; 4096];
        for n in 0..10 {
            file.read_exact_at(&mut page, (n % 2) << 30).unwrap();
            assert_eq!(page, [0; 4096], "never written");
        }
        started.elapsed()
    };
    // Nine seeks over a gigabyte, 0.8 ms + 13.2 ms x sqrt(1/466) each.
    let took = seeks(&image);
    assert!(took > 9 * Duration::from_micros(1400), "{took:?}");
    let seen = disk.statistics();
    assert_eq!(seen["model"], "hdd");
    assert_eq!(seen["read"]["requests"], 10, "{seen:#}");
    assert_eq!(seen["read"]["bytes"], 10 * 4096);
    assert_eq!(seen["write"]["requests"], 0);
    assert!(
        seen["read"]["latency_us"]["max"].as_f64().unwrap() > 1400.0,
        "{seen:#}"
    );

    disk.control("untimed").unwrap();
    let control = fs::read_to_string(disk.point.join("control")).unwrap();
    assert_eq!(control, "untimed\n");
    seeks(&image);
    let unseen = disk.statistics();
    assert_eq!(
        unseen["seeks"], seen["seeks"],
        "the model saw none of it: {unseen:#}"
    );
    assert_eq!(unseen["read"]["requests"], 20);
    disk.control("timed\nreset\n").unwrap();
    assert_eq!(disk.statistics()["read"]["requests"], 0);
    let error = disk.control("faster").unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::INVAL.raw_os_error())
    );
    let error = image.write_at(&[0; 4096], 2 << 30).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::NOSPC.raw_os_error())
    );
}

#[test]
fn bytes_can_be_kept_in_a_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let backing = folder.path().join("bytes").display().to_string();
    let arguments = ["--model", "sata-ssd", "--size", "4M", "--backing", &backing];
    let Some(disk) = Disk::start(&arguments) else {
        return;
    };
    disk.open().write_all_at(b"kept", 1 << 20).unwrap();
    drop(disk);
    let Some(disk) = Disk::start(&arguments) else {
        return;
    };
    let mut kept = [0; 4];
    disk.open().read_exact_at(&mut kept, 1 << 20).unwrap();
    assert_eq!(&kept, b"kept");
}

#[test]
fn signal_unmounts_it() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut disk) = Disk::start(&["--size", "1M"]) else {
            return;
        };
        assert!(disk.is_mounted());
        disk.signal(signal);
        assert_eq!(disk.wait().code(), Some(0));
        assert!(!disk.is_mounted());
        assert_eq!(fs::read_dir(&disk.point).unwrap().count(), 0);
    }
}

#[test]
fn disk_in_use_ends_when_its_user_has_closed_it() {
    let Some(mut disk) = Disk::start(&["--size", "1M"]) else {
        return;
    };
    let image = disk.open();
    disk.signal(Signal::TERM);
    let mut said = String::new();
    let mut stderr = BufReader::new(disk.program.stderr.take().unwrap());
    while !said.contains("is in use") {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
    }
    assert!(!disk.is_mounted(), "it is detached");
    image.write_all_at(b"still here", 0).unwrap();
    let mut read = [0; 10];
    image.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"still here");
    drop(image);
    let status = disk.wait();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(0), "{status}: {said}");
}

#[test]
fn disk_whose_program_was_killed_is_named_as_such() {
    let Some(mut disk) = Disk::start(&["--size", "1M"]) else {
        return;
    };
    disk.program.kill().unwrap();
    disk.program.wait().unwrap();
    let output = slowdisk(&disk.point, &[]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("unmount it first: umount"), "{said}");
}

#[test]
fn mistake_is_answered_with_the_way_out_before_anything_is_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "").unwrap();
    let (none, empty) = (folder.path().join("none"), folder.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    let table: [(&Path, &[&str], &[&str]); 8] = [
        (
            &empty,
            &["--model", "floppy"],
            &["`floppy`", "hdd, sata-ssd, nvme, ram"],
        ),
        (
            &empty,
            &["--model", "hdd", "--burst", "1G"],
            &["`burst=1G`", "wcache"],
        ),
        (&empty, &["--wcache", "lots"], &["`lots` is not a size"]),
        (&empty, &["--size", "1000000T"], &["--size"]),
        (
            &empty,
            &["--size", "5000"],
            &["--size 5000", "whole blocks of 4 KiB", "10G"],
        ),
        (
            &empty,
            &["--size", "8000T"],
            &["--size 8000T", "in memory", "--backing FILE"],
        ),
        (&full, &[], &["it is not empty", "an empty directory"]),
        (&none, &[], &["No such file", "an empty directory"]),
    ];
    for (point, arguments, parts) in table {
        let Output {
            status,
            stderr,
            stdout,
        } = slowdisk(point, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(2), "{arguments:?}: {said}");
        assert!(stdout.is_empty());
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: {part} is not in: {said}");
        }
    }
}
