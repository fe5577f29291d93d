//! The threads and atomics that the frame table's files use.
//!
//! `state`, `hazard`, `wait`, `index` and `table` name atomics, locks, thread-locals and zeroed arrays
//! only through this module. `tests/shuttle` compiles the same files against another `sync`, in which
//! a scheduler decides every interleaving.

pub(crate) use crate::sys::reserved::Reserved;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex};
pub(crate) use std::thread::yield_now;
pub(crate) use std::thread_local;

/// Threads that can have hazard pins at a time: 512 KiB of addresses, of which only what is touched
/// takes memory.
pub(crate) const RECORDS_MAX: usize = 4096;

/// How often a waiter looks before it sleeps. A pin around a copy of one page lasts about 0.2 µs; this
/// many looks with a pause between them last a few times that.
pub(crate) const SPINS: u32 = 64;

/// How often a reader yields to a waiting writer before it goes first after all: it may hold the very pin
/// that the writer waits for.
pub(crate) const YIELDS: u32 = 32;

/// Declares a value that all threads share and that lives as long as the process.
macro_rules! global {
    (static $name:ident: $type:ty = $init:expr;) => {
        static $name: $type = $init;
    };
}
pub(crate) use global;

/// A unit test of the code above. If a scheduler decides the order, it has to run the test.
#[cfg(test)]
pub(crate) fn run(test: impl Fn() + Send + Sync + 'static) {
    test();
}
