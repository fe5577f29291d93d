//! Threads of the cache's own.
//!
//! They begin with all signals blocked that come from elsewhere, so that a handler of the program's runs on a thread of
//! the program's: it may wait for the cache, which on the cache's own thread is for itself for ever.
//!
//! Two of these the kernel sends to the thread that writes: it ends a process whose thread makes a file longer than
//! `ulimit -f` allows (SIGXFSZ), or writes to a pipe or a socket without a reader (SIGPIPE), unless the program has said
//! otherwise. What the program has said is not the cache's to change; a thread that has them blocked gets EFBIG and EPIPE
//! from the call.

use crate::sys::signals::{from_elsewhere, set_mask};
use std::io;
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Starts a thread that no signal from elsewhere comes to, and no write can end the process from.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A thread begins with the mask of its starter, so at no moment does it have another.
    let before = set_mask(libc::SIG_BLOCK, &from_elsewhere());
    let started = Builder::new().name(name.into()).spawn(work);
    set_mask(libc::SIG_SETMASK, &before);
    started
}

/// How long to wait for a thread that may never wake up.
const LOST: Duration = Duration::from_secs(2);

/// Waits until a thread that was told to has ended; if what it is woken by `is_lost`, a while only: then it is left to
/// itself, with what it holds.
pub(crate) fn join_unless_lost(thread: JoinHandle<()>, is_lost: bool) {
    let began = Instant::now();
    while is_lost && !thread.is_finished() {
        if began.elapsed() > LOST {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    // It has poisoned the cache if it has panicked; there is no caller left to report to.
    let _ = thread.join();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_the_cache_has_all_signals_blocked_that_come_from_elsewhere_and_its_starter_none_of_them() {
        let status = || std::fs::read_to_string("/proc/thread-self/status");
        let blocked = |status: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let before = blocked(&status().unwrap());
        let there = blocked(&spawn("a test", status).unwrap().join().unwrap().unwrap());
        let bit = |signal: libc::c_int| 1 << (signal - 1);
        for signal in [
            libc::SIGXFSZ,
            libc::SIGPIPE,
            libc::SIGALRM,
            libc::SIGTERM,
            libc::SIGUSR1,
        ] {
            assert!(there & bit(signal) != 0, "signal {signal} of {there:x}");
        }
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS] {
            assert!(there & bit(signal) == 0, "signal {signal} of {there:x}");
        }
        assert_eq!(blocked(&status().unwrap()), before);
    }
}
