//! The cache's one thread: takes in completions, reclaims in the background, sends ticks.

use crate::device::{Completion, Device};
use crate::driver::{Deferred, Shared, until};
use millpond_core::event::Event;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Batches of reclaim between two looks at the device.
const RECLAIM_BATCHES: u32 = 8;

/// Starts it.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new()
        .name("millpond".into())
        .spawn(move || {
            let _dart = shared.dart("background thread");
            run(&shared);
        })
}

fn run(shared: &Shared) {
    let mut done: Vec<Completion> = Vec::new();
    let mut unchecked = Vec::new();
    let mut reclaiming = false;
    while !shared.stopping.load(Ordering::Acquire) && !shared.poison.is_set() {
        let timeout = if reclaiming {
            Some(Duration::ZERO)
        } else {
            until(shared.clock.now(), shared.tick_at.load(Ordering::Relaxed))
        };
        if let Err(error) = shared.device.wait(&mut done, timeout) {
            return shared.poison(format!("the device reports no completions any more: {error}"));
        }
        let mut deferred = Deferred::default();
        if !done.is_empty() {
            let mut core = shared.core();
            for Completion { token, result } in done.drain(..) {
                unchecked.extend(shared.completed(&mut core, token, result, &mut deferred));
            }
        }
        for read in unchecked.drain(..) {
            shared.check_ahead(read, &mut deferred);
        }
        let is_time = shared.clock.now().0 >= shared.tick_at.load(Ordering::Relaxed);
        if is_time {
            shared.step(&mut shared.core(), Event::Tick, &mut deferred);
        }
        // The flag first: what comes later is announced again.
        if shared.log_moved.swap(false, Ordering::SeqCst) {
            while !shared.release(&mut deferred) {
                shared.finish(&mut deferred);
            }
        }
        shared.finish(&mut deferred);
        if shared.reclaim_wanted.swap(false, Ordering::Relaxed) || reclaiming {
            reclaiming = reclaim(shared);
        }
    }
}

/// Some batches of reclaim. Whether there is more to do.
fn reclaim(shared: &Shared) -> bool {
    for _ in 0..RECLAIM_BATCHES {
        let mut deferred = Deferred::default();
        shared.step(&mut shared.core(), Event::Reclaim, &mut deferred);
        shared.finish(&mut deferred);
        if !deferred.reclaim_more {
            return false;
        }
    }
    true
}
