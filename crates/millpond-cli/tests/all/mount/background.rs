//! A mount in the background, which no terminal and no shell looks after.

use super::{BOUND, PROGRAM, Stopped, TestMount, folders, millpond, on_each_other, skip, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

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
        Daemon::start_with(name, starter, &[])
    }

    /// The same with these options.
    fn start_with(name: &OsStr, starter: &[&str], options: &[&str]) -> Option<Daemon> {
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
        // Names are relative to the folder in which it is started.
        command
            .current_dir(folder.path())
            .env("XDG_RUNTIME_DIR", folder.path());
        command.args(["mount", "src"]).arg(name);
        command.args(["--memory=16M", "--daemon", "--log=log", "--pid-file=pid"]);
        command.args(options);
        let output = command.output().unwrap();
        if output.status.code() == Some(3) {
            skip(&String::from_utf8_lossy(&output.stderr));
            return None;
        }
        assert!(output.status.success(), "{output:?}");
        let said = [point.as_os_str().as_bytes(), b"\n"].concat();
        let is_quiet = options.contains(&"--quiet");
        assert_eq!(output.stdout, if is_quiet { Vec::new() } else { said });
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
    fn millpond(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.folder.path());
        // Caches of other tests are not meant.
        command.env("TMPDIR", self.folder.path());
        command
    }

    fn umount(&self) -> (Option<i32>, String) {
        super::umount_by(&mut self.millpond(&["umount".as_ref(), self.point.as_os_str()]))
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

/// It ended the mount, and a log that was rotated went on under its new name.
#[test]
fn a_hangup_ends_nothing_and_has_the_log_opened_anew() {
    let Some(daemon) = Daemon::start("mnt".as_ref(), &[]) else {
        return;
    };
    fs::rename(daemon.path("log"), daemon.path("log.1")).unwrap();
    daemon.signal(Signal::HUP);
    wait_until("there is no new log", || daemon.path("log").exists());
    // It begins as the first one does.
    wait_until("it does not say what serves", || {
        let said = fs::read_to_string(daemon.path("log")).unwrap();
        said.contains(" serves ") && said.lines().all(is_line)
    });
    let mode = fs::metadata(daemon.path("log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o022, 0, "{mode:o}");
    // If it can't be opened, messages go on into the old one.
    fs::rename(daemon.path("log"), daemon.path("log.2")).unwrap();
    fs::create_dir(daemon.path("log")).unwrap();
    daemon.signal(Signal::HUP);
    let says = |name: &str| fs::read_to_string(daemon.path(name)).unwrap();
    wait_until("nothing is said", || {
        says("log.2").contains("can't be opened anew")
    });
    fs::write(daemon.point.join("file"), "text").unwrap();
    let (code, said) = daemon.umount();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        says("log.2").contains("everything is on the disk"),
        "{}",
        says("log.2")
    );
    assert!(!says("log.1").contains("has ended"), "{}", says("log.1"));
}

/// A lock that the script had which started it was taken until the mount ended.
#[test]
fn a_daemon_keeps_nothing_of_the_program_that_started_it() {
    let script = "exec 9>held; exec \"$0\" \"$@\"";
    let Some(daemon) = Daemon::start("mnt".as_ref(), &["sh", "-c", script]) else {
        return;
    };
    let held = daemon.path("held");
    let open = fs::read_dir(daemon.proc().join("fd")).unwrap();
    // The daemon may close one meanwhile.
    let links: Vec<_> = open
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .collect();
    assert!(!links.is_empty() && !links.contains(&held), "{links:?}");
    assert_eq!(fs::read_link(daemon.proc().join("cwd")).unwrap(), Path::new("/"));
    assert_eq!(daemon.umount().0, Some(0));
}

/// With a line feed it reported that it served, and was gone.
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
            let output = daemon
                .millpond(&[&words[..], &[daemon.point.as_os_str()]].concat())
                .output()
                .unwrap();
            assert!(output.status.success(), "{name:?}: {output:?}");
        }
        let (code, said) = daemon.umount();
        assert_eq!(code, Some(0), "{name:?}: {said}");
        assert_eq!(fs::read(daemon.path("src/file")).unwrap(), b"text", "{name:?}");
        // One message, one line.
        let said = fs::read_to_string(daemon.path("log")).unwrap();
        assert!(said.lines().all(is_line), "{said}");
    }
}

/// Whether it is a line of a log in a file: time, sender, message.
fn is_line(line: &str) -> bool {
    let rest = line
        .strip_prefix("20")
        .and_then(|line| line.split_once("Z millpond mount: "));
    rest.is_some_and(|(time, said)| time.contains('T') && !said.is_empty())
}

/// It reported nothing about itself, and the cache's lines looked unlike the mount's.
#[test]
fn the_log_begins_with_what_serves_what_and_has_one_form_at_every_level() {
    for level in ["off", "trace"] {
        let Some(daemon) = Daemon::start_with("mnt".as_ref(), &[], &["--log-level", level, "--quiet"]) else {
            return;
        };
        fs::write(daemon.point.join("file"), "text").unwrap();
        let (code, said) = daemon.umount();
        assert_eq!(code, Some(0), "{said}");
        let said = fs::read_to_string(daemon.path("log")).unwrap();
        assert!(said.lines().all(is_line), "{said}");
        let starts = |line: &&str| line.contains(" serves ");
        let start = said
            .lines()
            .find(starts)
            .unwrap_or_else(|| panic!("{level}: {said}"));
        let process = format!("process {}", daemon.pid.as_raw_pid());
        let (source, point) = (daemon.path("src"), daemon.point.display().to_string());
        for part in [
            concat!("version ", env!("CARGO_PKG_VERSION")),
            &process,
            source.to_str().unwrap(),
            &point,
            "memory=16M",
            "the goal for reads is ",
        ] {
            assert!(start.contains(part), "{part}: {start}");
        }
        assert_eq!(said.lines().filter(starts).count(), 1, "{said}");
        assert_eq!(
            said.contains("debug: ") || said.contains("trace: "),
            level == "trace",
            "{said}"
        );
        let end = said.lines().last().unwrap();
        assert!(end.ends_with("has ended, everything is on the disk"), "{said}");
    }
}

/// As with systemd's `Type=notify`: units that wait for the mount may start then.
#[test]
fn systemd_is_notified_when_it_serves_and_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let told = || {
        let mut bytes = [0; 4096];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let address = format!("NOTIFY_SOCKET={}", path.display());
    let Some(mut mounted) = TestMount::start_by(&["env", &address], None, &folders()[0], &["--memory=16M"])
    else {
        return;
    };
    let ready = told();
    assert!(
        ready.contains("READY=1\n") && ready.contains(" serves "),
        "{ready}"
    );
    let (said, code) = mounted.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    let stopping = told();
    assert!(stopping.contains("STOPPING=1\n"), "{stopping}");
}

/// They said "os error 107", or that its process can't be seen from here; or of several such mounts the first.
#[test]
fn of_a_mount_whose_process_is_gone_every_command_says_what_to_do() {
    let start = || Daemon::start("mnt".as_ref(), &[]);
    let (Some(first), Some(daemon)) = (start(), start()) else {
        return;
    };
    for daemon in [&first, &daemon] {
        daemon.signal(Signal::KILL);
        wait_until("it does not end", || !daemon.proc().exists());
    }
    let point = daemon.point.to_str().unwrap();
    let file = daemon.point.join("file");
    let file = file.to_str().unwrap();
    for (words, code) in [
        (&["caches"][..], 0),
        (&["stat"], 1),
        (&["stat", "--cache", point], 1),
        (&["inspect", "limits", "--cache", point], 1),
        (&["set", "memory=32M", "--cache", point], 1),
        (&["top", "--cache", point], 1),
        (&["replay", file], 1),
    ] {
        let output = daemon
            .millpond(&words.iter().map(OsStr::new).collect::<Vec<_>>())
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let anew = format!(
            "`millpond mount {} {point}` with the options that it had",
            daemon.path("src").display()
        );
        for part in [
            "is gone, perhaps killed",
            &anew,
            &format!("`millpond umount {point}`"),
        ] {
            assert!(said.contains(part), "{words:?}: {part}: {said}");
        }
        assert!(
            output.status.code() == Some(code) || words[0] == "replay",
            "{words:?}: {output:?}",
            output = output.status
        );
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
    let stopped = Stopped::stop(daemon.pid);
    let point = daemon.point.to_str().unwrap();
    let process = format!("{}", daemon.pid.as_raw_pid());
    let says = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(OsStr::new).collect();
        let output = daemon.millpond(&words).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(
            said.contains(&process) && said.contains("kill -CONT"),
            "{words:?}: {said}"
        );
        (output.status.code(), said)
    };
    let commands = [
        vec!["stat", "--cache", point],
        vec!["stat"],
        vec!["inspect", "limits", "--cache", point],
        vec!["inspect", "limits", "--cache", &process],
        vec!["set", "dirty.hard=8M", "--cache", point],
        vec!["umount", point],
    ];
    // Side by side, as each has some seconds of patience.
    thread::scope(|scope| {
        scope.spawn(|| {
            let (code, said) = says(&["caches"]);
            assert!(code == Some(0) && said.contains(point), "{said}");
        });
        for words in &commands {
            let says = &says;
            scope.spawn(move || assert_eq!(says(words).0, Some(1), "{words:?}"));
        }
        // Who mounts there is refused, and does not wait for it either.
        scope.spawn(|| {
            let another = tempfile::tempdir().unwrap();
            let words = ["mount", another.path().to_str().unwrap(), point];
            let output = daemon.millpond(&words.map(OsStr::new)).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{output:?}");
        });
    });
    let (code, said) = says(&["umount", "--force", point]);
    assert!(
        code == Some(1) && said.contains("is unmounted by force"),
        "{said}"
    );
    assert_eq!(fs::read_dir(&daemon.point).unwrap().count(), 0);
    // What it has is not lost.
    drop(stopped);
    wait_until("it does not end", || !daemon.proc().exists());
    assert_eq!(fs::read(daemon.path("src/file")).unwrap(), b"not synced");
}

/// `umount` said it after some seconds, and could not end: the kernel lets no process end for which a mount has begun to answer
/// a call.
#[test]
fn a_source_that_hangs_keeps_no_command_from_ending() {
    let at_once = "--attribute-timeout=0";
    let Some((low, mut high)) = on_each_other(&[at_once], &["--memory=16M", at_once]) else {
        return;
    };
    fs::write(high.at().join("file"), "not synced").unwrap();
    let stopped = Stopped::stop(low.pid());
    let point = high.at().display().to_string();
    let process = format!("process {}", high.program.id());
    let another = tempfile::tempdir().unwrap();
    let another = another.path().to_str().unwrap();
    // One that does not end would keep this from ending too.
    let ends = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let (told, come) = mpsc::channel();
        thread::spawn(move || {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            told.send(millpond(&words))
        });
        come.recv_timeout(BOUND)
    };
    let umount = ends(&["umount", &point]);
    let mount = ends(&["mount", another, &point]);
    let inspect = ends(&["inspect", "limits", "--cache", &point]);
    let by_force = ends(&["umount", "--force", &point]);
    drop(stopped);
    let (code, said) = umount.unwrap();
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "stays mounted",
        &process,
        "when what is below its source answers",
        "--force",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, said) = mount.unwrap();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("a millpond mount is already there"), "{said}");
    let (code, said) = inspect.unwrap();
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = by_force.unwrap();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("is unmounted by force") && said.contains(&process),
        "{said}"
    );
    high.wait();
    assert_eq!(fs::read(low.source().join("file")).unwrap(), b"not synced");
}
