//! A disk that takes writes and does not answer, while names and attributes are there: a loop device on a slow disk whose process
//! is stopped.

use super::{BOUND, PROGRAM, Stopped, TestMount, millpond, skip, wait_until};
use rustix::mount::UnmountFlags;
use rustix::process::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

/// An ext4 on such a disk, mounted until it is dropped.
struct Disk {
    serves: Child,
    device: Option<String>,
    folder: tempfile::TempDir,
}

impl Disk {
    /// `None`, and says why, where there can be none.
    fn new() -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("slow")).unwrap();
        fs::create_dir(at("below")).unwrap();
        let mut slowdisk = Command::new(PROGRAM);
        slowdisk.args(["slowdisk", "--model", "ram", "--size", "64M"]);
        let mut serves = slowdisk.arg(at("slow")).stdout(Stdio::piped()).spawn().unwrap();
        let mut image = String::new();
        BufReader::new(serves.stdout.take().unwrap())
            .read_line(&mut image)
            .unwrap();
        let mut disk = Disk {
            serves,
            device: None,
            folder,
        };
        let set_up = || {
            let device = run(&[
                "losetup",
                "--find",
                "--show",
                "--direct-io=on",
                "--sector-size",
                "4096",
                image.trim(),
            ])?;
            run(&["mkfs.ext4", "-q", "-F", &device])?;
            run(&["mount", &device, disk.below().to_str()?])?;
            Some(device)
        };
        let device = (!image.is_empty()).then(set_up).flatten();
        if device.is_none() {
            skip("no ext4 on a slow disk: root, FUSE, mkfs.ext4 and loop devices are needed");
        }
        disk.device = Some(device?);
        Some(disk)
    }

    fn below(&self) -> PathBuf {
        self.folder.path().join("below")
    }
}

fn run(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(said)
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.below(), UnmountFlags::DETACH);
        if let Some(device) = &self.device {
            run(&["losetup", "--detach", device]);
        }
        let _ = rustix::mount::unmount(self.folder.path().join("slow"), UnmountFlags::DETACH);
        let _ = self.serves.kill();
        let _ = self.serves.wait();
    }
}

/// None named it, `top` said that nothing waits, and `umount` waited without an end.
#[test]
fn a_disk_that_does_not_answer_is_named_by_every_command_and_umount_gives_up() {
    let Some(disk) = Disk::new() else { return };
    let Some(mut mounted) = TestMount::start(&disk.below(), &["--memory=16M"]) else {
        return;
    };
    let point = mounted.at().display().to_string();
    let (code, said) = millpond(&["set", "hung_io_timeout=200ms", "--cache", &point]);
    assert_eq!(code, Some(0), "{said}");
    let file = mounted.at().join("file");
    fs::write(&file, "synced").unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let stopped = Stopped::stop(Pid::from_child(&disk.serves));
    let target = format!("of={}", file.display());
    // A process, as a thread that waits for it would keep this one from ending.
    let mut writer = Command::new("dd")
        .args([
            "if=/dev/zero",
            "bs=64k",
            "count=16",
            "conv=fsync,notrunc",
            "status=none",
        ])
        .arg(target)
        .spawn()
        .unwrap();
    let named = "its disk does not answer";
    wait_until("caches does not name it", || {
        millpond(&["caches"]).1.contains(named)
    });
    for words in [
        &["stat"][..],
        &["inspect", "limits", "frames"],
        &["set", "dirty.hard=4M"],
        &["stat", "--files"],
    ] {
        let (code, said) = millpond(&[words, &["--cache", &point]].concat());
        assert_eq!(code, Some(0), "{words:?}: {said}");
        assert!(
            said.contains(named) && said.contains("/src/file"),
            "{words:?}: {said}"
        );
    }
    let (told, umounted) = mpsc::channel();
    let umount = point.clone();
    thread::spawn(move || told.send(millpond(&["umount", &umount])));
    let umounted = umounted.recv_timeout(BOUND);
    drop(stopped);
    let (code, said) = umounted.expect("umount waits without an end");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("stays mounted") && said.contains("does not answer"),
        "{said}"
    );
    assert!(writer.wait().unwrap().success());
    let (code, said) = millpond(&["umount", &point]);
    assert_eq!(code, Some(0), "{said}");
    mounted.wait();
    // Each warning was printed twice, once in another form.
    let mut log = String::new();
    let mut stderr = mounted.program.stderr.take().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(
        log.contains("warning: ") && log.contains("has been waiting for its device"),
        "{log}"
    );
    assert!(
        log.lines().all(|line| line.starts_with("millpond mount: ")),
        "{log}"
    );
    assert_eq!(fs::read(mounted.source().join("file")).unwrap().len(), 1 << 20);
}
