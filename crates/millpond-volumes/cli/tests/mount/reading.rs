//! A mount that is only read.

use super::*;
use millpond_volumes::{Store, StoreOptions};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};

/// The store that a process of this test writes.
const ROLE: &str = "MILLPOND_TEST_WRITES";

/// A file as of a generation: its number over and over, and as long as that says.
fn of_generation(generation: u64) -> Vec<u8> {
    let words = 20_000 + (generation % 7) * 3_000;
    generation.to_le_bytes().repeat(words as usize)
}

/// The generation of a file that is whole.
fn generation(bytes: &[u8]) -> u64 {
    let generation = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(
        bytes == of_generation(generation),
        "a mixture: it begins with generation {generation}"
    );
    generation
}

/// The process that writes: each commit has one generation in `a`, in `dir/b`, and in the name of a third file.
#[test]
fn a_writer_of_generations() {
    let Ok(url) = std::env::var(ROLE) else { return };
    let options = StoreOptions::new()
        .page_bytes(4096)
        .grace(Duration::from_secs(600));
    let store = Store::open(&url, options).unwrap();
    let files = ["a", "dir/b"].map(|name| store.create(name).unwrap());
    store.create("dir/turn-0").unwrap();
    // Not for long, once nobody ends it.
    let parent = rustix::process::getppid();
    for generation in 1..100_000 {
        if rustix::process::getppid() != parent {
            return;
        }
        let bytes = of_generation(generation);
        for file in &files {
            file.set_len(bytes.len() as u64).unwrap();
            file.write_at(&bytes, 0).unwrap();
        }
        let (from, to) = (generation - 1, generation);
        store
            .rename(&format!("dir/turn-{from}"), &format!("dir/turn-{to}"))
            .unwrap();
        store.sync().unwrap();
    }
}

/// A process that is ended, whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The generation in the one name of `dir` that has one.
fn turn(dir: &Path) -> u64 {
    let names = fs::read_dir(dir).unwrap();
    let names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let turns: Vec<u64> = names
        .iter()
        .filter_map(|name| name.strip_prefix("turn-")?.parse().ok())
        .collect();
    assert_eq!(turns.len(), 1, "{names:?}");
    turns[0]
}

#[test]
fn a_reader_sees_each_commit_of_another_process_whole_and_none_mixed() {
    if !can_mount() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let mut writer = Command::new(std::env::current_exe().unwrap());
    writer
        .args(["--exact", "reading::a_writer_of_generations"])
        .env(ROLE, &url);
    let mut writer = Ended(writer.stdout(Stdio::null()).spawn().unwrap());
    let point = temp.path().join("mnt");
    until("the first generation is there", || {
        let stat = program().args(["stat", &format!("{url}//a")]).output().unwrap();
        stat.status.success()
    });
    let mounted = Mounted::new(
        &url,
        &point,
        &["--read-only", "--poll", "10ms", "--memory", "64M"],
    );
    let (a, b, dir) = (point.join("a"), point.join("dir/b"), point.join("dir"));
    until("there are generations", || {
        fs::metadata(&a).is_ok_and(|a| a.len() > 0)
    });

    // One that is open stays as it was.
    let held = File::open(&a).unwrap();
    let read_held = || {
        let mut bytes = vec![0; held.metadata().unwrap().len() as usize];
        held.read_exact_at(&mut bytes, 0).unwrap();
        generation(&bytes)
    };
    let first = read_held();
    let (mut seen, mut last) = (0, 0);
    until("it is at another generation a hundred times", || {
        let in_a = generation(&fs::read(&a).unwrap());
        let in_b = generation(&fs::read(&b).unwrap());
        let in_name = turn(&dir);
        assert!(
            last <= in_a && in_a <= in_b && in_b <= in_name,
            "{last}, {in_a}, {in_b}, {in_name}: it goes back"
        );
        if seen % 10 == 0 {
            assert_eq!(read_held(), first);
        }
        seen += u64::from(in_a > last);
        last = in_a;
        seen >= 100
    });
    assert!(last > first);

    // The lag is bounded, and said.
    let mut age = [0; 32];
    let len = rustix::fs::getxattr(&point, "user.millpond.age_ms", &mut age).unwrap();
    let age: u64 = std::str::from_utf8(&age[..len]).unwrap().parse().unwrap();
    assert!(age < 60_000, "{age} ms");

    // What was committed stays when its writer is killed.
    writer.0.kill().unwrap();
    writer.0.wait().unwrap();
    let newest = || {
        let stat = store(&["stat", &url]);
        let line = stat.lines().find_map(|line| line.strip_prefix("commit "));
        line.unwrap().trim().to_owned()
    };
    until("it is at the newest commit", || {
        let mut commit = [0; 32];
        let len = rustix::fs::getxattr(&point, "user.millpond.commit", &mut commit).unwrap();
        commit[..len] == *newest().as_bytes()
    });
    let is = generation(&fs::read(&a).unwrap());
    assert_eq!((is, is), (generation(&fs::read(&b).unwrap()), turn(&dir)));
    assert_eq!(read_held(), first);
    drop(held);
    mounted.end();
}

#[test]
fn programs_read_a_store_that_is_mounted() {
    if !can_mount() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let from = temp.path().join("from");
    fs::create_dir_all(from.join("dir/deep")).unwrap();
    fs::write(from.join("large"), bytes(9_000_001)).unwrap();
    fs::write(from.join("dir/deep/small"), "pond").unwrap();
    fs::write(from.join("dir/empty"), "").unwrap();
    let file = |name: &str| from.join(name).to_str().unwrap().to_owned();
    store(&["cp", &file("large"), &format!("{url}//")]);
    store(&["cp", &file("dir/empty"), &format!("{url}//dir/")]);
    store(&["cp", &file("dir/deep/small"), &format!("{url}//dir/deep/")]);
    store(&["snapshot", &url, "monday"]);
    // No path, and still a file.
    store(&["cp", &file("dir/deep/small"), &format!("{url}//x/../y")]);

    let point = temp.path().join("mnt");
    let mounted = Mounted::new(&url, &point, &["--read-only", "--poll", "10ms"]);
    let at = point.to_str().unwrap();
    let diff = |from: &Path, to: &Path| {
        let args = ["-r", "-x", "x", from.to_str().unwrap(), to.to_str().unwrap()];
        run("diff", &args);
    };
    diff(&from, &point);
    let found = run("find", &[at, "-type", "f", "-size", "+0", "-printf", "%P %s\n"]);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["dir/deep/small 4", "large 9000001"]);
    let sum = |path: &Path| run("sha256sum", &[path.to_str().unwrap()])[..64].to_owned();
    assert_eq!(sum(&from.join("large")), sum(&point.join("large")));
    assert_eq!(run("cat", &[&format!("{at}/dir/deep/small")]), "pond");
    let copy = temp.path().join("copy");
    run("cp", &["-r", at, copy.to_str().unwrap()]);
    diff(&from, &copy);
    let status = run("stat", &["-f", "-c", "%T", at]);
    assert!(status.starts_with("fuse"), "{status}");

    // Nothing can be changed.
    for result in [
        fs::write(point.join("large"), "x").map(drop),
        fs::write(point.join("new"), "x").map(drop),
        fs::remove_file(point.join("large")),
        fs::create_dir(point.join("d")),
        fs::rename(point.join("large"), point.join("l")),
    ] {
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(
        fs::read(point.join("none")).unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );

    // What others commit is there, and a file that is another has another number.
    let before = fs::metadata(point.join("dir/deep/small")).unwrap().ino();
    store(&["cp", &file("large"), &format!("{url}//dir/deep/small")]);
    store(&["rm", &format!("{url}//large")]);
    until("it follows", || !point.join("large").exists());
    let small = fs::metadata(point.join("dir/deep/small")).unwrap();
    assert_eq!(small.len(), 9_000_001);
    assert_ne!(small.ino(), before);
    let said = mounted.end();
    assert!(
        said.contains("1 files are not shown") && said.contains("x/../y"),
        "{said}"
    );

    // In the background, a snapshot as it was.
    let (log, pid) = (temp.path().join("log"), temp.path().join("pid"));
    let mut command = program();
    command.args([
        "mount",
        &url,
        at,
        "--read-only",
        "--snapshot",
        "monday",
        "--daemon",
    ]);
    command.arg("--log").arg(&log).arg("--pid-file").arg(&pid);
    assert_eq!(done(command).trim_end(), at);
    diff(&from, &point);
    let process = fs::read_to_string(&pid).unwrap();
    run("kill", &[process.trim()]);
    until("it has ended", || {
        fs::read_to_string(&log).unwrap().contains("has ended")
    });
    assert!(!pid.exists() && !point.join("large").exists());
}

#[test]
fn a_mount_with_a_disk_reads_what_an_earlier_one_has_fetched() {
    if !can_mount() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().join("store");
    let url = format!("file://{}", home.display());
    let from = temp.path().join("large");
    let content = bytes(5_000_001);
    fs::write(&from, &content).unwrap();
    store(&["cp", from.to_str().unwrap(), &format!("{url}//")]);
    let point = temp.path().join("mnt");
    let disk = temp.path().join("tier");
    let disk_size = format!("{}:16M", disk.display());
    let args = ["--read-only", "--disk", &disk_size];
    let (chunks, away) = (home.join("c"), home.join("away"));
    // A disk that is busy misses some.
    until("all of it is on the disk", || {
        let mounted = Mounted::new(&url, &point, &args);
        assert_eq!(fs::read(point.join("large")).unwrap(), content);
        mounted.end();
        fs::rename(&chunks, &away).unwrap();
        let mounted = Mounted::new(&url, &point, &args);
        let is_there = fs::read(point.join("large")).is_ok_and(|found| found == content);
        mounted.end();
        fs::rename(&away, &chunks).unwrap();
        is_there
    });
    // And what it can't be is said.
    for (refused, why) in [
        ("16M", "100G"),
        (":16M", "100G"),
        ("/dev/null:16M", "not a regular file"),
        ("t:1M", "too small"),
    ] {
        let mut command = program();
        command.args([
            "mount",
            &url,
            point.to_str().unwrap(),
            "--read-only",
            "--disk",
            refused,
        ]);
        let output = command.current_dir(temp.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{refused}: {}", said(&output));
        assert!(said(&output).contains(why), "{refused}: {}", said(&output));
    }
}

#[test]
fn what_can_not_be_mounted_is_said_with_the_way_out() {
    let temp = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", temp.path().display());
    let point = temp.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let refused = |code: i32, args: &[&str]| {
        let mut command = program();
        let output = command
            .arg("mount")
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    };
    let at = point.to_str().unwrap();
    let said = refused(1, &[&url, at, "--read-only"]);
    assert!(said.contains(&url), "{said}");
    let name = temp.path().join("file");
    File::create(&name).unwrap().write_all(b"pond").unwrap();
    store(&["cp", name.to_str().unwrap(), &format!("{url}//file")]);
    let said = refused(2, &[&url, at, "--snapshot", "x"]);
    assert!(said.contains("--read-only"), "{said}");
    let said = refused(2, &[&format!("{url}//file"), at, "--read-only"]);
    assert!(said.contains("leave //file out"), "{said}");
    let said = refused(1, &[&url, at, "--read-only", "--snapshot", "none"]);
    assert!(said.contains("none"), "{said}");
    let said = refused(2, &[&url, at, "--read-only", "--memory", "1M"]);
    assert!(said.contains("--memory"), "{said}");
    let missing = temp.path().join("missing");
    let said = refused(2, &[&url, missing.to_str().unwrap(), "--read-only"]);
    assert!(said.contains("mkdir"), "{said}");
    let said = refused(2, &[&url, temp.path().to_str().unwrap(), "--read-only"]);
    assert!(said.contains("not empty"), "{said}");
}
