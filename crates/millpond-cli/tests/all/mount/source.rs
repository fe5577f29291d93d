//! One mount at a time changes the files of a directory.

use super::{TestMount, folders, millpond, skip};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory by another path, until it is dropped.
struct Bound(PathBuf);

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A second mount, which must fail.
fn refused(source: &Path, at: &Path, words: &[&str]) {
    let path = |path: &Path| path.display().to_string();
    let (code, said) = millpond(&["mount", &path(source), &path(at), "--memory", "16M", "--daemon"]);
    if code == Some(0) {
        super::umount(at);
    }
    assert_eq!(code, Some(2), "{said}");
    for word in words {
        assert!(said.contains(word), "{word} is not in\n{said}");
    }
}

#[test]
fn a_source_is_changed_by_one_mount_at_a_time_however_it_is_reached() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "16M"]) else {
        return;
    };
    let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
    let place = |name: &str| folder.path().join(name);
    for name in ["mnt", "bound", "bound/not/yet"] {
        fs::create_dir_all(place(name)).unwrap();
    }
    fs::create_dir_all(mounted.source().join("in/side")).unwrap();
    let at = mounted.at().display().to_string();
    refused(
        &mounted.source(),
        &place("mnt"),
        &["is already there", &at, "--read-only"],
    );
    std::os::unix::fs::symlink(mounted.source(), place("link")).unwrap();
    refused(&place("link"), &place("mnt"), &[&at]);
    refused(
        &mounted.source().join("in/side"),
        &place("mnt"),
        &["contains this", &at],
    );
    refused(mounted.folder.path(), &place("mnt"), &["lies within this", &at]);
    if rustix::process::geteuid().is_root() {
        let bind = |from: &Path| {
            rustix::mount::mount_bind(from, place("bound")).unwrap();
            Bound(place("bound"))
        };
        let bound = bind(&mounted.source());
        refused(&place("bound"), &place("mnt"), &[&at]);
        refused(&place("bound/in"), &place("mnt"), &["contains this", &at]);
        drop(bound);
        let _bound = bind(&mounted.source().join("in"));
        refused(&place("bound"), &place("mnt"), &["contains this", &at]);
    }
    // A reader changes nothing.
    let (source, mnt) = (
        mounted.source().display().to_string(),
        place("mnt").display().to_string(),
    );
    let mount = |more: &[&str]| {
        let (code, said) = millpond(&[&["mount", &source, &mnt, "--daemon"], more].concat());
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = super::umount(mnt.as_ref());
        assert_eq!(code, Some(0), "{said}");
    };
    mount(&["--memory", "16M", "--read-only"]);
    mount(&["--no-cache"]);
    // A killed one is none.
    mounted.kill();
    mount(&["--memory", "16M"]);
    // One in the background is one.
    mounted.again();
    mounted.end(Signal::TERM);
    let (code, said) = millpond(&["mount", &source, &at, "--memory", "16M", "--daemon"]);
    assert_eq!(code, Some(0), "{said}");
    refused(&mounted.source(), &place("mnt"), &[&at]);
    let (code, said) = super::umount(at.as_ref());
    assert_eq!(code, Some(0), "{said}");
    refused_by_another_program(&mounted.source(), &place("mnt"));
}

/// Each has looked for the other's before it was there.
#[test]
fn of_two_nested_sources_that_are_mounted_at_once_no_more_than_one_is() {
    for _ in 0..4 {
        let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
        let place = |name: &str| folder.path().join(name);
        for name in ["outer/inner", "mnt/0", "mnt/1"] {
            fs::create_dir_all(place(name)).unwrap();
        }
        let points = [place("mnt/0"), place("mnt/1")];
        let mount = |source: &str, at: &Path| {
            let mut mount = Command::new(crate::mount::PROGRAM);
            mount.args(["mount", "--daemon", "--memory", "16M"]);
            mount
                .args([place(source), at.to_owned()])
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let both = [mount("outer", &points[0]), mount("outer/inner", &points[1])];
        let ended = both.map(|program| program.wait_with_output().unwrap());
        for point in &points {
            super::umount(point);
        }
        let said = ended
            .iter()
            .map(|ended| String::from_utf8_lossy(&ended.stderr))
            .collect::<String>();
        if ended.iter().any(|ended| ended.status.code() == Some(3)) {
            return skip(&said);
        }
        let mounted = ended.iter().filter(|ended| ended.status.success()).count();
        assert!(mounted < 2, "{said}");
    }
}

#[test]
fn a_mount_without_a_name_that_is_still_used_keeps_what_is_in_its_source() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "16M"]) else {
        return;
    };
    fs::create_dir(mounted.source().join("in")).unwrap();
    let used = File::create(mounted.at().join("file")).unwrap();
    let (code, said) = millpond(&["umount", "--lazy", &mounted.at().display().to_string()]);
    assert_eq!(code, Some(0), "{said}");
    let process = format!("process {} is a mount of", mounted.pid().as_raw_nonzero());
    refused(
        &mounted.source().join("in"),
        &mounted.at(),
        &[&process, "wait for its end"],
    );
    drop(used);
    mounted.wait();
}

/// Somebody holds the lock who has nothing to do with a mount: who is waited for, and then named.
fn refused_by_another_program(source: &Path, at: &Path) {
    let directory = File::open(source).unwrap();
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let us = format!("process {} has it locked", std::process::id());
    refused(source, at, &[&us, "wait for its end"]);
}

#[test]
fn a_mount_for_reading_only_that_root_mounts_anew_for_writing_opens_nothing_for_that() {
    let Some(mounted) = TestMount::start(&folders()[0], &["--memory", "16M", "--read-only"]) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        return skip("mounting anew needs root");
    }
    fs::write(mounted.source().join("file"), "text").unwrap();
    rustix::mount::mount_remount(mounted.at(), MountFlags::empty(), c"").unwrap();
    for error in [
        File::create(mounted.at().join("new")).unwrap_err(),
        File::options()
            .write(true)
            .open(mounted.at().join("file"))
            .unwrap_err(),
    ] {
        assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    }
    assert_eq!(fs::read(mounted.at().join("file")).unwrap(), b"text");
}

#[test]
fn a_source_that_whoever_mounts_may_not_read_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip("another user needs root");
    }
    let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
    let open = |mode| PermissionsExt::from_mode(mode);
    let place = |name: &str| folder.path().join(name);
    for name in ["src", "mnt"] {
        fs::create_dir(place(name)).unwrap();
    }
    // What may be read, searched, and reached.
    for (source, above) in [(0o711, 0o755), (0o744, 0o755), (0o755, 0o700)] {
        fs::set_permissions(place("src"), open(source)).unwrap();
        fs::set_permissions(folder.path(), open(above)).unwrap();
        let mut mount = Command::new("setpriv");
        mount.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            crate::mount::PROGRAM,
            "mount",
        ]);
        let Ok(output) = mount.args([place("src"), place("mnt")]).output() else {
            return skip("no setpriv");
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("failed to execute") {
            return skip("another user can't come to this folder");
        }
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("must be allowed to read and search it"), "{said}");
    }
}
