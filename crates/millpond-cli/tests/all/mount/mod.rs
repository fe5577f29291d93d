//! `millpond mount` as programs meet it: mounted, used, unmounted, killed.
//!
//! Needs FUSE: a test that may not mount says "skipped" and why. What is mounted or started is let go of when the test
//! ends, however it ends.
//!
//! `MILLPOND_FOLDERS=a:b cargo test -p millpond-cli --test all mount::` has the source in each of these folders, one after the
//! other: on other file systems. `MILLPOND_LEND=1M` has every mount that has a cache lend as much to the kernel, and
//! `MILLPOND_MEMORY=8M` gives as much memory to those of 16 and 32 MiB whose test does not say what is lent.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

mod background;
mod blocks;
mod conformance;
mod daemon;
mod durable;
mod errors;
mod exit_report;
mod fsx;
#[cfg(feature = "lab")]
mod hung_disk;
mod kill;
mod lend;
mod maps;
mod memory;
mod privileges;
mod programs;
mod removed;
mod replaced;
mod source;
mod take_over;
mod times;
mod users;

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{panic, thread};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

/// Longer than anything here takes on a bad day.
const BOUND: Duration = Duration::from_secs(120);

/// The locations of sources: the checkout's file system, or the folders given.
fn folders() -> Vec<PathBuf> {
    match std::env::var("MILLPOND_FOLDERS") {
        Ok(folders) => folders.split(':').map(PathBuf::from).collect(),
        Err(_) => vec![env!("CARGO_TARGET_TMPDIR").into()],
    }
}

fn skip(why: &str) {
    println!("skipped: {why}");
}

/// A directory that is mounted, until it is dropped.
struct TestMount {
    program: Child,
    /// The command that runs the program, if not we.
    runner: Vec<String>,
    arguments: Vec<String>,
    folder: tempfile::TempDir,
}

impl TestMount {
    /// `None`, and says why, where nothing can be mounted.
    fn start(folder: &Path, arguments: &[&str]) -> Option<TestMount> {
        TestMount::start_by(&[], None, folder, arguments)
    }

    /// By a command that runs others, in directories of that user.
    fn start_by(runner: &[&str], user: Option<u32>, folder: &Path, arguments: &[&str]) -> Option<TestMount> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let folder = tempfile::tempdir_in(folder).unwrap();
        // Other users go through it, too.
        let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(folder.path(), open).unwrap();
        for name in ["src", "mnt"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, user, user).unwrap();
        }
        let (runner, arguments) = (words(runner), words(arguments));
        let program = mount_program(&runner, folder.path(), &arguments);
        let mut mounted = TestMount {
            program,
            runner,
            arguments,
            folder,
        };
        mounted.is_ready().then_some(mounted)
    }

    fn is_ready(&mut self) -> bool {
        let mut line = String::new();
        BufReader::new(self.program.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        if !line.is_empty() {
            return true;
        }
        let code = self.wait().code();
        let mut said = String::new();
        self.program
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(code, Some(3), "{said}");
        skip(&said);
        false
    }

    fn at(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("src")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.program)
    }

    fn kill(&mut self) {
        kill_process(self.pid(), Signal::KILL).unwrap();
        self.wait();
    }

    /// Mounts once more.
    fn again(&mut self) {
        self.program = mount_program(&self.runner, self.folder.path(), &self.arguments);
        assert!(self.is_ready());
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.program.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < BOUND, "the program does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Does this in a thread. A hang is the test's failure: nothing is left that waits, and no command is run that could.
    fn within_bound<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, done) = mpsc::channel();
        let worker = thread::spawn(move || drop(tell.send(work())));
        match done.recv_timeout(BOUND) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Disconnected) => panic::resume_unwind(worker.join().unwrap_err()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.abort();
                panic!("a call at the mount hangs");
            }
        }
    }

    /// Has the kernel fail all calls at the mount. A process that waits there for itself can't be killed before that.
    fn abort(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = self.at();
        let connection = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(2);
            let (_, minor) = fields.next()?.split_once(':')?;
            (fields.nth(1) == at.to_str()).then(|| format!("/sys/fs/fuse/connections/{minor}/abort"))
        });
        if connection.is_none_or(|abort| fs::write(abort, "1").is_err()) {
            // Where that file system is not mounted: the same for root.
            let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::FORCE);
        }
    }

    /// Ends it by a signal; what it has said, and its exit code.
    fn end(&mut self, signal: Signal) -> (String, Option<i32>) {
        kill_process(self.pid(), signal).unwrap();
        let code = self.wait().code();
        let mut said = String::new();
        self.program
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (said, code)
    }
}

/// The arguments, with other memory where a test is not about how much there is.
fn with_memory(arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    let says_what_is_lent = arguments.iter().any(|argument| argument == "--lend");
    let memory = arguments
        .iter_mut()
        .find(|argument| matches!(argument.as_str(), "16M" | "32M"));
    if let (Some(memory), Ok(size), false) = (memory, std::env::var("MILLPOND_MEMORY"), says_what_is_lent) {
        *memory = size;
    }
    arguments
}

/// What every mount with a cache lends, unless its arguments say something else.
fn lend(arguments: &[String]) -> Option<String> {
    let says = |word: &str| arguments.iter().any(|argument| argument == word);
    let size = std::env::var("MILLPOND_LEND").ok()?;
    (!says("--lend") && !says("--no-cache")).then(|| format!("--lend={size}"))
}

fn mount_program(runner: &[String], folder: &Path, arguments: &[String]) -> Child {
    let mut command = match runner {
        [] => Command::new(PROGRAM),
        [first, others @ ..] => {
            let mut command = Command::new(first);
            command.args(others).arg(PROGRAM);
            command
        }
    };
    command
        .arg("mount")
        .args([folder.join("src"), folder.join("mnt")])
        .args(with_memory(arguments))
        .args(lend(arguments))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl Drop for TestMount {
    fn drop(&mut self) {
        if self.program.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(self.pid(), Signal::KILL);
            let _ = self.program.wait();
        }
        let _ = rustix::mount::unmount(self.at(), rustix::mount::UnmountFlags::DETACH);
    }
}

/// A mount without a cache, and one whose source that is: a disk that stands still while the first one's process is stopped.
fn on_each_other(of_low: &[&str], of_high: &[&str]) -> Option<(TestMount, TestMount)> {
    let low = TestMount::start(&folders()[0], &[&["--no-cache"], of_low].concat())?;
    let high = on(&low, of_high)?;
    Some((low, high))
}

/// A mount whose source that is.
fn on(low: &TestMount, arguments: &[&str]) -> Option<TestMount> {
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
    high.is_ready().then_some(high)
}

/// A process that is stopped until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(process: Pid) -> Stopped {
        kill_process(process, Signal::STOP).unwrap();
        let stopped = Stopped(process);
        // Each thread stops when it next comes back from the kernel or is interrupted.
        let tasks = format!("/proc/{}/task", process.as_raw_pid());
        wait_until("it does not stop", || {
            fs::read_dir(&tasks).unwrap().all(|thread| {
                // One that has ended meanwhile has stopped, too.
                let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
                stat.rsplit(") ")
                    .next()
                    .is_none_or(|rest| rest.is_empty() || rest.starts_with('T'))
            })
        });
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < BOUND, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// `millpond umount` of a mount that no program uses. A child that another test has just forked has this process' open files
/// until it runs its own program, and for as long the mount is in use.
fn umount(at: &Path) -> (Option<i32>, String) {
    umount_by(Command::new(PROGRAM).arg("umount").arg(at))
}

/// The same by that command.
fn umount_by(command: &mut Command) -> (Option<i32>, String) {
    let began = Instant::now();
    loop {
        let (code, said) = said_by(command);
        if !said.contains("is in use") || began.elapsed() >= BOUND {
            return (code, said);
        }
    }
}

fn millpond(arguments: &[&str]) -> (Option<i32>, String) {
    said_by(Command::new(PROGRAM).args(arguments))
}

fn said_by(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}
