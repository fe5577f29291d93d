//! The frame table under a scheduler that decides every interleaving.
//!
//! The files are the library's own; only `sync`, from which they take atomics, locks and thread-locals,
//! is another one here. Every test runs some thousand schedules from a fixed seed, half of them random
//! and half by PCT (Burckhardt et al. 2010), which finds orders that chance rarely tries. A failing
//! schedule is printed with the call that replays it.
//!
//! Shuttle has no weak memory. Under Miri the same tests run on the standard library's threads, and a load may answer
//! with whatever the language's memory model allows, as on aarch64 and beyond: `MIRIFLAGS` of `.ci/nightly` tries another
//! order for each seed. What is to hold there is argued in `state.rs` (S6 to S9), `hazard.rs` (H3 to H7), `index.rs`
//! (X4, X5) and `wait.rs`.
//!
//! What the tests watch is a memory of their own, in which every frame has one number for its content and
//! a count of the threads that believe they have a right to it.
#![allow(dead_code, unreachable_pub, reason = "the modules are the library's, whole")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod cache;
mod evict;
#[path = "../../src/frames/hazard.rs"]
mod hazard;
#[path = "../../src/frames/index.rs"]
mod index;
mod mapped;
mod pins;
#[path = "../../src/frames/state.rs"]
mod state;
#[path = "../../src/frames/table.rs"]
mod table;
#[path = "../../src/frames/wait.rs"]
mod wait;
mod waits;
mod writes;

/// Stands for the library's module of these files.
mod frames {
    pub(crate) use crate::{hazard, index, state, sync, wait};
}

/// Threads, locks and atomics of the checker, which decides what happens.
#[cfg(not(miri))]
mod world {
    pub(crate) use shuttle::{sync, thread, thread_local};
}
#[cfg(miri)]
mod world {
    pub(crate) use std::{sync, thread, thread_local};
}

/// The library's `sync`, as shuttle or Miri has it.
mod sync {
    pub(crate) use crate::world::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use crate::world::sync::{Condvar, Mutex};
    pub(crate) use crate::world::thread::yield_now;
    pub(crate) use crate::world::thread_local;

    pub(crate) const RECORDS_MAX: usize = 6;
    // Few, so that schedules are short and waiting threads do sleep.
    pub(crate) const SPINS: u32 = 1;
    pub(crate) const YIELDS: u32 = 1;

    pub(crate) fn spin_loop() {}

    macro_rules! global {
        (static $name:ident: $type:ty = $init:expr;) => {
            #[cfg(not(miri))]
            shuttle::lazy_static! { static ref $name: $type = $init; }
            #[cfg(miri)]
            static $name: $type = $init;
        };
    }
    pub(crate) use global;

    pub(crate) struct Reserved<T>(Box<[T]>);

    impl<T: Default> Reserved<T> {
        pub(crate) fn new(len: usize) -> std::io::Result<Reserved<T>> {
            Ok(Reserved((0..len).map(|_| T::default()).collect()))
        }

        pub(crate) fn release(&self, _: std::ops::Range<usize>) {}

        pub(crate) fn use_huge_pages(&self, _: usize) {}
    }

    impl<T> std::ops::Deref for Reserved<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    /// A unit test of one of the files, in one schedule of one thread.
    pub(crate) fn run(test: impl Fn() + Send + Sync + 'static) {
        #[cfg(not(miri))]
        crate::cache::runner(shuttle::scheduler::RandomScheduler::new_from_seed(0, 1)).run(test);
        #[cfg(miri)]
        test();
    }
}
