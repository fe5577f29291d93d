//! The rules for a file's pages on their way to the device: whole, in the order of a log, checked.

use super::check::PageCheck;
use super::order::Held;
use crate::error::{Error, Result};
use millpond_core::units::PageIndex;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What happens when a page is changed while it is being written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum StablePages {
    /// The page changes while the device reads it. The device may store a mix of old and new content, but the page is
    /// then written again, so only a crash in between can expose it. The default, and the fastest.
    #[default]
    Off,
    /// The device gets a private copy, so it always stores a consistent version of the page. Each page written costs a
    /// copy, during which a thread that wants to change the page waits. The copies take a sixteenth of the budget, at
    /// most 4 MiB, from the first such file on. A page without room for its copy is written as with
    /// [`StablePages::Wait`].
    Copy,
    /// A thread that wants to change the page waits until the write is complete; readers don't wait. Costs nothing
    /// else.
    Wait,
}

/// The same for all handles of a file: as the first one was opened.
#[derive(Default)]
pub(crate) struct WritebackRules {
    pub(crate) stable: StablePages,
    pub(crate) held: Option<Held>,
    pub(crate) check: Option<Arc<dyn PageCheck>>,
}

impl WritebackRules {
    /// Whether pages go to the device as they are, even if a thread changes them meanwhile.
    pub(crate) fn is_plain(&self) -> bool {
        self.stable == StablePages::Off
    }

    /// Whether they are those of a file opened without any.
    pub(crate) fn is_default(&self) -> bool {
        self.is_plain() && self.check.is_none() && self.held.is_none()
    }

    /// The page is dropped.
    pub(crate) fn forget(&self, page: PageIndex) {
        if let Some(held) = &self.held {
            held.forget(page);
        }
    }

    /// # Errors
    /// [`Error::Log`] if pages wait for the log, and the last call for it, after the first `calls`, has failed.
    pub(crate) fn check_log(&self, path: &Path, calls: u64) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        match held.log.refused_since(calls) {
            Some(source) if held.last_record().is_some() => Err(log_failed(path, source)),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// [`Error::Log`] if pages wait for the log, for a thread that has waited long.
    pub(crate) fn check_late(&self, path: &Path) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let Some(last) = held.last_record() else {
            return Ok(());
        };
        let durable = held.log.durable();
        let why = format!(
            "it is durable up to record {durable}, and has not reached record {last} for a long time"
        );
        Err(log_failed(path, io::Error::new(io::ErrorKind::TimedOut, why)))
    }

    /// The number of calls of the log's callback.
    pub(crate) fn log_calls(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.log.calls())
    }
}

pub(crate) fn log_failed(path: &Path, source: io::Error) -> Error {
    Error::Log {
        path: path.to_owned(),
        source,
        is_kept: true,
    }
}
