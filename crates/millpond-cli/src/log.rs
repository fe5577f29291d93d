//! What the cache says of slow and rare things (`millpond::events`), as lines on standard error.
//!
//! A mount in the background has standard error in its log, or nowhere. What a hit does is in no line at any level.
//!
//! A thread of its own writes them: who serves a file does not wait for a terminal that nobody reads. What it can't keep
//! up with is dropped.

use crate::Failure;
use std::io;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;

/// Lines that wait to be written: some 100 KiB.
const LINES_MAX: usize = 1_000;

/// What says how much, where the command line does not.
const VARIABLE: &str = "MILLPOND_LOG";

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
        // It would be told on standard error, which is what does not work.
        .log_internal_errors(false)
        .init();
    Ok(guard)
}
