//! Ctrl-C and its relatives: the first one asks to stop and clean up, the second one leaves at once.

use millpond_fuse::Events;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals as Iterator;
use signal_hook::low_level;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Whether a signal has asked to stop.
pub(crate) struct Signals {
    /// The signal's number, 0 before one came.
    caught: Arc<AtomicUsize>,
}

/// A file that would become too long (`ulimit -f`) is an error of the call that writes it, and does not end the
/// process.
pub(crate) fn outlive_long_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub(crate) fn catch() -> io::Result<Signals> {
        Signals::ended_by(&[SIGINT, SIGTERM, SIGHUP])
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
        Ok(Signals { caught })
    }

    /// The signal that came, if one did.
    pub(crate) fn caught(&self) -> Option<u8> {
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(signal).ok(),
        }
    }
}

/// Called before the second signal ends the process.
type LastWords = Box<dyn Fn() + Send + Sync>;

/// Signals of a mount. A thread of its own takes them, because all others may be waiting for a disk.
pub(crate) struct MountSignals {
    /// The first signal's number, 0 before it came.
    first: Arc<AtomicUsize>,
    hung_up: Arc<AtomicBool>,
    last_words: Arc<OnceLock<LastWords>>,
}

impl MountSignals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on. In the background SIGHUP does not end the mount: log rotation
    /// uses it to request a new log. `events` is told of each.
    pub(crate) fn catch(in_background: bool, events: Events) -> io::Result<MountSignals> {
        let signals = MountSignals {
            first: Arc::default(),
            hung_up: Arc::default(),
            last_words: Arc::default(),
        };
        let (first, hung_up) = (signals.first.clone(), signals.hung_up.clone());
        let last_words = signals.last_words.clone();
        let mut all = Iterator::new([SIGINT, SIGTERM, SIGHUP])?;
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in all.forever() {
                if signal == SIGHUP && in_background {
                    hung_up.store(true, Ordering::Relaxed);
                    events.notify();
                } else if first.load(Ordering::Relaxed) == 0 {
                    first.store(signal as usize, Ordering::Relaxed);
                    events.notify();
                } else {
                    if let Some(words) = last_words.get() {
                        words();
                    }
                    low_level::exit(128 + signal);
                }
            }
        })?;
        Ok(signals)
    }

    /// Calls this before the second signal ends the process. To be set once.
    pub(crate) fn before_second(&self, last_words: impl Fn() + Send + Sync + 'static) {
        let _ = self.last_words.set(Box::new(last_words));
    }

    /// Whether SIGHUP has come in the background since the last call.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up.swap(false, Ordering::Relaxed)
    }

    /// Whether a signal has asked for the end.
    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.first.load(Ordering::Relaxed) != 0
    }
}
