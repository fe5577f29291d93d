//! Signals that threads have blocked.
//!
//! A handler of the program's may use the cache, and may touch a mapping or a region. On a thread of the cache's own, or
//! on one that is serving its own touch of such memory, it would wait for what that very thread has in its hands.

use std::cell::Cell;
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

/// Those by which users and service managers end a program.
const THAT_END: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP];

thread_local! {
    /// What the thread had blocked when it began to serve its own touch, if it does.
    static INTERRUPTED: Cell<Option<libc::sigset_t>> = const { Cell::new(None) };
}

/// The thread serves its own touch, until this is dropped: signals from elsewhere are blocked meanwhile.
pub(super) struct Serving(Option<libc::sigset_t>);

impl Serving {
    /// `before`: what it had blocked.
    pub(super) fn now(before: libc::sigset_t) -> Serving {
        Serving(
            INTERRUPTED
                .try_with(|own| own.replace(Some(before)))
                .unwrap_or(None),
        )
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = INTERRUPTED.try_with(|own| own.set(self.0));
    }
}

/// For a thread that serves its own touch and waits for long: if the process was told to end, and has no handler for that, it
/// ends here. One that has a handler goes on when the touch is over.
pub(crate) fn end_if_told() {
    let Some(before) = INTERRUPTED.try_with(Cell::get).unwrap_or(None) else {
        return;
    };
    let mut ending = before;
    // SAFETY: the set outlives the call.
    unsafe { libc::sigemptyset(&raw mut ending) };
    for signal in THAT_END {
        // SAFETY: the set outlives the call.
        let is_blocked = unsafe { libc::sigismember(&raw const before, signal) } != 0;
        // SAFETY: numbers and an optional pointer, of which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: changes nothing; the action outlives the call.
        let is_known = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } == 0;
        if is_known && !is_blocked && action.sa_sigaction == libc::SIG_DFL {
            // SAFETY: the set outlives the call.
            unsafe { libc::sigaddset(&raw mut ending, signal) };
        }
    }
    set_mask(libc::SIG_UNBLOCK, &ending);
    set_mask(libc::SIG_BLOCK, &ending);
}

/// Changes which signals the calling thread has blocked. What was blocked before.
pub(super) fn set_mask(how: libc::c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = *set;
    // SAFETY: both sets outlive the call. It can fail only for another `how`.
    unsafe { libc::pthread_sigmask(how, ptr::from_ref(set), &raw mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing(_: libc::c_int) {}

    /// How a child ends that serves a touch of its own when it is told to: the signal that ended it, or 0.
    fn ends_by(signal: libc::c_int, prepare: impl Fn(libc::c_int)) -> libc::c_int {
        // SAFETY: the child makes system calls only, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            prepare(signal);
            let before = set_mask(libc::SIG_BLOCK, &from_elsewhere());
            let serving = Serving::now(before);
            // SAFETY: takes a number.
            unsafe { libc::raise(signal) };
            end_if_told();
            drop(serving);
            // SAFETY: takes a number.
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: the status outlives the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        libc::WTERMSIG(status)
    }

    /// Nothing but SIGKILL ended a program whose only thread waited for room on a full disk.
    #[test]
    fn a_touch_that_waits_ends_with_the_program_unless_that_has_a_handler_or_has_blocked_the_signal() {
        let usual = |signal| {
            // SAFETY: takes numbers. The test's program may ignore some.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        };
        let handled = |signal| {
            // SAFETY: a handler that does nothing.
            unsafe { libc::signal(signal, nothing as *const () as usize) };
        };
        let blocked = |signal| {
            usual(signal);
            set_mask(libc::SIG_BLOCK, &{
                let mut set = from_elsewhere();
                // SAFETY: the set outlives the calls.
                unsafe { libc::sigemptyset(&raw mut set) };
                // SAFETY: as above.
                unsafe { libc::sigaddset(&raw mut set, signal) };
                set
            });
        };
        for signal in THAT_END {
            assert_eq!(ends_by(signal, usual), signal);
            assert_eq!(ends_by(signal, handled), 0);
            assert_eq!(ends_by(signal, blocked), 0);
        }
        // It would end this process.
        end_if_told();
    }
}
