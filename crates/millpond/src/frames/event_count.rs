//! An event count: a place to wait for an event that may come before the waiter is there.
//!
//! A waiter takes the count first, checks whether it must wait at all, and then waits for the count to
//! change: an event between look and wait is not lost.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct EventCount {
    count: Mutex<u64>,
    moved: Condvar,
}

impl EventCount {
    /// The number of events.
    pub(crate) fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits until there were more than `seen` events, or `at_most` has passed.
    pub(crate) fn wait(&self, seen: u64, at_most: Duration) {
        let mut count = self.count.lock();
        if *count == seen {
            self.moved
                .wait_while_for(&mut count, |count| *count == seen, at_most);
        }
    }

    /// An event: all waiters go on.
    pub(crate) fn notify_all(&self) {
        *self.count.lock() += 1;
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_between_look_and_wait_is_not_lost() {
        let events = EventCount::default();
        let seen = events.count();
        events.notify_all();
        // Would sleep for an hour.
        events.wait(seen, Duration::from_secs(3600));
    }
}
