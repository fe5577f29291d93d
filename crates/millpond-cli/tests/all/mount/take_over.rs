//! A mount is taken over by another process under programs that use it, and by one that breaks down at each step.
//!
//! `MILLPOND_TAKE_OVERS=100` takes it over so often under load; 5 times by default. Figures: with `-- --nocapture`.

mod load;

use super::errors::Small;
use super::users::{self, as_user};
use super::{BOUND, PROGRAM, TestMount, folders, lend, mount_program, wait_until};
use load::{BLOCK, Load, Sqlite, block, pattern};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

const TAKE_OVERS: u32 = 5;
const WRITERS: u64 = 4;
const READERS: u64 = 4;

impl TestMount {
    /// Starts a process that is to take the mount over, with these arguments as well.
    fn successor(&self, arguments: &[&str]) -> Child {
        let more = arguments.iter().copied().chain(["--replace"]);
        let more = more.map(str::to_owned);
        let arguments: Vec<_> = self.arguments.iter().cloned().chain(more).collect();
        mount_program(&self.runner, self.folder.path(), &arguments)
    }

    /// Has another process take it over; the one before has ended then. How long that took.
    pub(super) fn take_over(&mut self) -> Duration {
        let began = Instant::now();
        let mut successor = self.successor(&[]);
        let mut line = String::new();
        let mut stdout = BufReader::new(successor.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{}", said(&mut successor));
        let took = began.elapsed();
        let status = self.wait();
        assert!(status.success(), "{}", said(&mut self.program));
        self.program = successor;
        took
    }

    /// Has a process try to take it over that breaks down there; that one has ended then.
    fn fail_to_take_over(&mut self, step: &str) -> String {
        let mut successor = self.successor(&["--breakdown", step]);
        let status = wait_for(&mut successor);
        assert!(!status.success(), "{step}");
        let why = said(&mut successor);
        assert!(self.program.try_wait().unwrap().is_none(), "{step}: {why}");
        why
    }
}

fn wait_for(program: &mut Child) -> std::process::ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = program.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < BOUND, "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

fn said(program: &mut Child) -> String {
    let mut said = String::new();
    let stderr = program.stderr.take();
    stderr.unwrap().read_to_string(&mut said).unwrap();
    said
}

fn start(arguments: &[&str]) -> Option<TestMount> {
    TestMount::start(&folders()[0], &[&["--memory=32M"], arguments].concat())
}

#[test]
fn programs_go_on_with_what_they_have_open_while_another_process_takes_over() {
    let Some(mut mounted) = start(&[]) else {
        return;
    };
    let at = mounted.at();
    // A file that has no name any more, one that is appended to, a directory that is listed, a lock.
    let open = |name: &str| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(at.join(name))
            .unwrap()
    };
    let unlinked = open("unlinked");
    unlinked.write_all_at(&block(7), 0).unwrap();
    fs::remove_file(at.join("unlinked")).unwrap();
    let mut appended = OpenOptions::new()
        .append(true)
        .create(true)
        .open(at.join("log"))
        .unwrap();
    appended.write_all(b"one ").unwrap();
    fs::create_dir(at.join("folder")).unwrap();
    for n in 0..2000 {
        File::create(at.join(format!("folder/{n:060}"))).unwrap();
    }
    let mut listed = fs::read_dir(at.join("folder")).unwrap();
    let some: Vec<_> = listed
        .by_ref()
        .take(100)
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let locked = open("locked");
    locked.lock().unwrap();
    // A time that waits to be set.
    let dated = open("dated");
    dated.write_all_at(b"x", 0).unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    dated.set_modified(then).unwrap();
    let metadata = |name: &str| fs::metadata(at.join(name)).unwrap();
    let before = metadata("log");
    let first = mounted.pid();

    mounted.take_over();

    assert_ne!(mounted.pid(), first);
    let mut bytes = vec![0; BLOCK];
    unlinked.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == block(7));
    unlinked.write_all_at(&block(8), 0).unwrap();
    unlinked.sync_all().unwrap();
    assert_eq!(unlinked.metadata().unwrap().nlink(), 0);
    appended.write_all(b"two").unwrap();
    assert_eq!(fs::read_to_string(at.join("log")).unwrap(), "one two");
    let after = metadata("log");
    assert_eq!((before.ino(), before.dev()), (after.ino(), after.dev()));
    let mut all: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
    all.extend(some);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 2000);
    let other = open("locked");
    assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
    drop(locked);
    other.lock().unwrap();
    assert_eq!(metadata("dated").modified().unwrap(), then);
    dated.write_all_at(b"y", 1).unwrap();
    drop((dated, unlinked, appended, other));
    // The lock of the source is the new process'.
    let (code, why) = super::millpond(&[
        "mount",
        mounted.source().to_str().unwrap(),
        mounted.folder.path().to_str().unwrap(),
        "--nonempty",
    ]);
    assert!(code == Some(2) && why.contains("is already there"), "{why}");
    let (code, why) = super::umount(&at);
    assert_eq!(code, Some(0), "{why}");
    assert!(mounted.wait().success());
    assert_eq!(
        fs::read_to_string(mounted.source().join("log")).unwrap(),
        "one two"
    );
}

/// The stress: everything at once, several times.
#[test]
fn nothing_fails_and_nothing_is_lost_while_processes_take_over_under_load() {
    let Some(mut mounted) = start(&[]) else {
        return;
    };
    let at = mounted.at();
    let times = std::env::var("MILLPOND_TAKE_OVERS").map_or(TAKE_OVERS, |times| times.parse().unwrap());
    pattern(&at.join("pattern"));
    let mut load = Load::new();
    for n in 0..WRITERS {
        load.add_writer(at.join(format!("written-{n}")), n);
    }
    for n in 0..READERS {
        load.add_reader(at.join("pattern"), n);
    }
    load.add_names(at.join("names"));
    let mut sqlite = Sqlite::open(&at.join("base"));
    if let Some(sqlite) = &mut sqlite {
        assert_eq!(
            sqlite.ask("PRAGMA journal_mode=DELETE; CREATE TABLE t (n INTEGER); "),
            "delete"
        );
    } else {
        println!("skipped: sqlite3 can't be run");
    }
    let mut pauses = Vec::new();
    for n in 0..times {
        if let Some(sqlite) = &mut sqlite {
            let counted = sqlite.ask(&format!(
                "BEGIN IMMEDIATE; INSERT INTO t VALUES ({n}); SELECT count(*) FROM t;"
            ));
            assert_eq!(counted, (n + 1).to_string());
        }
        load.longest_us.store(0, Ordering::SeqCst);
        let calls = load.calls.load(Ordering::SeqCst);
        let took = mounted.take_over();
        load.is_well();
        wait_until("no call comes back", || {
            load.calls.load(Ordering::SeqCst) > calls + 100
        });
        pauses.push((
            Duration::from_micros(load.longest_us.load(Ordering::SeqCst)),
            took,
        ));
        if let Some(sqlite) = &mut sqlite {
            assert_eq!(
                sqlite.ask("COMMIT; SELECT sum(n) FROM t;"),
                (n * (n + 1) / 2).to_string()
            );
        }
        load.is_well();
    }
    let (calls, _) = load.stop();
    pauses.sort();
    let (median, longest) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
    println!(
        "{times} processes have taken over, {calls} calls: the longest call of each time {:?} in the median (of {:?} in all), {:?} at \
         most (of {:?})",
        median.0, median.1, longest.0, longest.1
    );
    drop(sqlite);
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn the_process_that_serves_goes_on_if_the_other_breaks_down() {
    let Some(mut mounted) = start(&[]) else {
        return;
    };
    let at = mounted.at();
    pattern(&at.join("pattern"));
    let mut load = Load::new();
    load.add_writer(at.join("written"), 1);
    load.add_reader(at.join("pattern"), 2);
    load.add_names(at.join("names"));
    for step in ["newer", "asked", "answered", "prepared", "receiving", "received"] {
        let calls = load.calls.load(Ordering::SeqCst);
        let why = mounted.fail_to_take_over(step);
        if step == "newer" {
            assert!(
                why.contains("format 2") && why.contains("its process goes on"),
                "{why}"
            );
        }
        wait_until("no call comes back", || {
            load.calls.load(Ordering::SeqCst) > calls + 100
        });
        load.is_well();
    }
    // One that does not get on when all programs wait for it.
    let mut hangs = mounted.successor(&["--breakdown", "hang-received"]);
    wait_until("the other does not hang", || {
        let calls = load.calls.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(200));
        load.calls.load(Ordering::SeqCst) == calls
    });
    let calls = load.calls.load(Ordering::SeqCst);
    wait_until("programs wait for good", || {
        load.calls.load(Ordering::SeqCst) > calls + 100
    });
    assert!(hangs.try_wait().unwrap().is_none());
    hangs.kill().unwrap();
    hangs.wait().unwrap();
    load.is_well();
    // And it can be taken over after all that.
    mounted.take_over();
    load.stop();
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_process_that_dies_when_it_has_taken_over_leaves_a_mount_that_the_next_clears_away() {
    let Some(mut mounted) = start(&[]) else {
        return;
    };
    let file = File::create(mounted.at().join("file")).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    let mut successor = mounted.successor(&["--breakdown", "begun"]);
    assert!(!wait_for(&mut successor).success());
    mounted.wait();
    // What is not known to be on the disk is no success.
    file.write_all_at(b"y", 0).unwrap_err();
    file.sync_all().unwrap_err();
    drop(file);
    mounted.again();
    assert_eq!(fs::read(mounted.at().join("file")).unwrap(), b"x");
    let _ = kill_process(mounted.pid(), Signal::TERM);
    assert!(mounted.wait().success());
}

/// It is in the memory of the process that serves, and nowhere else.
#[test]
fn what_the_disk_refuses_is_not_handed_over() {
    let Some(small) = Small::new() else { return };
    let Some(mut mounted) = TestMount::start(&small.at, &["--memory=64M"]) else {
        return;
    };
    fs::write(mounted.at().join("other"), vec![1; 3 << 20]).unwrap();
    File::open(mounted.at().join("other"))
        .unwrap()
        .sync_all()
        .unwrap();
    let file = File::create_new(mounted.at().join("file")).unwrap();
    file.write_all_at(&vec![7; 6 << 20], 0).unwrap();
    file.sync_all().unwrap_err();
    let mut successor = mounted.successor(&[]);
    assert!(!wait_for(&mut successor).success());
    let why = said(&mut successor);
    assert!(
        why.contains("the disk refuses") && why.contains("No space left"),
        "{why}"
    );
    // Nothing has become of it.
    let mut bytes = vec![0; 6 << 20];
    let read = File::open(mounted.at().join("file")).unwrap();
    read.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 7));
    fs::remove_file(mounted.at().join("other")).unwrap();
    file.sync_all().unwrap();
    mounted.take_over();
    read.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 7));
    drop((file, read));
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

/// As the unit does it: by a program that ends when the new process serves, which tells systemd that it is the one.
#[test]
fn a_daemon_that_takes_over_tells_systemd_and_leaves_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let pid_file = format!("--pid-file={}", folder.path().join("pid").display());
    let Some(mut mounted) = start(&[&pid_file]) else {
        return;
    };
    let mut replace = Command::new(PROGRAM);
    replace.args([
        "mount",
        "--replace",
        "--daemon",
        "--quiet",
        "--memory=32M",
        &pid_file,
    ]);
    replace.arg(format!("--log={}", folder.path().join("log").display()));
    replace.args([mounted.source(), mounted.at()]).args(lend(&[]));
    replace.env("NOTIFY_SOCKET", folder.path().join("notify"));
    replace.stdout(Stdio::piped()).stderr(Stdio::piped());
    let starter = replace.spawn().unwrap();
    let starter_number = starter.id().to_string();
    // systemd looks whose child the process is when it is told of it.
    let told = thread::spawn(move || {
        let mut told = [0; 4096];
        let len = socket.recv(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told[..len]).into_owned();
        let number = told.lines().find_map(|line| line.strip_prefix("MAINPID="));
        let stat = fs::read_to_string(format!("/proc/{}/stat", number.unwrap())).unwrap();
        let parent = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap();
        assert_ne!(parent, starter_number);
        told
    });
    let output = starter.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
    assert!(mounted.wait().success());
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let told = told.join().unwrap();
    assert!(
        told.contains(&format!("MAINPID={pid}")) && told.contains("READY=1\n"),
        "{told}"
    );
    fs::write(mounted.at().join("file"), "text").unwrap();
    let (code, why) = super::umount(&mounted.at());
    assert_eq!(code, Some(0), "{why}");
    assert!(!folder.path().join("pid").exists());
    assert_eq!(fs::read_to_string(mounted.source().join("file")).unwrap(), "text");
}

/// The process that served before has the address until it has ended.
#[test]
fn figures_are_served_at_the_same_address_by_the_process_that_has_taken_over() {
    // Where no other test has a port.
    let address = TcpListener::bind("127.0.77.1:0").unwrap().local_addr().unwrap();
    let Some(mut mounted) = start(&[&format!("--metrics={address}")]) else {
        return;
    };
    // How old the cache is whose figures are served, in seconds.
    let age = || -> std::io::Result<f64> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let figures = std::io::read_to_string(stream)?;
        let mut lines = figures.lines();
        let age = lines.find_map(|line| line.strip_prefix("millpond_uptime_seconds "));
        Ok(age.unwrap_or_else(|| panic!("{figures}")).parse().unwrap())
    };
    age().unwrap();
    for _ in 0..2 {
        let began = Instant::now();
        mounted.take_over();
        wait_until("nobody serves figures", || age().is_ok());
        let age = age().unwrap();
        assert!(age < began.elapsed().as_secs_f64(), "{age} s");
    }
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn what_is_settled_when_a_mount_is_made_is_not_changed_by_taking_over() {
    let Some(mut mounted) = start(&[]) else {
        return;
    };
    for (option, why) in [
        ("--read-only", "without --read-only"),
        ("--allow-other", "without --allow-other"),
        ("--no-cache", "without --no-cache"),
    ] {
        let mut successor = mounted.successor(&[option]);
        assert!(!wait_for(&mut successor).success());
        let told = said(&mut successor);
        assert!(
            told.contains(why) && told.contains("its process goes on"),
            "{option}: {told}"
        );
    }
    // Another source; and no mount at all.
    for (from, to, why) in [
        (
            mounted.folder.path().to_owned(),
            mounted.at(),
            "has another source",
        ),
        (mounted.at(), mounted.source(), "no millpond mount is there"),
    ] {
        let arguments = [
            "mount".as_ref(),
            "--replace".as_ref(),
            from.as_os_str(),
            to.as_os_str(),
        ];
        let output = Command::new(PROGRAM).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(why), "{told}");
    }
    mounted.take_over();
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_user_takes_over_their_own_mount_with_few_descriptors_and_root_does_not() {
    let Some(mut mounted) = users::start("700") else {
        return;
    };
    let at = mounted.at();
    let open = as_user(|| {
        (0..200).for_each(|n| fs::write(at.join(format!("file-{n}")), n.to_string()).unwrap());
        (0..30)
            .map(|n| File::open(at.join(format!("file-{n}"))).unwrap())
            .collect::<Vec<_>>()
    });
    let mut replace = Command::new(PROGRAM);
    replace
        .args(["mount", "--replace", "--memory=16M"])
        .args([mounted.source(), at.clone()]);
    let output = replace.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    mounted.take_over();
    as_user(|| {
        for (n, file) in open.into_iter().enumerate() {
            assert_eq!(std::io::read_to_string(file).unwrap(), n.to_string());
        }
        fs::write(at.join("after"), "text").unwrap();
        assert_eq!(fs::read_to_string(at.join("file-199")).unwrap(), "199");
    });
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        fs::read_to_string(mounted.source().join("after")).unwrap(),
        "text"
    );
}
