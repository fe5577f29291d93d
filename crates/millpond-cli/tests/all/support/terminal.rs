//! A pseudo terminal, and the program on it.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part of it; what is skipped is said on standard output"
)]

use super::{text, words};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

/// A program that should end does so within this time: no healthy machine needs as long.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn of_folder<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    // Caches of other tests, and of this machine's user, are not meant.
    command.env("XDG_RUNTIME_DIR", folder).env("TMPDIR", folder)
}

/// Whether it is the program's controlling terminal: then the program gets a signal when it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Controlling {
    Yes,
    No,
}

/// A terminal, and the program on it.
pub(crate) struct Terminal {
    pub(crate) process: Child,
    master: File,
    pub(crate) seen: String,
}

impl Terminal {
    /// `None`, and the reason on a line of its own, where there can't be one.
    pub(crate) fn start(folder: &Path, line: &str, size: (u16, u16)) -> Option<Terminal> {
        Terminal::start_on(folder, line, size, Controlling::Yes)
    }

    pub(crate) fn start_on(
        folder: &Path,
        line: &str,
        (columns, rows): (u16, u16),
        controlling: Controlling,
    ) -> Option<Terminal> {
        let skip = |why: &str| println!("\nskipped: {why}");
        let Ok(master) = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        else {
            skip("no pseudo terminals");
            return None;
        };
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let end = || {
            File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap())
                .unwrap()
        };
        // With a session of its own, so that its terminal is this one and not the tester's.
        let mut command = Command::new("setsid");
        if controlling == Controlling::Yes {
            command.arg("-c");
        }
        command
            .args(["-w", env!("CARGO_BIN_EXE_millpond")])
            .args(words(line));
        let command = of_folder(&mut command, folder).env("TERM", "xterm-256color");
        let started = command.stdin(end()).stdout(end()).stderr(end()).spawn();
        let Ok(process) = started else {
            skip("no setsid(1)");
            return None;
        };
        Some(Terminal {
            process,
            master: master.into(),
            seen: String::new(),
        })
    }

    /// Reads until the text has come.
    pub(crate) fn wait_for(&mut self, wanted: &str) {
        let mut buffer = [0; 4096];
        while !plain(&self.seen).contains(wanted) {
            match self.master.read(&mut buffer) {
                Ok(n) if n > 0 => self.seen.push_str(&text(&buffer[..n])),
                end => panic!("{wanted:?} has not come before {end:?}: {}", self.seen),
            }
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Its terminal goes, and whatever it has still to say. How it has ended then.
    pub(crate) fn hang_up(self) -> ExitStatus {
        let Terminal {
            mut process, master, ..
        } = self;
        drop(master);
        let pid = rustix::process::Pid::from_child(&process);
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(process.wait().unwrap()));
        told.recv_timeout(ENDS_WITHIN).unwrap_or_else(|_| {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("it goes on without its terminal")
        })
    }

    /// Its exit code, once it has ended.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut buffer = [0; 4096];
        // Reading a terminal that no process has open is an error.
        while let Ok(n @ 1..) = self.master.read(&mut buffer) {
            self.seen.push_str(&text(&buffer[..n]));
        }
        (self.process.wait().unwrap().code(), self.seen)
    }
}

/// What was drawn, without how: what is empty already is not drawn, so a move of the cursor stands for room.
pub(crate) fn plain(seen: &str) -> String {
    let mut parts = seen.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        let Some(end) = end else { continue };
        if part[end..].starts_with('H') {
            plain.push(' ');
        }
        plain.push_str(&part[end + 1..]);
    }
    plain
}
