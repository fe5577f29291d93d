//! A process with caches: the test program itself, started once more for one of its tests.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part of it; a test fails by panicking, and its process says on standard output where it is"
)]

use std::io::{BufRead, BufReader, Lines, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// In the process with the caches: their number.
const COUNT: &str = "MILLPOND_TEST_CACHES";

/// The number of caches of this process, if it was started for them.
pub(crate) fn wanted() -> Option<usize> {
    Some(std::env::var(COUNT).ok()?.parse().unwrap())
}

/// The caches are there, with these sockets: says so, and waits until the test ends this process.
pub(crate) fn serve<'a>(sockets: impl IntoIterator<Item = &'a Path>) {
    for socket in sockets {
        println!("\nsocket {}", socket.display());
    }
    println!("\nready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process with caches, whose sockets are in a folder of the test's.
pub(crate) struct CacheProcess {
    process: Child,
    /// Not closed before it ends: it writes there.
    _said: Lines<BufReader<ChildStdout>>,
    pub(crate) sockets: Vec<PathBuf>,
}

impl CacheProcess {
    /// Starts the test `name`, which makes the caches and calls [`serve`].
    pub(crate) fn start(name: &str, folder: &Path, count: u32) -> CacheProcess {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(COUNT, count.to_string())
            .env("XDG_RUNTIME_DIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let until_ready = said
            .by_ref()
            .map(|line| line.unwrap())
            .take_while(|line| line != "ready");
        let sockets = until_ready.filter_map(|line| line.strip_prefix("socket ").map(PathBuf::from));
        CacheProcess {
            sockets: sockets.collect(),
            _said: said,
            process,
        }
    }

    pub(crate) fn pid(&self) -> String {
        self.process.id().to_string()
    }

    /// Its caches are dropped.
    pub(crate) fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
