//! A place to wait for an announcement that may come before one is there.
//!
//! Who wants to wait takes the gate's count first, looks whether it must wait at all, and then waits for the count
//! to move on: an announcement between look and wait is not lost.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Gate {
    count: Mutex<u64>,
    moved: Condvar,
}

impl Gate {
    /// How many announcements there were.
    pub(crate) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits until there were more than `seen` announcements, or `at_most` has passed.
    pub(crate) fn wait(&self, seen: u64, at_most: Duration) {
        let mut count = self.count.lock();
        if *count == seen {
            self.moved
                .wait_while_for(&mut count, |count| *count == seen, at_most);
        }
    }

    /// Lets everybody go on who waits.
    pub(crate) fn announce(&self) {
        *self.count.lock() += 1;
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_between_look_and_wait_is_not_lost() {
        let gate = Gate::default();
        let seen = gate.count();
        gate.announce();
        // Would sleep for an hour.
        gate.wait(seen, Duration::from_secs(3600));
    }
}
