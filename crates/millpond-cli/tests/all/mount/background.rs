//! A mount in the background, which no terminal and no shell looks after.

use super::{BOUND, PROGRAM, folders, skip};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// A mount with `--daemon`, ended by a signal when this is dropped.
struct Daemon {
    folder: tempfile::TempDir,
    pid: Pid,
    point: PathBuf,
}

impl Daemon {
    /// At a directory of this name, started by this command, if not by ourselves. `None`, and says why, where nothing can be
    /// mounted.
    fn start(name: &OsStr, starter: &[&str]) -> Option<Daemon> {
        let folder = tempfile::tempdir_in(&folders()[0]).unwrap();
        let point = folder.path().join(name);
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::create_dir(&point).unwrap();
        let mut command = match starter {
            [] => Command::new(PROGRAM),
            [first, others @ ..] => {
                let mut command = Command::new(first);
                command.args(others).arg(PROGRAM);
                command
            }
        };
        // Names are of the folder in which it is started.
        command
            .current_dir(folder.path())
            .env("XDG_RUNTIME_DIR", folder.path());
        command.args(["mount", "src"]).arg(name);
        command.args(["--memory=16M", "--daemon", "--log=log", "--pid-file=pid"]);
        let output = command.output().unwrap();
        if output.status.code() == Some(3) {
            skip(&String::from_utf8_lossy(&output.stderr));
            return None;
        }
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, [point.as_os_str().as_bytes(), b"\n"].concat());
        let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
        Some(Daemon {
            pid: Pid::from_raw(pid.trim().parse().unwrap()).unwrap(),
            folder,
            point,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    fn proc(&self) -> PathBuf {
        format!("/proc/{}", self.pid.as_raw_pid()).into()
    }

    /// A command about it. It ends, whatever the mount does.
    fn millpond(&self, arguments: &[&OsStr]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.folder.path());
        // Caches of other tests are not meant.
        command.env("TMPDIR", self.folder.path());
        command.output().unwrap()
    }

    fn umount(&self) -> Output {
        self.millpond(&["umount".as_ref(), self.point.as_os_str()])
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.proc().exists() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let _ = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::DETACH);
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < BOUND, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// It ended the mount, and a log that was rotated went on under its new name.
#[test]
fn a_hangup_ends_nothing_and_has_the_log_opened_anew() {
    let Some(daemon) = Daemon::start("mnt".as_ref(), &[]) else {
        return;
    };
    fs::rename(daemon.path("log"), daemon.path("log.1")).unwrap();
    daemon.signal(Signal::HUP);
    wait_until("there is no new log", || daemon.path("log").exists());
    let mode = fs::metadata(daemon.path("log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o022, 0, "{mode:o}");
    // Where it can't be opened, what there is to say goes on into the old one.
    fs::rename(daemon.path("log"), daemon.path("log.2")).unwrap();
    fs::create_dir(daemon.path("log")).unwrap();
    daemon.signal(Signal::HUP);
    let says = |name: &str| fs::read_to_string(daemon.path(name)).unwrap();
    wait_until("nothing is said", || {
        says("log.2").contains("can't be opened anew")
    });
    fs::write(daemon.point.join("file"), "text").unwrap();
    let output = daemon.umount();
    assert!(output.status.success(), "{output:?}");
    assert!(
        says("log.2").contains("everything is on the disk"),
        "{}",
        says("log.2")
    );
    assert!(!says("log.1").contains("has ended"), "{}", says("log.1"));
}

/// A lock that the script had which started it was taken until the mount ended.
#[test]
fn nothing_is_kept_of_the_program_that_has_started_it() {
    let script = "exec 9>held; exec \"$0\" \"$@\"";
    let Some(daemon) = Daemon::start("mnt".as_ref(), &["sh", "-c", script]) else {
        return;
    };
    let held = daemon.path("held");
    let open = fs::read_dir(daemon.proc().join("fd")).unwrap();
    let links: Vec<_> = open
        .map(|entry| fs::read_link(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!links.contains(&held), "{links:?}");
    assert_eq!(fs::read_link(daemon.proc().join("cwd")).unwrap(), Path::new("/"));
    assert!(daemon.umount().status.success());
}

/// With a line feed it said that it served, and was gone.
#[test]
fn a_mount_point_may_have_any_bytes_in_its_name() {
    for name in [
        &b"new\nline"[..],
        b"blank and\ttab",
        b"back\\040slash",
        b"latin \xfc",
        b"#",
    ] {
        let name = OsStr::from_bytes(name);
        let Some(daemon) = Daemon::start(name, &[]) else {
            return;
        };
        fs::write(daemon.point.join("file"), "text").unwrap();
        if name.to_str().is_some() {
            let words = ["stat", "--cache"].map(OsStr::new);
            let output = daemon.millpond(&[&words[..], &[daemon.point.as_os_str()]].concat());
            assert!(output.status.success(), "{name:?}: {output:?}");
        }
        let output = daemon.umount();
        assert!(output.status.success(), "{name:?}: {output:?}");
        assert_eq!(fs::read(daemon.path("src/file")).unwrap(), b"text", "{name:?}");
        // One message, one line.
        let said = fs::read_to_string(daemon.path("log")).unwrap();
        assert!(said.lines().all(|line| line.starts_with("millpond")), "{said}");
    }
}

/// `caches` left it out, and all other commands waited for it without an end.
#[test]
fn a_process_that_is_stopped_is_named_by_every_command_and_so_is_the_way_out() {
    let Some(daemon) = Daemon::start("mnt".as_ref(), &[]) else {
        return;
    };
    // Closed: a program that has a file of a mount open that does not answer can't start another, which would close it.
    fs::write(daemon.point.join("file"), "not synced").unwrap();
    daemon.signal(Signal::STOP);
    // Each thread stops when it next comes back from the kernel or is interrupted.
    wait_until("it does not stop", || {
        let mut threads = fs::read_dir(daemon.proc().join("task")).unwrap();
        threads.all(|thread| {
            let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            stat.rsplit(") ").next().unwrap().starts_with('T')
        })
    });
    let point = daemon.point.to_str().unwrap();
    let process = format!("{}", daemon.pid.as_raw_pid());
    let says = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(OsStr::new).collect();
        let began = Instant::now();
        let output = daemon.millpond(&words);
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(
            said.contains(&process) && said.contains("kill -CONT"),
            "{words:?}: {said}"
        );
        assert!(began.elapsed() < BOUND);
        (output.status.code(), said)
    };
    let (code, said) = says(&["caches"]);
    assert!(code == Some(0) && said.contains(point), "{said}");
    for words in [
        &["stat", "--cache", point][..],
        &["stat"],
        &["inspect", "limits", "--cache", point],
        &["inspect", "limits", "--cache", &process],
        &["set", "dirty.hard=8M", "--cache", point],
        &["umount", point],
    ] {
        assert_eq!(says(words).0, Some(1), "{words:?}");
    }
    // Who mounts there is refused, and does not wait for it either.
    let another = tempfile::tempdir().unwrap();
    let words = ["mount", another.path().to_str().unwrap(), point];
    let output = daemon.millpond(&words.map(OsStr::new));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let (code, said) = says(&["umount", "--force", point]);
    assert!(
        code == Some(1) && said.contains("is unmounted by force"),
        "{said}"
    );
    assert_eq!(fs::read_dir(&daemon.point).unwrap().count(), 0);
    // What it has is not lost.
    daemon.signal(Signal::CONT);
    wait_until("it does not end", || !daemon.proc().exists());
    assert_eq!(fs::read(daemon.path("src/file")).unwrap(), b"not synced");
}
