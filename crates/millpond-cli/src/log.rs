//! The cache's messages about slow and rare events (`millpond::events`), as lines on standard error.
//!
//! They look like the mount's own: `millpond mount: warning: …`, in a file with the time before it.
//!
//! For a mount in the background, standard error goes to its log, or to the system's (`syslog`). No level has a line
//! for a hit.
//!
//! A thread of its own writes them: a thread that serves a file does not wait for a terminal that nobody reads. Lines
//! that it can't keep up with are dropped.

use crate::failure::Failure;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
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
