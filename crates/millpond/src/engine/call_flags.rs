//! What makes calls unusual: a cache that is unusable, one that is another process's, one whose calls are being recorded, and one
//! that has a page of a file which others have cut.
//!
//! A background thread that dies takes the cache with it, loudly: every call says so, and no thread waits for
//! it. Calls look at one byte for this and for whether they are recorded (`trace/`), so that the second costs
//! nothing.

use crate::error::{Error, Result};
use crate::sys::forks::Maker;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The cache is unusable: there is a reason.
const POISONED: u8 = 1;
/// Its calls are recorded.
#[cfg(feature = "trace")]
const RECORDED: u8 = 2;
/// A page of some file is short: others have cut the file.
const SHORT: u8 = 4;

/// What each call looks at first.
#[derive(Debug)]
pub(crate) struct CallFlags {
    maker: Maker,
    why: OnceLock<String>,
    unusual: AtomicU8,
}

impl CallFlags {
    /// Of a cache that this process makes.
    pub(crate) fn new() -> CallFlags {
        CallFlags {
            maker: Maker::this(),
            why: OnceLock::new(),
            unusual: AtomicU8::new(0),
        }
    }

    /// Whether this process is a forked child of the one that has the cache, which has none of its threads.
    #[inline]
    pub(crate) fn is_of_another(&self) -> bool {
        self.maker.is_another()
    }

    /// # Errors
    /// [`Error::Poisoned`] if it is; [`Error::Forked`].
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_of_another() {
            return Err(Error::Forked);
        }
        match self.is_poisoned().then(|| self.why.get()).flatten() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
        }
    }

    /// Every later call fails. The first reason is kept.
    pub(crate) fn poison(&self, why: String) {
        let _ = self.why.set(why);
        // A thread that sees the bit sees the reason.
        self.unusual.fetch_or(POISONED, Ordering::Release);
    }

    /// Whether the cache is poisoned.
    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.unusual.load(Ordering::Acquire) & POISONED != 0
    }

    /// Whether a call has nothing to look at but its pages: neither poisoned, recorded, with a short page nor another
    /// process's. Two loads.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.unusual.load(Ordering::Acquire) == 0 && !self.is_of_another()
    }

    /// A page of some file is short, or none is any more.
    pub(crate) fn set_short(&self, is_short: bool) {
        match is_short {
            true => self.unusual.fetch_or(SHORT, Ordering::Release),
            false => self.unusual.fetch_and(!SHORT, Ordering::Release),
        };
    }

    /// Whether calls are recorded from now on.
    #[cfg(feature = "trace")]
    pub(crate) fn set_recorded(&self, recorded: bool) {
        match recorded {
            true => self.unusual.fetch_or(RECORDED, Ordering::Release),
            false => self.unusual.fetch_and(!RECORDED, Ordering::Release),
        };
    }
}

/// Poisons when it is dropped by a panic that began while it lived. A call of a thread that panics already, as of whatever
/// drops a handle then, is no worse than others.
pub(crate) struct PoisonOnPanic<F: Fn(String)> {
    pub(crate) who: &'static str,
    pub(crate) hit: F,
    /// Whether the thread was panicking before.
    pub(crate) before: bool,
}

impl<F: Fn(String)> Drop for PoisonOnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.before {
            (self.hit)(format!(
                "its {} has panicked; the message is on standard error",
                self.who
            ));
        }
    }
}
