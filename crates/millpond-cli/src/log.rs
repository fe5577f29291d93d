//! What the cache says of slow and rare things (`millpond::events`), as lines on standard error.
//!
//! A mount in the background has standard error in its log, or nowhere. What a hit does is in no line at any level.

use crate::Failure;
use std::io;
use tracing_subscriber::filter::LevelFilter;

/// What says how much, where the command line does not.
const VARIABLE: &str = "MILLPOND_LOG";

/// A level as it is typed.
pub(crate) fn level(text: &str) -> Result<LevelFilter, String> {
    let level = text.parse();
    level.map_err(|_| "give off, error, warn, info, debug or trace".into())
}

/// Writes what is said from now on, from this level on: the given one, else that of the environment, else warnings.
pub(crate) fn start(given: Option<LevelFilter>) -> Result<(), Failure> {
    let level = match (given, std::env::var(VARIABLE)) {
        (Some(level), _) => level,
        (None, Ok(text)) if !text.is_empty() => {
            level(&text).map_err(|why| Failure::bad_usage(format!("{VARIABLE}={text}: {why}")))?
        }
        (None, _) => LevelFilter::WARN,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(io::stderr)
        .init();
    Ok(())
}
