//! Signals that threads have blocked.
//!
//! A handler of the program's may use the cache, and may touch a mapping or a region. On a thread of the cache's own, or
//! on one that is serving its own touch of such memory, it would wait for what that very thread has in its hands.

use std::ptr;

/// What a thread does itself, and what can't wait until later: blocked, the kernel ends the process at once.
const OF_THE_THREAD: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Those that come from elsewhere.
pub(super) fn from_elsewhere() -> libc::sigset_t {
    // SAFETY: a set of bits, of which zero is a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set outlives the call.
    unsafe { libc::sigfillset(&raw mut set) };
    for signal in OF_THE_THREAD {
        // SAFETY: the set outlives the call; the number is one of a signal's.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}

/// Changes which signals the calling thread has blocked. What was blocked before.
pub(super) fn set_mask(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = *set;
    // SAFETY: both sets outlive the call. It can fail only for another `how`.
    unsafe { libc::pthread_sigmask(how, ptr::from_ref(set), &raw mut before) };
    before
}
