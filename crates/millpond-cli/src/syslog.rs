//! The system's log, for the messages of a process in the background: syslogd's, or journald's.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The socket for daemons' messages.
const SOCKET: &str = "/dev/log";

/// The facility for daemons, in RFC 3164's numbers.
const FACILITY: u32 = 3 * 8;

/// How lines begin, of a directory's mount and of a store's.
const PREFIXES: [&str; 2] = ["millpond mount: ", "millpond: "];

/// The severity of a line, in RFC 3164's numbers.
fn severity(line: &str) -> u32 {
    let said = PREFIXES.iter().find_map(|prefix| line.strip_prefix(prefix));
    let said = said.unwrap_or(line);
    let labels = [("error: ", 3), ("warning: ", 4), ("debug: ", 7), ("trace: ", 7)];
    let label = labels.iter().find(|(label, _)| said.starts_with(label));
    label.map_or(6, |(_, severity)| *severity)
}

/// How long to wait for a log that is not being read.
const TAKES_WITHIN: Duration = Duration::from_secs(1);

/// Lines are cut here: RFC 3164's limit for a message, which no line of ours reaches.
const LINE_BYTES_MAX: u64 = 1024;

/// A file whose lines go to the system's log.
pub(crate) struct Syslog {
    thread: JoinHandle<()>,
}

impl Syslog {
    /// Writes to the file go to the system's log from now on; `None` where there is none.
    ///
    /// # Errors
    /// If the system gives no pipe or thread.
    pub(crate) fn open() -> io::Result<Option<(File, Syslog)>> {
        Syslog::at(Path::new(SOCKET))
    }

    fn at(socket: &Path) -> io::Result<Option<(File, Syslog)>> {
        let sender = UnixDatagram::unbound()?;
        if sender.connect(socket).is_err() {
            return Ok(None);
        }
        // A writer to the file waits for the system's log at most this long; what is not taken by then is lost.
        sender.set_write_timeout(Some(TAKES_WITHIN))?;
        let (read, write) = io::pipe()?;
        let socket = socket.to_owned();
        let thread = thread::Builder::new()
            .name("syslog".into())
            .spawn(move || hand_on(&sender, &socket, read))?;
        let file = File::from(std::os::fd::OwnedFd::from(write));
        Ok(Some((file, Syslog { thread })))
    }

    /// Waits until everything is handed on: by then standard output and error must be redirected, and the file closed.
    pub(crate) fn end(self) {
        let _ = self.thread.join();
    }
}

fn hand_on(sender: &UnixDatagram, socket: &PathBuf, read: io::PipeReader) {
    let mut lines = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let whole = io::Read::take(&mut lines, LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(whole, Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let priority = FACILITY + severity(text);
        let message = format!("<{priority}>millpond[{}]: {text}", std::process::id());
        // A restarted log has another socket there. What it does not take is lost.
        if sender.send(message.as_bytes()).is_err() && sender.connect(socket).is_ok() {
            let _ = sender.send(message.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_go_to_the_systems_log_and_to_the_one_that_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert!(Syslog::at(&path).unwrap().is_none(), "there is none");
        let first = UnixDatagram::bind(&path).unwrap();
        let (mut file, syslog) = Syslog::at(&path).unwrap().unwrap();
        let received = |log: &UnixDatagram| {
            let mut bytes = [0; 2000];
            let count = log.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        let head = |severity: u32| format!("<{}>millpond[{}]: ", 24 + severity, std::process::id());
        writeln!(
            file,
            "millpond mount: error: can't write /srv/a\n\nmillpond mount: warning: and this"
        )
        .unwrap();
        assert_eq!(
            received(&first),
            format!("{}millpond mount: error: can't write /srv/a", head(3))
        );
        assert_eq!(
            received(&first),
            format!("{}millpond mount: warning: and this", head(4))
        );
        let head = head(6);
        drop(first);
        std::fs::remove_file(&path).unwrap();
        let second = UnixDatagram::bind(&path).unwrap();
        write!(file, "{}", "x".repeat(1500)).unwrap();
        drop(file);
        assert_eq!(received(&second).len(), head.len() + 1024);
        syslog.end();
        assert_eq!(received(&second).len(), head.len() + 476);
    }
}
