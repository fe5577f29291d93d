//! The frame table under a scheduler that decides every interleaving.
//!
//! The files are the library's own; only `sync`, from which they take atomics, locks and thread-locals,
//! is another one here. Every test runs some thousand schedules from a fixed seed, half of them random
//! and half by PCT (Burckhardt et al. 2010), which finds orders that chance rarely tries. A failing
//! schedule is printed with the call that replays it. What shuttle cannot show, because it has no weak
//! memory, is argued in `hazard.rs` (H3 to H5) and `wait.rs`.
//!
//! What the tests watch is a memory of their own, in which every frame has one number for its content and
//! a count of who believes to have a right to it.
#![allow(dead_code, unreachable_pub, reason = "the modules are the library's, whole")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod cache;
mod evict;
#[path = "../../src/frames/hazard.rs"]
mod hazard;
#[path = "../../src/frames/index.rs"]
mod index;
mod pins;
#[path = "../../src/frames/state.rs"]
mod state;
#[path = "../../src/frames/table.rs"]
mod table;
#[path = "../../src/frames/wait.rs"]
mod wait;
mod waits;
mod writes;

/// Where the library has these files.
mod frames {
    pub(crate) use crate::{hazard, index, state, sync, wait};
}

/// The library's `sync`, as shuttle has it.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use shuttle::sync::{Condvar, Mutex};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use shuttle::thread_local;

    pub(crate) const RECORDS_MAX: usize = 6;
    // Few, so that schedules are short and those who wait do sleep.
    pub(crate) const SPINS: u32 = 1;
    pub(crate) const YIELDS: u32 = 1;

    pub(crate) fn spin_loop() {}

    macro_rules! global {
        (static $name:ident: $type:ty = $init:expr;) => {
            shuttle::lazy_static! { static ref $name: $type = $init; }
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
        crate::cache::runner(shuttle::scheduler::RandomScheduler::new_from_seed(0, 1)).run(test);
    }
}
