//! A mount that is written: what POSIX has, and what a commit has of it.

use super::*;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::time::UNIX_EPOCH;

/// A folder with a store, and a place for its mount.
struct Place {
    _temp: tempfile::TempDir,
    url: String,
    point: PathBuf,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().to_owned();
        Place {
            url: format!("file://{}/store", path.display()),
            point: path.join("mnt"),
            _temp: temp,
            path,
        }
    }

    fn mount(&self, more: &[&str]) -> Mounted {
        Mounted::new(&self.url, &self.point, more)
    }

    fn commit(&self) -> u64 {
        let stat = store(&["stat", &self.url, "--json"]);
        let commit = stat.split("\"commit\":").nth(1).unwrap();
        commit.split([',', '}']).next().unwrap().parse().unwrap()
    }
}

#[test]
fn what_is_made_in_a_mount_is_there_in_the_next_one() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let at = |name: &str| place.point.join(name);
    let mounted = place.mount(&[]);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/large"), bytes(5_000_001)).unwrap();
    fs::write(at("a/small"), "pond").unwrap();
    fs::hard_link(at("a/small"), at("link")).unwrap();
    symlink("a/small", at("symbolic")).unwrap();
    fs::set_permissions(at("a/small"), PermissionsExt::from_mode(0o4751)).unwrap();
    std::os::unix::fs::chown(at("a"), Some(12), Some(34)).unwrap();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    let times = fs::FileTimes::new().set_modified(old).set_accessed(old);
    File::open(at("a/b/large")).unwrap().set_times(times).unwrap();
    rustix::fs::setxattr(at("link"), "user.pond", b"deep", rustix::fs::XattrFlags::CREATE).unwrap();
    run("mkfifo", &[at("fifo").to_str().unwrap()]);
    // Holes: three bytes at the end of a gigabyte.
    let sparse = File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"end", 1 << 30).unwrap();
    drop(sparse);
    // Renamed over what is there, and exchanged.
    fs::write(at("new"), "newer").unwrap();
    fs::write(at("old"), "older").unwrap();
    fs::rename(at("new"), at("old")).unwrap();
    let (one, other) = (at("old"), at("a/small"));
    let cwd = rustix::fs::CWD;
    rustix::fs::renameat_with(cwd, &one, cwd, &other, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    fs::rename(at("a/b"), at("b")).unwrap();
    // Removed while it is open.
    let mut removed = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(at("removed"))
        .unwrap();
    removed.write_all(b"still ").unwrap();
    fs::remove_file(at("removed")).unwrap();
    removed.write_all(b"here").unwrap();
    removed.sync_all().unwrap();
    let mut text = [0; 10];
    removed.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"still here");
    assert_eq!(removed.metadata().unwrap().nlink(), 0);
    drop(removed);
    // What can't be is refused as elsewhere.
    for (error, expected) in [
        (fs::remove_dir(at("a")).unwrap_err(), rustix::io::Errno::NOTEMPTY),
        (fs::create_dir(at("a")).unwrap_err(), rustix::io::Errno::EXIST),
        (
            fs::rename(at("a"), at("a/c")).unwrap_err(),
            rustix::io::Errno::INVAL,
        ),
        (
            fs::rename(at("a"), at("link")).unwrap_err(),
            rustix::io::Errno::NOTDIR,
        ),
        (fs::remove_file(at("none")).unwrap_err(), rustix::io::Errno::NOENT),
        (
            fs::remove_file(at(&"x".repeat(256))).unwrap_err(),
            rustix::io::Errno::NAMETOOLONG,
        ),
        (
            fs::write(at(&"x".repeat(256)), "").unwrap_err(),
            rustix::io::Errno::NAMETOOLONG,
        ),
    ] {
        assert_eq!(
            error.raw_os_error(),
            Some(expected.raw_os_error()),
            "{expected:?}"
        );
    }
    let free = rustix::fs::statvfs(&place.point).unwrap();
    assert!(free.f_bavail > 1 << 20 && free.f_files > 1 << 20);

    let check = |is_live: bool| {
        assert_eq!(fs::read(at("b/large")).unwrap(), bytes(5_000_001));
        assert_eq!(fs::metadata(at("b/large")).unwrap().modified().unwrap(), old);
        assert_eq!(fs::read_to_string(at("a/small")).unwrap(), "newer");
        // The file that was exchanged has two names.
        let (kept, link) = (
            fs::metadata(at("old")).unwrap(),
            fs::metadata(at("link")).unwrap(),
        );
        assert_eq!((kept.nlink(), kept.ino()), (2, link.ino()));
        assert_eq!(
            (
                kept.mode() & 0o7777,
                fs::read_to_string(at("link")).unwrap().as_str()
            ),
            (0o4751, "pond")
        );
        assert_eq!(fs::read_link(at("symbolic")).unwrap(), Path::new("a/small"));
        let a = fs::metadata(at("a")).unwrap();
        assert_eq!((a.uid(), a.gid(), a.nlink()), (12, 34, 2));
        let mut value = [0; 9];
        let len = rustix::fs::getxattr(at("old"), "user.pond", &mut value).unwrap();
        assert_eq!(&value[..len], b"deep");
        use std::os::unix::fs::FileTypeExt;
        assert!(fs::symlink_metadata(at("fifo")).unwrap().file_type().is_fifo());
        let sparse = File::open(at("sparse")).unwrap();
        assert_eq!(sparse.metadata().unwrap().len(), (1 << 30) + 3);
        let mut end = [1; 5];
        sparse.read_exact_at(&mut end, (1 << 30) - 2).unwrap();
        assert_eq!(&end, b"\0\0end");
        let mut names: Vec<_> = fs::read_dir(&place.point)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            ["a", "b", "fifo", "link", "old", "sparse", "symbolic"],
            "{is_live}"
        );
    };
    check(true);
    let said = mounted.end();
    assert!(said.contains("everything is in the store"), "{said}");
    let mounted = place.mount(&[]);
    check(false);
    mounted.end();
    let mounted = place.mount(&["--read-only"]);
    check(false);
    mounted.end();
    // Of a hole nothing is stored, and of what was removed nothing is left.
    let usage = store(&["usage", &place.url, "--json"]);
    let live = usage.split("\"live\":{\"bytes\":").nth(1).unwrap();
    let live: u64 = live.split([',', '}']).next().unwrap().parse().unwrap();
    assert!(live < 6_000_000, "{usage}");
    // Its files by their paths.
    let listed = store(&["ls", "--long", &place.url]);
    assert!(
        listed.contains("   5000001  b/large\n") && listed.contains("4  link\n"),
        "{listed}"
    );
    assert_eq!(store(&["cat", &format!("{}//a/small", place.url)]), "newer");
    store(&["verify", &place.url]);
}

#[test]
fn a_store_of_files_is_mounted_as_their_paths_and_takes_more_of_them() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let file = place.path.join("file");
    fs::write(&file, "pond").unwrap();
    let file = file.to_str().unwrap();
    for name in ["a/b/c", "a/d", "e", "a/d/f"] {
        store(&["cp", file, &format!("{}//{name}", place.url)]);
    }
    let mounted = place.mount(&[]);
    let read = |name: &str| fs::read_to_string(place.point.join(name)).unwrap();
    assert_eq!(
        (read("a/b/c"), read("e"), read("a/d/f")),
        ("pond".into(), "pond".into(), "pond".into())
    );
    fs::write(place.point.join("a/b/c"), "changed").unwrap();
    fs::rename(place.point.join("a/b"), place.point.join("b")).unwrap();
    let end = mounted.end();
    assert!(
        end.contains("1 files are not shown") && end.contains("a/d"),
        "{end}"
    );
    let mounted = place.mount(&[]);
    assert_eq!((read("b/c"), read("e")), ("changed".into(), "pond".into()));
    mounted.end();
    // What has no path is listed, read and removed by its name.
    let beside = format!("{}//a/d", place.url);
    let listed = || {
        store(&["ls", &place.url])
            .lines()
            .any(|line| line.ends_with("a/d"))
    };
    assert!(listed());
    assert_eq!(store(&["cat", &beside]), "pond");
    store(&["rm", &beside]);
    assert!(!listed());
    // Its files are changed in a mount from then on.
    for args in [
        ["cp", file, &format!("{}//e", place.url)].to_vec(),
        ["rm", &format!("{}//e", place.url)].to_vec(),
    ] {
        let output = program().args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(
            said(&output).contains("millpond store mount"),
            "{}",
            said(&output)
        );
    }
    assert_eq!(store(&["cat", &format!("{}//b/c", place.url)]), "changed");
}

#[test]
fn a_sync_is_a_commit_and_a_close_is_none() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mounted = place.mount(&["--expire", "1h"]);
    let before = place.commit();
    fs::write(place.point.join("a"), "1").unwrap();
    fs::rename(place.point.join("a"), place.point.join("b")).unwrap();
    assert_eq!(place.commit(), before);
    let file = File::open(place.point.join("b")).unwrap();
    file.sync_all().unwrap();
    assert_eq!(place.commit(), before + 1);
    // Nothing has changed since.
    file.sync_all().unwrap();
    assert_eq!(place.commit(), before + 1);
    File::open(&place.point).unwrap().sync_all().unwrap();
    assert_eq!(place.commit(), before + 1);
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DSYNC.bits() as i32;
    let mut synced = OpenOptions::new()
        .write(true)
        .custom_flags(flags)
        .open(place.point.join("b"))
        .unwrap();
    synced.write_all(b"2").unwrap();
    assert_eq!(place.commit(), before + 2);
    synced.write_all(b"3").unwrap();
    assert_eq!(place.commit(), before + 3);
    drop((synced, file));
    mounted.kill();
    // One that was killed has the store until it is taken over.
    let mut held = program();
    let output = held
        .arg("mount")
        .arg(&place.url)
        .arg(&place.point)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("take-over"), "{}", said(&output));
    let mounted = place.mount(&["--take-over"]);
    assert_eq!(fs::read_to_string(place.point.join("b")).unwrap(), "23");
    mounted.end();
    // What no sync has asked for is committed all the same, in a while.
    let mounted = place.mount(&["--expire", "10ms"]);
    fs::write(place.point.join("late"), "1").unwrap();
    until("it is committed", || store(&["ls", &place.url]).contains("late"));
    mounted.end();
}

/// Processes that the system has stopped, so that a signal ends them when they go on.
struct Frozen(PathBuf);

impl Frozen {
    fn new(process: u32) -> std::io::Result<Frozen> {
        let group = PathBuf::from(format!("/sys/fs/cgroup/freezer/millpond-test-{process}"));
        fs::create_dir(&group)?;
        let frozen = Frozen(group);
        fs::write(frozen.0.join("cgroup.procs"), process.to_string())?;
        fs::write(frozen.0.join("freezer.state"), "FROZEN")?;
        until("it is frozen", || {
            let state = fs::read_to_string(frozen.0.join("freezer.state"));
            state.is_ok_and(|state| state.trim() == "FROZEN")
        });
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        until("its processes end", || fs::remove_dir(&self.0).is_ok());
    }
}

/// It has the connection to the kernel until its memory is given back. A mount at that place was refused meanwhile.
#[test]
fn a_killed_mount_that_has_not_ended_yet_is_waited_for() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut killed = place.mount(&[]);
    fs::write(place.point.join("a"), "1").unwrap();
    File::open(place.point.join("a")).unwrap().sync_all().unwrap();
    let frozen = match Frozen::new(killed.process.id()) {
        Ok(frozen) => frozen,
        Err(why) => {
            println!("skipped: a mount that is killed and has not ended: no freezer of version 1: {why}");
            return;
        }
    };
    killed.process.kill().unwrap();
    let mut next = Mounted::start(&place.url, &place.point, &["--take-over"]);
    // Long enough to refuse, not so long that it gives up.
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until && next.process.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(frozen);
    killed.process.wait().unwrap();
    next.wait();
    assert_eq!(fs::read_to_string(place.point.join("a")).unwrap(), "1");
    next.end();
}

#[test]
fn a_mount_that_was_taken_over_changes_nothing_and_says_so() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let mut old = place.mount(&["--expire", "1h"]);
    fs::write(place.point.join("a"), "committed").unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.point.join("a"))
        .unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"not com", 0).unwrap();
    let other = place.path.join("other");
    let new = Mounted::new(&place.url, &other, &["--take-over"]);
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "committed");
    let stale = |result: std::io::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::STALE.raw_os_error()),
            "{error}"
        );
    };
    stale(file.sync_all());
    stale(fs::create_dir(place.point.join("d")));
    stale(fs::rename(place.point.join("a"), place.point.join("b")));
    stale(file.write_all_at(b"x", 0));
    stale(fs::remove_file(place.point.join("a")));
    stale(File::open(&place.point).unwrap().sync_all());
    fs::write(other.join("a"), "the new one's").unwrap();
    drop(file);
    let (status, said) = old.ended();
    assert!(said.contains("nothing can be changed here any more"), "{said}");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("not in the store") && said.contains("has taken the store over"),
        "{said}"
    );
    new.end();
    let mounted = place.mount(&["--read-only"]);
    assert_eq!(
        fs::read_to_string(place.point.join("a")).unwrap(),
        "the new one's"
    );
    mounted.end();
}

#[test]
fn a_store_whose_file_system_is_full_says_so_at_once_and_is_written_when_there_is_room() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (full, at) = (place.path.join("full"), |name: &str| place.point.join(name));
    fs::create_dir_all(&full).unwrap();
    let tmpfs = ["-t", "tmpfs", "-o", "size=24M", "tmpfs", full.to_str().unwrap()];
    if !Command::new("mount").args(tmpfs).status().unwrap().success() {
        println!("skipped: a store that is full: no tmpfs can be mounted");
        return;
    }
    let url = format!("file://{}/store", full.display());
    let mounted = Mounted::new(&url, &place.point, &["--memory", "64M"]);
    fs::write(at("small"), "pond").unwrap();
    let df = rustix::fs::statvfs(&place.point).unwrap();
    assert!(df.f_bavail * df.f_frsize <= 24 << 20);
    let mut file = File::create(at("large")).unwrap();
    let mut write = || (0..400).try_for_each(|_| file.write_all(&bytes(256 << 10)));
    let error = write().and_then(|()| file.sync_data()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    let kind = file.sync_data().unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::StorageFull);
    drop(file);
    fs::remove_file(at("large")).unwrap();
    until("a sync", || File::open(at("small")).unwrap().sync_all().is_ok());
    mounted.end();
    let mounted = Mounted::new(&url, &place.point, &["--memory", "64M"]);
    assert_eq!(fs::read(at("small")).unwrap(), b"pond");
    mounted.end();
    run("umount", &[full.to_str().unwrap()]);
}
