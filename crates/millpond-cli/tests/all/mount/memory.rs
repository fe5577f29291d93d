//! The memory of the serving process.

use super::{BOUND, Stopped, TestMount, folders, on_each_other, skip};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// A number of KiB that the system has about the process.
fn status_kib(mounted: &TestMount, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", mounted.program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// The name of threads that write.
const WRITER: &str = "test-writer";

/// How many of them wait, according to the kernel.
fn waiting_writers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let waits = |stat: &String| {
        let rest = stat.split_once(WRITER).map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(") S") || rest.starts_with(") D"))
    };
    stats.filter(waits).count()
}

/// It grew by a copy of each request: 48 writers of 1 MiB made 80 MB at a budget of 16 MiB, and a group that had as much killed
/// it. Then it took no more than 16 requests, and reads of what is in memory waited with the others.
#[test]
fn writers_that_wait_for_the_disk_cost_no_memory_beyond_the_budget_and_no_read_waits_behind_them() {
    const WRITERS: usize = 300;
    const FEW: usize = 12;
    let Some((mut low, mut high)) = on_each_other(&[], &["--memory", "16M"]) else {
        return;
    };
    let point = high.at();
    let files: Vec<File> = (0..WRITERS)
        .map(|n| {
            let file = File::create_new(point.join(format!("file{n}"))).unwrap();
            file.write_all_at(b"1", 0).unwrap();
            file
        })
        .collect();
    fs::write(point.join("hot"), [7; 4096]).unwrap();
    let hot_file = File::open(point.join("hot")).unwrap();
    let hot = &hot_file;
    hot.read_exact_at(&mut [0; 4096], 0).unwrap();
    let wait_for = |writers: usize| {
        let began = Instant::now();
        while waiting_writers() < writers {
            assert!(began.elapsed() < BOUND, "{} wait", waiting_writers());
            thread::yield_now();
        }
    };
    let bytes = &vec![7; 64 << 10];
    thread::scope(|scope| {
        let stopped = Stopped::stop(low.pid());
        let write = |file: &File| {
            for at in 0..4 {
                file.write_all_at(bytes, at << 16).unwrap();
            }
        };
        let start = |file| {
            let thread = thread::Builder::new().name(WRITER.into());
            thread.spawn_scoped(scope, move || write(file)).unwrap();
        };
        // There is a thread for what is in memory, and it comes to it.
        let reads = || {
            let (told, come) = mpsc::channel();
            scope.spawn(move || told.send(hot.read_exact_at(&mut [0; 4096], 0).is_ok()));
            come.recv_timeout(BOUND)
        };
        let (few, others) = files.split_at(FEW);
        few.iter().for_each(start);
        wait_for(FEW);
        let of_few = reads();
        others.iter().for_each(start);
        wait_for(WRITERS);
        let of_all = reads();
        // The scope ends when the writers can.
        drop(stopped);
        assert_eq!((of_few, of_all), (Ok(true), Ok(true)));
    });
    let peak = status_kib(&high, "VmHWM:") - status_kib(&high, "RssFile:");
    assert!(peak < (16 + 8) << 10, "{peak} KiB");
    let threads = status_kib(&high, "Threads:");
    assert!(threads < 150, "{threads} threads");
    drop((files, hot_file));
    let (said, code) = high.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    low.end(Signal::TERM);
}

/// What requests need was set aside of the first budget, and one of less than a sixth was refused.
#[test]
fn a_budget_may_become_much_smaller_and_larger_again() {
    let Some(mut mounted) = TestMount::start(&folders()[0], &["--memory", "512M"]) else {
        return;
    };
    let point = mounted.at();
    let set = |memory: &str| {
        let set = super::millpond(&["set", memory, "--cache", point.to_str().unwrap()]);
        assert_eq!(set.0, Some(0), "{}", set.1);
    };
    let content = |seed: u8| -> Vec<u8> { (0..32 << 20).map(|at| (at >> 12) as u8 ^ seed).collect() };
    fs::write(point.join("file"), content(1)).unwrap();
    let began = Instant::now();
    set("memory=4M");
    while status_kib(&mounted, "RssAnon:") > (4 + 16) << 10 {
        assert!(
            began.elapsed() < BOUND,
            "{} KiB",
            status_kib(&mounted, "RssAnon:")
        );
        thread::yield_now();
    }
    assert!(fs::read(point.join("file")).unwrap() == content(1));
    fs::write(point.join("file"), content(2)).unwrap();
    set("memory=256M");
    assert!(fs::read(point.join("file")).unwrap() == content(2));
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read(mounted.source().join("file")).unwrap() == content(2));
}

#[cfg(feature = "lab")]
#[test]
fn a_mount_in_a_group_that_can_t_hold_it_says_so() {
    use millpond_core::units::Bytes;
    let group = match millpond_lab::memory_group::MemoryGroup::create(Bytes::from_mib(64)) {
        Ok(group) => group,
        Err(why) => return skip(&why),
    };
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let path = group.path().display().to_string();
    let runner = ["sh", "-c", script, &path];
    let said = |budget: &str| {
        let mut mounted = TestMount::start_by(&runner, None, &folders()[0], &["--memory", budget])?;
        Some(mounted.end(Signal::TERM).0)
    };
    let Some(short) = said("56M") else { return };
    assert!(
        short.contains("leaves 8 MiB besides the budget") && short.contains("give --memory 48M, or raise "),
        "{short}"
    );
    let fits = said("48M").unwrap();
    assert!(!fits.contains("besides the budget"), "{fits}");
}

/// The process in the background was killed, and no message said so.
#[cfg(feature = "lab")]
#[test]
fn a_daemon_killed_while_it_starts_is_reported() {
    use millpond_core::units::Bytes;
    let group = match millpond_lab::memory_group::MemoryGroup::create(Bytes::from_mib(64)) {
        Ok(group) => group,
        Err(why) => return skip(&why),
    };
    let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
    let [source, point] = ["src", "mnt"].map(|name| {
        fs::create_dir(folder.path().join(name)).unwrap();
        folder.path().join(name).display().to_string()
    });
    let log = format!("--log={}", folder.path().join("log").display());
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, &group.path().display().to_string(), super::PROGRAM]);
    command.args(["mount", &source, &point, "--memory=64M", "--daemon", &log]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {
            super::umount(point.as_ref());
            skip("the kernel has let it live");
        }
        Some(3) => skip(&said),
        code => {
            assert_eq!(code, Some(1), "{said}");
            assert!(
                said.contains("was killed while it started") && said.contains("give --memory 48M"),
                "{said}"
            );
        }
    }
}
