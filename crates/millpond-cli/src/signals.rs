//! Ctrl-C and its relatives: the first one asks to stop and clean up, the second one leaves at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether a signal has asked to stop.
pub(crate) struct Signals {
    /// The signal's number, 0 before one came.
    caught: Arc<AtomicUsize>,
    /// In the background, SIGHUP came.
    hung_up: Arc<AtomicBool>,
}

/// A file that may not become so long (`ulimit -f`) is an error of the call that would make it so, and no end of the
/// process.
pub(crate) fn outlive_long_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn catch() -> io::Result<Signals> {
        Signals::ended_by(&[SIGINT, SIGTERM, SIGHUP])
    }

    /// Catches SIGINT and SIGTERM, and notes SIGHUP, by which programs that rotate logs ask for a new one.
    pub(crate) fn catch_in_background() -> io::Result<Signals> {
        let signals = Signals::ended_by(&[SIGINT, SIGTERM])?;
        flag::register(SIGHUP, Arc::clone(&signals.hung_up))?;
        Ok(signals)
    }

    fn ended_by(signals: &[i32]) -> io::Result<Signals> {
        let caught = Arc::new(AtomicUsize::new(0));
        let stopping = Arc::new(AtomicBool::new(false));
        for &signal in signals {
            // in this order: the first signal arms what the second one finds
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stopping))?;
            flag::register(signal, Arc::clone(&stopping))?;
            flag::register_usize(signal, Arc::clone(&caught), signal as usize)?;
        }
        Ok(Signals {
            caught,
            hung_up: Arc::default(),
        })
    }

    /// Whether SIGHUP has come in the background since this was asked last.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up.swap(false, Ordering::Relaxed)
    }

    /// The signal that came, if one did.
    pub(crate) fn caught(&self) -> Option<u8> {
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(signal).ok(),
        }
    }
}
