//! A process in the background: made, its log, the file with its number.
//!
//! The program starts itself once more, in a session of its own, and ends when that one says that it serves.

use crate::failure::Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ends what a process in the background says to the one that has started it: no path has this byte in it.
const END: u8 = 0;

/// Starts this program once more, with the same arguments and this one. What it says when it serves; `None` if it has ended
/// without a word. It gets none of our descriptors but standard error, as a lock or pipe would stay with it for good.
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

/// Says it to the process that has started this one, which ends then.
pub(crate) fn serves(what: &[u8]) -> io::Result<()> {
    let mut said = what.to_vec();
    said.push(END);
    let mut stdout = io::stdout().lock();
    stdout.write_all(&said)?;
    stdout.flush()
}

/// A file for what there is to say, as `--log` names it.
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
        // The process that serves has no umask, and no other user may write there.
        let mut file = OpenOptions::new();
        let opened = file.append(true).create(true).mode(0o644).open(&self.path);
        opened.map_err(|e| Failure::bad_usage(format!("--log {}: {e}", self.path.display())))
    }

    /// What is said from now on goes to the file that has this name by now: whoever rotates logs has given the other a new
    /// one. Stays with that if it can't be opened: why.
    pub(crate) fn reopen(&self) -> Result<(), String> {
        let file = self
            .open()
            .map_err(|failure| failure.message.unwrap_or_default())?;
        leave_terminal(&file).map_err(|error| error.to_string())
    }
}

/// What is written to standard output and error goes to this file.
pub(crate) fn leave_terminal(log: &File) -> io::Result<()> {
    rustix::stdio::dup2_stderr(log)?;
    rustix::stdio::dup2_stdout(log)?;
    Ok(())
}

pub(crate) fn nowhere() -> io::Result<File> {
    OpenOptions::new().write(true).open("/dev/null")
}

/// The file with the number of this process, until it is dropped.
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    pub(crate) fn write(path: &Path) -> Result<PidFile, Failure> {
        let path = std::path::absolute(path)?;
        // The process that serves has no umask, and no other user may put another number there.
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

    /// What can be known of it before there is a number to write. It may be another's, which is left alone.
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
