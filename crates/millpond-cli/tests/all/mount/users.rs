//! A mount by a user other than root, with the helper fusermount3.

use super::{PROGRAM, TestMount, folders, skip};
use rustix::process::{Gid, Uid};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

/// The user nobody: fusermount3 needs users with a name.
pub(crate) const USER: u32 = 65_534;

/// As that user, with this many descriptors.
pub(crate) fn start(descriptors: &str) -> Option<TestMount> {
    let can_open = File::options().write(true).open("/dev/fuse").is_ok()
        && fs::metadata("/dev/fuse").is_ok_and(|device| device.mode() & 0o6 == 0o6);
    if !rustix::process::geteuid().is_root() || !can_open {
        skip("a mount by another user needs root for the test, and /dev/fuse for everybody");
        return None;
    }
    let limit = format!("--nofile={descriptors}:{descriptors}");
    let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
    let runner = ["prlimit", &limit, "setpriv", &user[0], &user[1], "--clear-groups"];
    let runs = Command::new(runner[0])
        .args(&runner[1..])
        .arg(PROGRAM)
        .arg("--version")
        .output();
    if !runs.is_ok_and(|output| output.status.success()) {
        skip("the other user can't run the program, or there is no prlimit or setpriv");
        return None;
    }
    // The checkout may lie below a folder that only its owner may search.
    let mut folders = folders().into_iter().chain(["/var/tmp".into()]);
    let Some(folder) = folders.find(|folder| as_user(|| fs::read_dir(folder).is_ok())) else {
        skip("the other user can reach neither the checkout nor /var/tmp");
        return None;
    };
    TestMount::start_by(&runner, Some(USER), &folder, &["--memory", "16M"])
}

/// Does something as that user and nobody else: whoever is more does not get in.
pub(crate) fn as_user<T: Send>(does: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (user, group) = (Uid::from_raw(USER), Gid::from_raw(USER));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            does()
        });
        thread.join().unwrap()
    })
}

fn new_for_reading_only(path: &Path) -> File {
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(path)
        .unwrap()
}

#[test]
fn a_user_other_than_root_mounts_for_itself_and_no_other_gets_in() {
    let Some(mounted) = start("2000") else { return };
    let (at, source) = (mounted.at(), mounted.source());
    as_user(|| {
        let mut file = new_for_reading_only(&at.join("file"));
        file.write_all(b"text").unwrap();
        file.sync_all().unwrap();
        assert!(File::options().write(true).open(at.join("file")).is_err());
        assert_eq!(fs::read(at.join("file")).unwrap(), b"text");
    });
    let metadata = fs::metadata(source.join("file")).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (USER, 0o444));
    // Not even root.
    assert!(fs::read(at.join("file")).is_err());
    // A user who may not write to it may end it.
    let closed = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o555);
    fs::set_permissions(&source, closed).unwrap();
    let mut umount = Command::new("setpriv");
    umount.args([
        format!("--reuid={USER}"),
        format!("--regid={USER}"),
        "--clear-groups".into(),
    ]);
    let (code, said) = super::umount_by(umount.arg(PROGRAM).arg("umount").arg(&at));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read(source.join("file")).unwrap(), b"text");
}

/// It started itself by its path, which such a user can't resolve, and the mount stayed.
#[test]
fn a_user_who_may_not_search_the_folder_of_the_program_unmounts() {
    let Some(mounted) = start("2000") else { return };
    // Its owner's alone. The first program in it runs: setpriv has not given up root's rights when it looks it up.
    let private = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let owners = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    fs::set_permissions(&private, owners).unwrap();
    let program = private.path().join("millpond");
    fs::hard_link(PROGRAM, &program).unwrap();
    let mut umount = Command::new("setpriv");
    umount.args([
        format!("--reuid={USER}"),
        format!("--regid={USER}"),
        "--clear-groups".into(),
    ]);
    let (code, said) = super::umount_by(umount.arg(program).arg("umount").arg(mounted.at()));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_tree_with_more_files_than_descriptors_is_walked() {
    const FILES: usize = 3000;
    let Some(mounted) = start("400") else { return };
    let source = mounted.source();
    for n in 0..FILES {
        let folder = source.join(format!("{}", n / 100));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file-{n}")), n.to_string()).unwrap();
    }
    as_user(|| {
        for _ in 0..2 {
            for n in 0..FILES {
                let path = mounted.at().join(format!("{}/file-{n}", n / 100));
                assert_eq!(fs::read(path).unwrap(), n.to_string().as_bytes());
            }
        }
    });
}

/// Bytes that the mount has had from the disk.
fn bytes_read(mounted: &TestMount) -> u64 {
    let about = fs::read_to_string(format!("/proc/{}/io", mounted.pid().as_raw_pid())).unwrap();
    let line = about.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_tree_of_more_files_than_descriptors_is_read_from_the_disk_once() {
    const FILES: usize = 800;
    // Root may have more, unless that is taken from it.
    let runner = [
        "prlimit",
        "--nofile=400:400",
        "setpriv",
        "--bounding-set=-sys_resource",
    ];
    let runs = Command::new(runner[0]).args(&runner[1..]).arg("true").status();
    if !runs.is_ok_and(|status| status.success()) {
        return skip("prlimit and setpriv take the right to more descriptors from root only");
    }
    // With 13 MiB or more as many closed files keep their pages.
    let Some(mounted) = TestMount::start_by(&runner, None, &folders()[0], &["--memory", "24M"]) else {
        return;
    };
    for n in 0..FILES {
        fs::write(mounted.source().join(format!("file-{n}")), n.to_string()).unwrap();
    }
    let read = || {
        for n in 0..FILES {
            let text = fs::read(mounted.at().join(format!("file-{n}"))).unwrap();
            assert_eq!(text, n.to_string().as_bytes());
        }
        bytes_read(&mounted)
    };
    let (before, once) = (bytes_read(&mounted), read());
    let again = read();
    // The last ones may be closed by another thread, a moment after they were closed for the reader.
    assert!(again - once <= (once - before) / 50, "{before}, {once}, {again}");
}

#[test]
fn more_files_than_descriptors_are_made_and_renamed() {
    const FILES: usize = 3000;
    let Some(mounted) = start("400") else { return };
    let path = |name: &str, n: usize| mounted.at().join(format!("{}/{name}-{n}", n / 100));
    as_user(|| {
        for n in 0..FILES {
            if n % 100 == 0 {
                fs::create_dir(mounted.at().join(format!("{}", n / 100))).unwrap();
            }
            fs::write(path("file", n), n.to_string()).unwrap();
        }
        // In pieces that alone are too many.
        for from in (0..FILES).step_by(1000) {
            for n in from..from + 1000 {
                fs::rename(path("file", n), path("renamed", n)).unwrap();
            }
        }
        for n in 0..FILES {
            assert_eq!(fs::read(path("renamed", n)).unwrap(), n.to_string().as_bytes());
        }
    });
}

#[test]
fn a_file_that_appears_while_another_is_made_is_opened_only_by_who_may() {
    const ROUNDS: usize = 3000;
    let arguments = ["--memory", "16M", "--allow-other", "--attribute-timeout", "0"];
    let Some(mounted) = TestMount::start(&folders()[0], &arguments) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        return skip("two users need root");
    }
    let (at, below) = (mounted.at().join("file"), mounted.source().join("file"));
    let open_to_all = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    fs::set_permissions(mounted.source(), open_to_all).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (is_over, at, below) = (&is_over, &at, &below);
    std::thread::scope(|scope| {
        // Root's, and of no use for anybody else, behind the mount's back.
        scope.spawn(move || {
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                let secret = File::options()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(below);
                let _ = secret.and_then(|mut file| file.write_all(b"secret"));
                let _ = fs::remove_file(below);
            }
        });
        as_user(|| {
            let mut owners = [0, 0];
            for _ in 0..ROUNDS {
                let file = File::options().write(true).create(true).truncate(true).open(at);
                if let Ok(file) = file {
                    owners[usize::from(file.metadata().unwrap().uid() == USER)] += 1;
                    let _ = fs::remove_file(at);
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
            println!("{} files were made in {ROUNDS} rounds", owners[1]);
            assert_eq!(owners[0], 0, "root's files were opened");
        });
    });
}
