//! The cache's events through the `tracing` crate: slow and rare ones, and no hit.
//!
//! | target | level | what |
//! |---|---|---|
//! | `millpond::file` | debug | a file was opened, closed |
//! | `millpond::file` | error | its changes are lost: what could not be written when its last handle was dropped, or not be kept |
//! | `millpond::write` | warn | the device refused a write, the first of a file since all were written; its pages stay, dirty |
//! | `millpond::sync` | error | a file could not be made durable |
//! | `millpond::stall` | info, debug | a call waited for one thing for 100 ms, 10 ms, or longer |
//! | `millpond::settings` | info | settings were changed: by which program or part, from what to what |
//! | `millpond::watchdog` | warn | what [`Builder::on_warning`](crate::Builder::on_warning) is told as well |
//! | `millpond::trace` | info | a recording has begun, has ended |
//!
//! Without a subscriber each of them is a look at one variable, on paths that take a lock or wait anyhow. They come from
//! the thread that met them, without the core lock; some with a lock of the file they are about, so a subscriber must not use
//! the cache. `crates/millpond/tests/all/events.rs` collects them.

use crate::device::Warning;
use crate::error::Error;
use crate::error::told::Surface;
use crate::observe::explain::Wait;
use crate::observe::history::Change;
#[cfg(feature = "trace")]
use crate::observe::trace::{Ended, Recorded};
use millpond_core::units::PageIndex;
use std::path::Path;
use std::time::Duration;
use tracing::Level;

/// A wait of this length is reported at `info`: what a person notices.
const STALL_LONG: Duration = Duration::from_millis(100);
/// And at `debug`: longer than a healthy disk takes.
const STALL: Duration = Duration::from_millis(10);

const STALLS: &str = "millpond::stall";

pub(crate) fn opened(path: &Path, pages: u64) {
    tracing::debug!(target: "millpond::file", path = %path.display(), pages, "opened");
}

pub(crate) fn closed(path: &Path) {
    tracing::debug!(target: "millpond::file", path = %path.display(), "closed");
}

pub(crate) fn lost(path: &Path, error: &Error) {
    let error = error.told_lost(Surface::Rust);
    tracing::error!(target: "millpond::file", path = %path.display(), %error, "changes are lost");
}

pub(crate) fn write_failed(path: &Path, first: PageIndex, pages: usize, error: &std::io::Error) {
    tracing::warn!(
        target: "millpond::write",
        path = %path.display(), first_page = first.0, pages, %error, "a write has failed"
    );
}

pub(crate) fn sync_failed(path: &Path, error: &Error) {
    tracing::error!(target: "millpond::sync", path = %path.display(), %error, "not durable");
}

/// Whether a subscriber wants stalls: only then is the time taken.
pub(crate) fn wants_stalls() -> bool {
    tracing::enabled!(target: STALLS, Level::INFO)
}

pub(crate) fn waited(wait: Wait, waited: Duration) {
    let waited_ms = waited.as_millis() as u64;
    if waited >= STALL_LONG {
        tracing::info!(target: STALLS, wait = ?wait, waited_ms, "a call has waited");
    } else if waited >= STALL {
        tracing::debug!(target: STALLS, wait = ?wait, waited_ms, "a call has waited");
    }
}

pub(crate) fn changed(change: &Change) {
    for setting in &change.settings {
        let none = "(not there)";
        let (old, new) = (setting.old.as_deref(), setting.new.as_deref());
        tracing::info!(
            target: "millpond::settings",
            name = setting.name, old = old.unwrap_or(none), new = new.unwrap_or(none), by = %change.by, "changed"
        );
    }
}

pub(crate) fn warned(warning: &Warning) {
    tracing::warn!(target: "millpond::watchdog", "{warning}");
}

#[cfg(feature = "trace")]
pub(crate) fn recording(path: &Path) {
    tracing::info!(target: "millpond::trace", path = %path.display(), "recording");
}

#[cfg(feature = "trace")]
pub(crate) fn recorded(recorded: &Recorded) {
    let (path, accesses, lost) = (recorded.path.display(), recorded.accesses, recorded.lost);
    match &recorded.ended {
        Ended::Failed(why) => {
            tracing::warn!(target: "millpond::trace", %path, accesses, lost, why, "recording has failed");
        }
        ended => tracing::info!(target: "millpond::trace", %path, accesses, lost, why = %ended, "recorded"),
    }
}
