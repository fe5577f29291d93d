//! What the cache says of slow and rare things (`millpond::events`), as lines on standard error.
//!
//! They look like what the mount says itself: `millpond mount: warning: …`, in a file with the time before it.
//!
//! A mount in the background has standard error in its log, or in the system's (`Syslog`). What a hit does is in no line at
//! any level.
//!
//! A thread of its own writes them: a thread that serves a file does not wait for a terminal that is not read. What it can't keep
//! up with is dropped.

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

/// Lines that wait to be written: some 100 KiB.
const LINES_MAX: usize = 1_000;

/// What says how much, where the command line does not.
const VARIABLE: &str = "MILLPOND_LOG";

/// Where the system takes what daemons say: syslogd, or journald.
const SOCKET: &str = "/dev/log";

/// Of daemons, as RFC 3164 counts.
const FACILITY: u32 = 3 * 8;

/// What every line begins with.
const PREFIX: &str = "millpond mount: ";

/// Lines go to a file, which does not know when they came.
static IS_FILE: AtomicBool = AtomicBool::new(false);

/// What is said from now on goes to a file.
pub(crate) fn to_file() {
    IS_FILE.store(true, Ordering::Relaxed);
}

/// What comes before a line: the time, where nothing else has it.
pub(crate) fn stamp() -> String {
    let mut stamp = String::new();
    if IS_FILE.load(Ordering::Relaxed) && SystemTime.format_time(&mut Writer::new(&mut stamp)).is_ok() {
        stamp.push(' ');
    }
    stamp
}

/// An event as a line.
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

/// How much a line matters, as RFC 3164 counts.
fn severity(line: &str) -> u32 {
    let said = line.strip_prefix(PREFIX).unwrap_or(line);
    let labels = [("error: ", 3), ("warning: ", 4), ("debug: ", 7), ("trace: ", 7)];
    let label = labels.iter().find(|(label, _)| said.starts_with(label));
    label.map_or(6, |(_, severity)| *severity)
}

/// A log that is not read for so long is left alone.
const TAKES_WITHIN: Duration = Duration::from_secs(1);

/// A line is cut here: what RFC 3164 lets a message be, and no line of ours is.
const LINE_BYTES_MAX: u64 = 1024;

/// A file whose lines go to the system's log.
pub(crate) struct Syslog {
    thread: JoinHandle<()>,
}

impl Syslog {
    /// What is written to the file goes there, from now on; `None` where there is no such log.
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
        // A writer to the file waits for the system's log this long at most, and what that has not taken is lost.
        sender.set_write_timeout(Some(TAKES_WITHIN))?;
        let (read, write) = io::pipe()?;
        let socket = socket.to_owned();
        let thread = thread::Builder::new()
            .name("syslog".into())
            .spawn(move || hand_on(&sender, &socket, read))?;
        let file = File::from(std::os::fd::OwnedFd::from(write));
        Ok(Some((file, Syslog { thread })))
    }

    /// Waits until all is handed on: standard output and error have to be elsewhere by then, and the file closed.
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
        // One that was started anew has another socket there. What it does not take then is lost.
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

/// Writes what is said from now on, from this level on: the given one, else that of the environment, else warnings. Until
/// the answer is dropped, which waits a second at most for what is left.
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
        // They would go to standard error, which is what does not work.
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
