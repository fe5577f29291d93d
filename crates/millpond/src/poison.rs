//! A background thread that dies takes the cache with it, loudly: every call says so, nobody waits for it.

use crate::error::{Error, Result};
use std::sync::OnceLock;

/// Why the cache can't be used any more, if so.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// # Errors
    /// [`Error::Poisoned`] if it is.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.get() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
        }
    }

    /// The first reason is kept.
    pub(crate) fn set(&self, why: String) {
        let _ = self.0.set(why);
    }

    /// Whether it is.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }
}

/// Poisons when it is dropped by a panic that began while it lived. A call of a thread that panics already, as of whatever
/// drops a handle then, is no worse than others.
pub(crate) struct Dart<F: Fn(String)> {
    pub(crate) who: &'static str,
    pub(crate) hit: F,
    /// Whether the thread was panicking before.
    pub(crate) before: bool,
}

impl<F: Fn(String)> Drop for Dart<F> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.before {
            (self.hit)(format!(
                "its {} has panicked; the message is on standard error",
                self.who
            ));
        }
    }
}
