//! Threads of the cache's own.
//!
//! The kernel ends a process whose thread makes a file longer than `ulimit -f` allows (SIGXFSZ), or writes to
//! a pipe or a socket without a reader (SIGPIPE), unless the program has said otherwise. What the program has
//! said is not the cache's to change; but both go to the thread that writes, and one that has them blocked
//! gets EFBIG and EPIPE from the call.

use std::io;
use std::ptr;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that no write can end the process from.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(move || {
        block(&[libc::SIGXFSZ, libc::SIGPIPE]);
        work()
    })
}

/// Keeps signals from the calling thread.
fn block(signals: &[libc::c_int]) {
    // SAFETY: a set of bits, of which zero is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set outlives the call.
    unsafe { libc::sigemptyset(&raw mut set) };
    for &signal in signals {
        // SAFETY: the set outlives the call; the number is one of a signal's.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: the set outlives the call, and nothing is asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_the_cache_has_the_signals_of_writing_blocked_and_no_other() {
        let status = spawn("a test", || std::fs::read_to_string("/proc/thread-self/status"));
        let status = status.unwrap().join().unwrap().unwrap();
        let blocked = |status: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let here = blocked(&std::fs::read_to_string("/proc/thread-self/status").unwrap());
        let both = 1 << (libc::SIGXFSZ - 1) | 1 << (libc::SIGPIPE - 1);
        assert_eq!(blocked(&status), here | both);
    }
}
