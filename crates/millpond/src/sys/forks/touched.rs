//! The message for a forked child that touches a region of its parent's: it does not have the memory and dies of it, which
//! a worker of a pool does silently.
//!
//! In such a child the first `SIGSEGV` comes here. If it was for a region's address, a line on stderr says
//! so. Then the signal's former handler is restored, and the touch is retried.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const SAID: &str = "millpond: a forked child has touched memory that only its parent has (a region, or an array in Python), \
                    and ends with SIGSEGV. Start workers anew instead of forking them (in Python: \
                    multiprocessing.get_context(\"spawn\") or \"forkserver\"), or use threads\n";

/// From the first byte to behind the last; zeros where there is no region. Those beyond these are not told of.
static REGIONS: [(AtomicUsize, AtomicUsize); 256] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 256];

/// The signal's former handler, in a child.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A region registered for the message, until it is dropped.
pub(crate) struct Listed(Option<&'static (AtomicUsize, AtomicUsize)>);

impl Listed {
    /// At these addresses.
    pub(crate) fn new(addresses: Range<usize>) -> Listed {
        let take = |(start, _): &&(AtomicUsize, AtomicUsize)| {
            let taken = start.compare_exchange(0, addresses.start, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        let slot = REGIONS.iter().find(take);
        if let Some((_, end)) = slot {
            end.store(addresses.end, Ordering::Relaxed);
        }
        Listed(slot)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some((start, end)) = self.0 {
            end.store(0, Ordering::Relaxed);
            start.store(0, Ordering::Relaxed);
        }
    }
}

/// In a child, before it goes on: the message is enabled from now on.
pub(super) fn explain() {
    let any = REGIONS
        .iter()
        .any(|(start, _)| start.load(Ordering::Relaxed) != 0);
    // A child of such a child has it already.
    if !any || BEFORE.get().is_some() {
        return;
    }
    // SAFETY: numbers and an optional pointer, of which zero is a value.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    ours.sa_sigaction = caught as *const () as usize;
    let mut before = ours;
    // SAFETY: two actions, which outlive the call; `caught` is a handler of three arguments, as the flags say.
    if unsafe { libc::sigaction(libc::SIGSEGV, &raw const ours, &raw mut before) } == 0 {
        let _ = BEFORE.set(before);
    }
}

/// Loads, and system calls that a handler may do.
extern "C" fn caught(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the signal's description.
    let about = unsafe { &*info };
    // SAFETY: a number, whatever the signal came from.
    let address = unsafe { about.si_addr() } as usize;
    let is_touch = about.si_code > 0;
    let is_within = |(start, end): &(AtomicUsize, AtomicUsize)| {
        (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
    };
    if is_touch && REGIONS.iter().any(is_within) {
        // SAFETY: bytes that live for ever. Whether they can be written changes nothing.
        unsafe { libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len()) };
    }
    // A touch is tried again, and then it goes to the signal's former handler.
    match BEFORE.get() {
        // SAFETY: what the system has given as an action.
        Some(before) => unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) },
        // SAFETY: the system's own way with it.
        None => unsafe { libc::signal(signal, libc::SIG_DFL) as libc::c_int },
    };
    if !is_touch {
        // SAFETY: takes a number. The signal was sent, and is not repeated.
        unsafe { libc::raise(signal) };
    }
}
