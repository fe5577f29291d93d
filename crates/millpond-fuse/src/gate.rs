//! The gate that stops a mount for a moment while its kernel connection stays: no thread reads a request, and none that was read
//! is left without an answer.
//!
//! ```text
//!   open ── closing: notifications end ── parking: each thread answers one question of ours, and waits ── all wait, pools empty
//!    ▲                                       │ not within a time: a request waits for another that nobody reads              │
//!    └───────────────────────────────────────┴───────────────────────────── opened ◄───────────────────────────────────────┘
//! ```
//!
//! A thread that reads /dev/fuse can't be called back without a request that it has perhaps taken. So the process asks its own
//! mount a question for each of them ([`PROCESS_ATTRIBUTE`](crate::own_attributes::PROCESS_ATTRIBUTE)); the thread that has
//! answered one does not return to the kernel until the gate is opened. What programs ask meanwhile waits in the kernel.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Gate {
    /// Nothing may begin that waits for the kernel, which may wait for an answer of ours.
    is_closing: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that have answered wait here.
    is_parking: bool,
    parked: usize,
    /// Notifications that have begun and not ended.
    notifying: usize,
}

/// A notification to the kernel that has begun; dropped at its end.
pub(crate) struct Notifying<'a>(&'a Gate);

impl Drop for Notifying<'_> {
    fn drop(&mut self) {
        self.0.state.lock().notifying -= 1;
        self.0.changed.notify_all();
    }
}

impl Gate {
    /// To be held during a notification that no request waits for. `None` while the gate closes: there is another time for it.
    pub(crate) fn notify(&self) -> Option<Notifying<'_>> {
        let mut state = self.state.lock();
        if self.is_closing.load(Ordering::SeqCst) {
            return None;
        }
        state.notifying += 1;
        Some(Notifying(self))
    }

    /// By a thread that has answered the kernel a question of this process: does not return while threads are parked.
    pub(crate) fn park(&self) {
        if !self.is_closing.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.state.lock();
        if state.is_parking {
            state.parked += 1;
            self.changed.notify_all();
            while state.is_parking {
                self.changed.wait(&mut state);
            }
            state.parked -= 1;
            self.changed.notify_all();
        }
    }

    /// Lets no notification begin, and waits for those that have. Whether they have ended in time.
    pub(crate) fn close(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        self.is_closing.store(true, Ordering::SeqCst);
        while state.notifying > 0 {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return state.notifying == 0;
            }
        }
        true
    }

    /// Threads park from now on.
    pub(crate) fn begin_parking(&self) {
        self.state.lock().is_parking = true;
    }

    /// Waits until so many are parked. Whether they are, in time.
    pub(crate) fn wait_parked(&self, threads: usize, until: Instant) -> bool {
        let mut state = self.state.lock();
        while state.parked < threads {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return state.parked >= threads;
            }
        }
        true
    }

    pub(crate) fn is_parking(&self) -> bool {
        self.state.lock().is_parking
    }

    /// Lets go of parked threads, and waits until they have gone on.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.is_parking = false;
        self.changed.notify_all();
        while state.parked > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// All is as before.
    pub(crate) fn open(&self) {
        self.release();
        self.is_closing.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(10)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(100)
    }

    #[test]
    fn threads_are_parked_until_the_gate_opens_and_pass_while_it_is_open() {
        let gate = Arc::new(Gate::default());
        gate.park();
        assert!(gate.close(late()));
        gate.park();
        gate.begin_parking();
        assert!(!gate.wait_parked(1, soon()));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let gate = gate.clone();
                thread::spawn(move || gate.park())
            })
            .collect();
        assert!(gate.wait_parked(2, late()));
        assert!(threads.iter().all(|thread| !thread.is_finished()));
        gate.open();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        gate.park();
    }

    #[test]
    fn a_closing_gate_waits_for_notifications_and_lets_none_begin() {
        let gate = Gate::default();
        let notifying = gate.notify().unwrap();
        assert!(!gate.close(soon()));
        assert!(gate.notify().is_none());
        drop(notifying);
        assert!(gate.close(late()));
        gate.open();
        assert!(gate.notify().is_some());
    }
}
