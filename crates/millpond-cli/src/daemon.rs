//! A process in the background: starting it, its log, its pid file.
//!
//! The program starts itself once more, in a session of its own, and ends when the new process reports that it serves.

use crate::failure::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ends the message of a background process to its starter: no path contains this byte.
const END: u8 = 0;

/// Starts this program once more, with the same arguments and this one. Returns its message when it serves; `None` if
/// it has ended without one. It inherits none of our descriptors but standard error, since a lock or pipe would stay
/// with it for good.
pub(crate) fn start(argument: &str) -> io::Result<(Child, Option<Vec<u8>>)> {
    millpond::internal::hand_on_no_descriptors();
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_until(END, &mut said)?;
    }
    Ok((child, (said.pop() == Some(END)).then_some(said)))
}

/// Reports to the process that started this one, which then ends.
pub(crate) fn serves(what: &[u8]) -> io::Result<()> {
    let mut said = what.to_vec();
    said.push(END);
    let mut stdout = io::stdout().lock();
    stdout.write_all(&said)?;
    stdout.flush()
}

/// The file for messages that `--log` names.
pub(crate) struct LogFile {
    path: PathBuf,
}

impl LogFile {
    /// # Errors
    /// Of the command line, if it can't be opened.
    pub(crate) fn at(path: &Path) -> Result<LogFile, Failure> {
        let log = LogFile {
            path: std::path::absolute(path)?,
        };
        log.open().map(|_| log)
    }

    pub(crate) fn open(&self) -> Result<File, Failure> {
        // The serving process has no umask, and no other user may write there.
        let mut file = OpenOptions::new();
        let opened = file.append(true).create(true).mode(0o644).open(&self.path);
        opened.map_err(|e| Failure::bad_usage(format!("--log {}: {e}", self.path.display())))
    }

    /// Sends messages from now on to the file that has this name now: log rotation has renamed the other. If it can't
    /// be opened, keeps the old file and returns why.
    pub(crate) fn reopen(&self) -> Result<(), String> {
        let file = self
            .open()
            .map_err(|failure| failure.message.unwrap_or_default())?;
        leave_terminal(&file).map_err(|error| error.to_string())
    }
}

/// Sends standard output and error to this file.
pub(crate) fn leave_terminal(log: &File) -> io::Result<()> {
    rustix::stdio::dup2_stderr(log)?;
    rustix::stdio::dup2_stdout(log)?;
    Ok(())
}

pub(crate) fn nowhere() -> io::Result<File> {
    OpenOptions::new().write(true).open("/dev/null")
}

/// The pid file of this process, until it is dropped.
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    pub(crate) fn write(path: &Path) -> Result<PidFile, Failure> {
        let path = std::path::absolute(path)?;
        // The serving process has no umask, and no other user may put another number there.
        let mut file = OpenOptions::new();
        let file = file
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&path);
        let written = file.and_then(|mut file| writeln!(file, "{}", std::process::id()));
        written.map_err(|e| Failure::bad_usage(format!("--pid-file {}: {e}", path.display())))?;
        Ok(PidFile(path))
    }

    /// Checks what can be known before there is a number to write. An existing file may be another process's, and is
    /// left alone.
    pub(crate) fn check(path: &Path) -> Result<(), Failure> {
        let bad = |why: &str| Failure::bad_usage(format!("--pid-file {}: {why}", path.display()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder.is_none_or(Path::is_dir) {
            _ if path.is_dir() => Err(bad("it is a directory")),
            true => Ok(()),
            false => Err(bad("its directory does not exist")),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
