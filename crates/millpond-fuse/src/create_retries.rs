//! Creates that the kernel was told to look up again (`ESTALE`), so that the second attempt of the same call is
//! recognized.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};

/// So many are remembered: most do not come again, as the kernel then finds the file.
const REMEMBERED_MAX: usize = 64;

/// One call of one thread.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Create {
    thread: u32,
    parent: u64,
    name: OsString,
}

/// The calls that were answered `ESTALE`, the oldest first.
#[derive(Default)]
pub(crate) struct CreateRetries(Mutex<VecDeque<Create>>);

impl CreateRetries {
    /// All of them, for the process that takes over.
    pub(crate) fn remembered(&self) -> Vec<Create> {
        self.0.lock().iter().cloned().collect()
    }

    /// Remembers what the process that served before has remembered.
    pub(crate) fn go_on_from(&self, creates: Vec<Create>) {
        *self.0.lock() = creates.into();
    }

    /// Takes the call out if it is here: this is its second time. Else remembers it, and says no.
    pub(crate) fn take_or_remember(&self, thread: u32, parent: u64, name: &OsStr) -> bool {
        let mut creates = self.0.lock();
        let is_same = |c: &Create| (c.thread, c.parent) == (thread, parent) && c.name == name;
        if let Some(n) = creates.iter().position(is_same) {
            creates.remove(n);
            return true;
        }
        if creates.len() == REMEMBERED_MAX {
            creates.pop_front();
        }
        creates.push_back(Create {
            thread,
            parent,
            name: name.to_owned(),
        });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_create_is_known_the_second_time_and_only_of_the_same_thread_and_name() {
        let retries = CreateRetries::default();
        let comes = |thread, name: &str| retries.take_or_remember(thread, 1, OsStr::new(name));
        assert!(!comes(7, "a"));
        assert!(!comes(8, "a") && !comes(7, "b"));
        assert!(comes(7, "a"));
        assert!(!comes(7, "a"));
    }

    #[test]
    fn the_oldest_of_too_many_creates_is_forgotten() {
        let retries = CreateRetries::default();
        let comes = |thread| retries.take_or_remember(thread, 1, OsStr::new("a"));
        for thread in 0..=REMEMBERED_MAX as u32 {
            assert!(!comes(thread));
        }
        assert!(!comes(0) && comes(REMEMBERED_MAX as u32));
    }
}
