//! The cache's messages about slow and rare events (`millpond::events`), as lines on standard error.
//!
//! They look like the mount's own: `millpond mount: warning: …`, in a file with the time before it.
//!
//! For a mount in the background, standard error goes to its log, or to the system's (`Syslog`). No level has a line
//! for a hit.
//!
//! A thread of its own writes them: a thread that serves a file does not wait for a terminal that nobody reads. Lines
//! that it can't keep up with are dropped.

use crate::failure::Failure;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;

/// The number of lines that may wait to be written: some 100 KiB.
const LINES_MAX: usize = 1_000;

/// The variable with the level, if the command line does not give one.
const VARIABLE: &str = "MILLPOND_LOG";

/// The socket for daemons' messages: syslogd's, or journald's.
const SOCKET: &str = "/dev/log";

/// The facility for daemons, in RFC 3164's numbers.
const FACILITY: u32 = 3 * 8;

/// The beginning of every line.
const PREFIX: &str = "millpond mount: ";

/// Whether lines go to a file, and so need a time stamp.
static IS_FILE: AtomicBool = AtomicBool::new(false);

/// Lines go to a file from now on.
pub(crate) fn to_file() {
    IS_FILE.store(true, Ordering::Relaxed);
}

/// The prefix of a line: the time, where nothing else adds it.
pub(crate) fn stamp() -> String {
    let mut stamp = String::new();
    if IS_FILE.load(Ordering::Relaxed) && SystemTime.format_time(&mut Writer::new(&mut stamp)).is_ok() {
        stamp.push(' ');
    }
    stamp
}

/// Formats an event as a line.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let label = match *event.metadata().level() {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            Level::INFO => "",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
        };
        write!(writer, "{}{PREFIX}{label}", stamp())?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The severity of a line, in RFC 3164's numbers.
fn severity(line: &str) -> u32 {
    let said = line.strip_prefix(PREFIX).unwrap_or(line);
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

/// A level as it is typed.
pub(crate) fn level(text: &str) -> Result<LevelFilter, String> {
    let level = text.parse();
    level.map_err(|_| "give off, error, warn, info, debug or trace".into())
}

/// Writes messages from now on, from this level on: the given one, else that of the environment, else warnings. Ends
/// when the result is dropped, which waits at most a second for remaining lines.
pub(crate) fn start(given: Option<LevelFilter>) -> Result<WorkerGuard, Failure> {
    let level = match (given, std::env::var(VARIABLE)) {
        (Some(level), _) => level,
        (None, Ok(text)) if !text.is_empty() => {
            level(&text).map_err(|why| Failure::bad_usage(format!("{VARIABLE}={text}: {why}")))?
        }
        (None, _) => LevelFilter::WARN,
    };
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("millpond-log")
        .finish(io::stderr());
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(writer)
        // They would go to standard error, which is what has failed.
        .log_internal_errors(false)
        .event_format(Lines)
        .init();
    Ok(guard)
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
