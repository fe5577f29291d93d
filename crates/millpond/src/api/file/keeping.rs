//! What a file's pages are kept to on their way to the device: whole, in the order of a log, checked.

use super::options::{OpenOptions, StablePages};
use crate::engine::check::PageCheck;
use crate::engine::order::Held;
use crate::error::{Error, Result};
use millpond_core::units::PageIndex;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The same for all handles of a file: as the first one was opened.
pub(crate) struct Keeping {
    pub(crate) stable: StablePages,
    pub(crate) held: Option<Held>,
    pub(crate) check: Option<Arc<dyn PageCheck>>,
}

impl Keeping {
    /// # Errors
    /// If the options exclude one another.
    pub(crate) fn new(options: &OpenOptions) -> io::Result<Keeping> {
        let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if options.is_exclusive() && !options.writes() {
            return refused(
                "only who writes can lock a file: say OpenOptions::write(true) beside exclusive(true)",
            );
        }
        if options.truncates() && !options.writes() {
            return refused(
                "only who writes can cut a file: say OpenOptions::write(true) beside truncate(true)",
            );
        }
        let needs = options.log.is_some() || options.check.is_some();
        let stable = match options.stable {
            None if needs => StablePages::Copy,
            None => StablePages::Off,
            Some(StablePages::Wait) if options.check.is_some() => {
                return refused(
                    "a check stamps a private copy of each page: leave StablePages at Copy, its default then",
                );
            }
            Some(StablePages::Off) if needs => {
                return refused("a log and a check need stable pages: choose StablePages::Copy");
            }
            Some(stable) => stable,
        };
        Ok(Keeping {
            stable,
            held: options.log.as_ref().map(|order| Held::new(order.log().clone())),
            check: options.check.clone(),
        })
    }

    /// Whether pages go to the device as they are, whoever changes them meanwhile.
    pub(crate) fn is_plain(&self) -> bool {
        self.stable == StablePages::Off
    }

    /// Whether a handle with these options can be one of the same file.
    ///
    /// # Errors
    /// If they ask for something else than the first handle did.
    pub(crate) fn agrees_with(&self, options: &OpenOptions) -> io::Result<()> {
        let log = options.log.as_ref().is_none_or(|order| {
            let held = self.held.as_ref();
            held.is_some_and(|held| Arc::ptr_eq(&held.log, order.log()))
        });
        let check = options.check.as_ref().is_none_or(|check| {
            let own = self.check.as_ref();
            own.is_some_and(|own| std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(check)))
        });
        let stable = options.stable.is_none_or(|stable| stable == self.stable);
        if log && check && stable {
            return Ok(());
        }
        let why = "it is open already with another log, check or choice of stable pages: all its handles share those of \
                   the first";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// The page is no more.
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
    /// [`Error::Log`] if pages wait for the log, for somebody who has waited long.
    pub(crate) fn check_late(&self, path: &Path) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let Some(last) = held.last_record() else {
            return Ok(());
        };
        let durable = held.log.durable();
        let why =
            format!("it is durable up to record {durable} and was not made so up to {last} for a long time");
        Err(log_failed(path, io::Error::new(io::ErrorKind::TimedOut, why)))
    }

    /// How many calls the log's callback has had.
    pub(crate) fn log_calls(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.log.calls())
    }
}

pub(crate) fn log_failed(path: &Path, source: io::Error) -> Error {
    Error::Log {
        path: path.to_owned(),
        source,
    }
}
