//! The thread that maintains closed files: it writes their times, retries failed writebacks, and invalidates dentries
//! of removed files. It also requests data stored through maps as often as the cache writes back.

use crate::state::MountState;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it looks at closed files.
const EVERY: Duration = Duration::from_secs(5);

/// How often it asks for what was stored through maps at most.
const MAPS_EVERY_MIN: Duration = Duration::from_millis(100);

/// Of more inodes than these it looks for removed files once a minute only: each costs a system call.
const MANY: usize = 10_000;
const ROUNDS_PER_MINUTE: u64 = 12;

/// The thread, until it is stopped. Dropping it leaves it running.
pub(super) struct ClosedFilesThread {
    thread: JoinHandle<()>,
    stop: Arc<Stop>,
}

#[derive(Default)]
struct Stop {
    is_asked: Mutex<bool>,
    asked: Condvar,
}

impl ClosedFilesThread {
    pub(super) fn start(state: Arc<MountState>) -> io::Result<ClosedFilesThread> {
        let stop = Arc::new(Stop::default());
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("millpond-tidy".into())
            .spawn(move || run(&state, &stopped))?;
        Ok(ClosedFilesThread { thread, stop })
    }

    /// Stops it, and waits until it has ended.
    pub(super) fn stop(self) {
        *self.stop.is_asked.lock() = true;
        self.stop.asked.notify_all();
        // It has panicked if this fails, and has said so.
        let _ = self.thread.join();
    }
}

fn run(state: &Arc<MountState>, stop: &Stop) {
    let mut is_stopped = stop.is_asked.lock();
    let mut rounds = 0_u64;
    let (mut looked, mut asked) = (Instant::now(), Instant::now());
    while !*is_stopped {
        let maps_every = state.expire().max(MAPS_EVERY_MIN);
        if stop
            .asked
            .wait_for(&mut is_stopped, maps_every.min(EVERY))
            .timed_out()
        {
            drop(is_stopped);
            // Not while another process takes over, and not before this one has.
            let round = state.gate.notify();
            if round.is_some() && asked.elapsed() >= maps_every {
                asked = Instant::now();
                state.write_back_maps_soon();
            }
            if round.is_some() && looked.elapsed() >= EVERY {
                looked = Instant::now();
                state.write_closed();
                rounds += 1;
                if state.inodes.count() < MANY || rounds.is_multiple_of(ROUNDS_PER_MINUTE) {
                    state.invalidate_unlinked();
                }
            }
            drop(round);
            is_stopped = stop.is_asked.lock();
        }
    }
}
