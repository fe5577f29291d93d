//! Ctrl-C and its relatives: the first one asks to stop and clean up, the second one leaves at once.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Whether a signal has asked to stop.
pub(crate) struct Stopping(Arc<AtomicUsize>);

impl Stopping {
    /// Catches them from now on. What only waits for a store's first answer has nothing to clean up, and ends by them.
    pub(crate) fn catch() -> io::Result<Stopping> {
        let caught = Arc::new(AtomicUsize::new(0));
        let armed = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal arms what the second one finds.
            flag::register_conditional_shutdown(signal, 128 + signal, armed.clone())?;
            flag::register(signal, armed.clone())?;
            flag::register_usize(signal, caught.clone(), signal as usize)?;
        }
        Ok(Stopping(caught))
    }

    /// # Errors
    /// If one has.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match u8::try_from(self.0.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(signal) => Err(Failure::signalled(signal)),
        }
    }
}
