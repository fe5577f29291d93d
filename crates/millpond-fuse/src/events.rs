//! Wakes whoever serves a mount: it has ended, another process asks for it, or the program's own signals have come.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Instant;

/// Tells one thread that there is something to look at. It keeps no more than that.
#[derive(Clone, Default, Debug)]
pub struct Events(Arc<Bell>);

#[derive(Default, Debug)]
struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Events {
    /// Something has happened. To be called after whatever the thread looks at has changed.
    pub fn notify(&self) {
        *self.0.is_rung.lock() = true;
        self.0.rung.notify_one();
    }

    /// Waits until something has happened since the last call, or until then.
    pub fn wait(&self, until: Option<Instant>) {
        let mut is_rung = self.0.is_rung.lock();
        while !*is_rung {
            match until {
                Some(until) if self.0.rung.wait_until(&mut is_rung, until).timed_out() => break,
                Some(_) => {}
                None => self.0.rung.wait(&mut is_rung),
            }
        }
        *is_rung = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_happened_before_the_call_ends_one_wait() {
        let events = Events::default();
        events.notify();
        events.notify();
        events.wait(None);
        events.wait(Some(Instant::now()));
        let other = events.clone();
        let notifies = std::thread::spawn(move || other.notify());
        events.wait(None);
        notifies.join().unwrap();
    }
}
