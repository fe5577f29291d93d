//! What the process that serves takes of memory.

use super::{BOUND, TestMount, folders, mount_program, skip};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// A mount whose source is another's, and that one: a disk that stands still while its process is stopped.
fn on_each_other(arguments: &[&str]) -> Option<(TestMount, TestMount)> {
    let low = TestMount::start(&folders()[0], &["--no-cache"])?;
    let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
    std::os::unix::fs::symlink(low.at(), folder.path().join("src")).unwrap();
    fs::create_dir(folder.path().join("mnt")).unwrap();
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let mut high = TestMount {
        program: mount_program(&[], folder.path(), &arguments),
        runner: Vec::new(),
        arguments,
        folder,
    };
    high.is_ready().then_some((low, high))
}

/// A number of KiB that the system has about the process.
fn status_kib(mounted: &TestMount, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", mounted.program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// The name of threads that write.
const WRITER: &str = "test-writer";

/// How many of them wait, for the kernel.
fn waiting_writers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let waits = |stat: &String| {
        let rest = stat.split_once(WRITER).map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(") S") || rest.starts_with(") D"))
    };
    stats.filter(waits).count()
}

/// Its process is stopped until this is dropped.
struct Stopped<'a>(&'a TestMount);

impl<'a> Stopped<'a> {
    fn stop(mounted: &'a TestMount) -> Stopped<'a> {
        kill_process(mounted.pid(), Signal::STOP).unwrap();
        Stopped(mounted)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        kill_process(self.0.pid(), Signal::CONT).unwrap();
    }
}

/// It grew by a copy of each request: 48 writers of 1 MiB made 80 MB at a budget of 16 MiB, and a group that had as much killed
/// it.
#[test]
fn writers_that_wait_for_the_disk_cost_no_memory_beyond_the_budget() {
    const WRITERS: usize = 48;
    const FEW: usize = 12;
    let Some((mut low, mut high)) = on_each_other(&["--memory", "16M"]) else {
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
    let hot = File::open(point.join("hot")).unwrap();
    hot.read_exact_at(&mut [0; 4096], 0).unwrap();
    let wait_for = |writers: usize| {
        let began = Instant::now();
        while waiting_writers() < writers {
            assert!(began.elapsed() < BOUND, "{} wait", waiting_writers());
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let stopped = Stopped::stop(&low);
        let write = |file: &File| {
            let bytes = vec![7; 1 << 20];
            for at in 0..4 {
                file.write_all_at(&bytes, at << 20).unwrap();
            }
        };
        let start = |file| {
            let thread = thread::Builder::new().name(WRITER.into());
            thread.spawn_scoped(scope, move || write(file)).unwrap();
        };
        let (few, others) = files.split_at(FEW);
        few.iter().for_each(start);
        wait_for(FEW);
        // There is a thread for what is in memory.
        let (told, come) = mpsc::channel();
        let hot = &hot;
        scope.spawn(move || told.send(hot.read_exact_at(&mut [0; 4096], 0).is_ok()));
        assert_eq!(come.recv_timeout(BOUND), Ok(true));
        others.iter().for_each(start);
        wait_for(WRITERS);
        drop(stopped);
    });
    let peak = status_kib(&high, "VmHWM:") - status_kib(&high, "RssFile:");
    assert!(peak < (16 + 8) << 10, "{peak} KiB");
    let threads = status_kib(&high, "Threads:");
    assert!(threads < 150, "{threads} threads");
    drop((files, hot));
    let (said, code) = high.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    low.end(Signal::TERM);
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
