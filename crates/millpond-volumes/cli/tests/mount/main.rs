//! A store as a directory, as people use it: processes of `millpond-store`, a real mount, and the programs of a shell.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test says what it skips")]

mod conformance;
#[path = "../../../tests/shared/draw.rs"]
mod draw;
mod ending;
mod programs;
mod reading;
mod trees;
mod writing;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millpond-store"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn done(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn run(name: &str, args: &[&str]) -> String {
    let mut command = Command::new(name);
    command.args(args);
    done(command)
}

fn store(args: &[&str]) -> String {
    let mut command = program();
    command.args(args);
    done(command)
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !can {
        println!("skipped: a mount: no /dev/fuse, or not root");
    }
    can
}

/// A mount, which is taken away whatever happens.
struct Mounted {
    point: PathBuf,
    process: Child,
}

impl Mounted {
    fn new(url: &str, point: &Path, more: &[&str]) -> Mounted {
        fs::create_dir_all(point).unwrap();
        let mut mounted = Mounted::start(url, point, more);
        mounted.wait();
        mounted
    }

    fn start(url: &str, point: &Path, more: &[&str]) -> Mounted {
        let mut command = program();
        command.args(["mount", url]).arg(point).args(more);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Mounted {
            point: point.to_owned(),
            process: command.spawn().unwrap(),
        }
    }

    /// Until it is mounted.
    fn wait(&mut self) {
        let mut line = String::new();
        let mut stdout = BufReader::new(self.process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut why = String::new();
            let mut stderr = self.process.stderr.take().unwrap();
            stderr.read_to_string(&mut why).unwrap();
            panic!("not mounted: {why}");
        }
        assert_eq!(Path::new(line.trim_end()), self.point);
    }

    /// Killed, without a last word.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Unmounted as by hand; what the process says.
    fn end(mut self) -> String {
        let (status, said) = self.ended();
        assert!(status.success(), "{status}: {said}");
        said
    }

    fn ended(&mut self) -> (std::process::ExitStatus, String) {
        run("umount", &[self.point.to_str().unwrap()]);
        let status = self.process.wait().unwrap();
        let mut said = String::new();
        let stderr = self.process.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.point).output();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 2_654_435_761_usize) >> 7) as u8).collect()
}
