//! The serving process's exit report says whether everything is on the disk.

use super::{TestMount, folders, millpond, on_each_other, skip};
use millpond_fuse::{ExitReport, MountServer, ServerProcess};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

fn start(arguments: &[&str]) -> Option<TestMount> {
    TestMount::start(&folders()[0], arguments)
}

pub(crate) fn serving(point: &Path) -> ServerProcess {
    match ServerProcess::find(point).unwrap() {
        MountServer::Running(serving) => serving,
        MountServer::Gone => panic!("it lives"),
    }
}

#[test]
fn umount_gets_the_report_of_the_process_and_none_of_one_that_was_killed() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let watched = serving(&mounted.at());
    mounted.end(Signal::TERM);
    assert_eq!(watched.wait().unwrap(), ExitReport::Saved);
    mounted.again();
    let watched = serving(&mounted.at());
    fs::write(mounted.at().join("file"), "text").unwrap();
    mounted.kill();
    assert_eq!(watched.wait().unwrap(), ExitReport::Missing);
    assert!(matches!(
        ServerProcess::find(&mounted.at()).unwrap(),
        MountServer::Gone
    ));
    let (code, said) = millpond(&["umount", &mounted.at().display().to_string()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the rest is lost"), "{said}");
}

#[test]
fn failures_after_umount_has_asked_for_a_sync_are_in_the_report() {
    let Some(small) = crate::mount::errors::Small::new() else {
        return;
    };
    let Some(mut mounted) = TestMount::start(&small.at, &["--memory", "64M"]) else {
        return;
    };
    let watched = serving(&mounted.at());
    assert!(watched.sync().unwrap());
    let mut file = File::create_new(mounted.at().join("file")).unwrap();
    // More than there is room for.
    let _ = file.write_all(&vec![7; 12 << 20]);
    drop(file);
    // It may be lost.
    watched.give_up();
    let ended = thread::spawn(move || watched.wait().unwrap());
    mounted.end(Signal::TERM);
    let report = ended.join().unwrap();
    let ExitReport::Lost(lost) = &report else {
        panic!("{report:?}");
    };
    assert!(lost.iter().any(|line| line.contains("No space left")), "{lost:?}");
}

/// The process of the lower mount is killed: what the upper one answers was taken for the kernel's word that its own is gone.
#[test]
fn a_process_whose_source_does_not_answer_is_not_taken_for_dead() {
    let Some((mut low, mut high)) = on_each_other(&[], &["--memory=16M", "--attribute-timeout=0"]) else {
        return;
    };
    fs::write(high.at().join("file"), vec![7; 1 << 20]).unwrap();
    low.kill();
    let at = high.at().display().to_string();
    let (code, said) = millpond(&["umount", &at]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it stays mounted"), "{said}");
    // Nor is it cleared away by who mounts there.
    let another = tempfile::tempdir_in(&folders()[0]).unwrap();
    let (code, said) = millpond(&["mount", another.path().to_str().unwrap(), &at]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a millpond mount is already there"), "{said}");
    let (code, said) = millpond(&["umount", "--force", &at]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("what could not be written is lost"), "{said}");
    assert_eq!(high.wait().code(), Some(1));
}

#[test]
fn a_mount_is_unmounted_by_whatever_path_it_is_named() {
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let folder = mounted.folder.path().to_owned();
    std::os::unix::fs::symlink("mnt", folder.join("link")).unwrap();
    let umount = |path: &str, expected| {
        let (code, said) = super::umount(&folder.join(path));
        assert_eq!(code, Some(expected), "{path}: {said}");
        assert!(said.contains("is unmounted"), "{path}: {said}");
    };
    for path in ["link", "src/../mnt", "link/"] {
        umount(path, 0);
        mounted.wait();
        mounted.again();
    }
    mounted.kill();
    umount("link", 1);
}

/// It waited for the end of a process that goes on.
#[test]
fn unmounting_one_of_two_places_reports_the_other() {
    if !rustix::process::geteuid().is_root() {
        return skip("a bind mount needs root");
    }
    let Some(mut mounted) = start(&["--memory", "16M"]) else {
        return;
    };
    let bound = mounted.folder.path().join("bound");
    fs::create_dir(&bound).unwrap();
    rustix::mount::mount_bind(mounted.at(), &bound).unwrap();
    fs::write(bound.join("file"), "text").unwrap();
    let (code, said) = super::umount(&bound);
    assert_eq!(code, Some(0), "{said}");
    let still = format!("still at {}", mounted.at().display());
    assert!(said.contains(&still), "{said}");
    assert_eq!(fs::read(mounted.source().join("file")).unwrap(), b"text");
    let (code, said) = super::umount(&mounted.at());
    assert!(
        code == Some(0) && said.contains("everything is on the disk"),
        "{said}"
    );
    mounted.wait();
}

/// An ext4 on a loop device, mounted until it is dropped.
struct Ext4 {
    folder: tempfile::TempDir,
}

impl Ext4 {
    /// `None`, and says why, where there can be none.
    fn new() -> Option<Ext4> {
        let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
        let image = folder.path().join("image");
        fs::create_dir(folder.path().join("below")).unwrap();
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let disk = Ext4 { folder };
        if run(Command::new("mkfs.ext4").arg("-q").arg(&image)) && disk.mount() {
            return Some(disk);
        }
        skip("no ext4 on a loop device: root, mkfs.ext4 and loop devices are needed");
        None
    }

    fn at(&self) -> PathBuf {
        self.folder.path().join("below")
    }

    fn mount(&self) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,errors=remount-ro"]);
        run(mount.arg(self.folder.path().join("image")).arg(self.at()))
    }

    /// Has it find an error, whereupon it goes read-only.
    fn fail(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts
            .lines()
            .find(|line| line.split(' ').nth(1) == self.at().to_str());
        let device = line.and_then(|line| line.split(' ').next()?.rsplit('/').next());
        device.is_some_and(|device| fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").is_ok())
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.at(), rustix::mount::UnmountFlags::DETACH);
    }
}

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// What the file system below says (`EROFS`) was taken for the answer of a mount for reading only, which has nothing to
/// write.
#[test]
fn a_file_system_below_that_has_gone_read_only_is_no_success() {
    for arguments in [&["--memory", "16M"][..], &["--no-cache"]] {
        let Some(disk) = Ext4::new() else { return };
        let Some(mut mounted) = TestMount::start(&disk.at(), arguments) else {
            return;
        };
        fs::write(mounted.at().join("file"), "not synced").unwrap();
        if !disk.fail() {
            return skip("this kernel breaks no ext4 on demand");
        }
        let place = mounted.at().display().to_string();
        let (code, said) = millpond(&["umount", &place]);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("it stays mounted"), "{arguments:?}: {said}");
        let (code, said) = millpond(&["umount", "--force", &place]);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(
            !said.contains(", everything is on the disk"),
            "{arguments:?}: {said}"
        );
        assert_eq!(mounted.wait().code(), Some(1));
    }
}
