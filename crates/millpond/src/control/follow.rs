//! The thread that follows the host while `memory=auto`: once a second it looks, asks the rule, and sets the budget.
//!
//! ```text
//!   look every second ──► host::places ──► auto::next ──► apply, as set_memory does
//!   memory=64M ──► sleeps until the next memory=auto ──► the cache is dropped: it ends
//! ```
//!
//! A thread of its own, as the cache's has to take in completions without a system call that may wait (the kernel sums up
//! its counters for `memory.stat`), without memory that is not there, and without the budget's lock, whose holder may wait
//! for it. There is none before the first `memory=auto`.

use super::budget::Budget;
use super::cache::Cache;
use crate::control::auto::{self, Last, Pool};
use crate::error::{Error, Result};
use crate::host;
use crate::observe::events;
use crate::observe::history::By;
use crate::settings::{MemoryRange, Value};
use crate::sys::threads;
use millpond_core::units::Bytes;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks. The kernel's averages of stalls move every 2 s (`PSI_FREQ`, Linux 4.20), and in a second most of what
/// is short for others can still be had by dropping files' pages.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A pool is full when this part of it is free at most, beside what its water marks keep free.
const FREE_IN_FULL: u64 = 16;

/// The budget now, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryInForce {
    /// The budget.
    pub bytes: Bytes,
    /// The bounds between which the host decides, if it does.
    pub auto: Option<MemoryRange>,
    /// What the last look at the host came to; `None` before the first, or if the host does not decide.
    pub why: Option<String>,
}

#[derive(Default)]
pub(crate) struct Follower {
    sign: Arc<(Mutex<Sign>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
    why: Mutex<Option<String>>,
}

#[derive(Default)]
struct Sign {
    stop: bool,
    look: bool,
}

impl Follower {
    /// Starts the thread, unless it is there.
    ///
    /// # Errors
    /// [`Error::Setup`] if the system gives none.
    pub(crate) fn start(&self, cache: Weak<Cache>) -> Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        let sign = self.sign.clone();
        let run = move || run(&cache, &sign);
        let started = threads::spawn("millpond-memory", run);
        *thread = Some(started.map_err(|source| Error::Setup {
            what: "starting the thread that follows the host's memory",
            source,
        })?);
        Ok(())
    }

    /// Has the thread look again: something was set.
    pub(crate) fn look(&self) {
        // It was said of what was there before.
        *self.why.lock() = None;
        self.sign.0.lock().look = true;
        self.sign.1.notify_one();
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        self.sign.0.lock().stop = true;
        self.sign.1.notify_one();
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        // A hook that this thread has called may drop the cache.
        if thread.thread().id() != std::thread::current().id() {
            // It has poisoned the cache if it has panicked.
            let _ = thread.join();
        }
    }
}

fn run(cache: &Weak<Cache>, (sign, signed): &(Mutex<Sign>, Condvar)) {
    let mut last = Last::default();
    loop {
        let Some(inner) = cache.upgrade() else { return };
        let follows = {
            let _poisons = inner
                .engine
                .poison_on_panic("thread that follows the host's memory");
            inner.follow_host(&mut last)
        };
        drop(inner);
        let mut sign = sign.lock();
        if follows && !sign.stop {
            // Not sooner for what is set meanwhile: a step up is one of a second.
            signed.wait_while_for(&mut sign, |sign| !sign.stop, LOOK_EVERY);
        }
        while !follows && !sign.stop && !sign.look {
            signed.wait(&mut sign);
        }
        if sign.stop {
            return;
        }
        sign.look = false;
    }
}

impl Cache {
    /// Starts the thread that follows the host, as the budget says so.
    ///
    /// # Errors
    /// [`Error::Setup`] if the system gives no thread.
    pub(crate) fn follow_from_now_on(&self) -> Result<()> {
        self.follower.start(self.me.clone())
    }

    /// One look at the host, and what follows. Whether the host decides.
    fn follow_host(&self, last: &mut Last) -> bool {
        if self.engine.call_flags.is_set() {
            return false;
        }
        let places = host::places();
        let mut budget = self.budget.lock();
        let Some(range) = budget.auto else {
            *self.follower.why.lock() = None;
            return false;
        };
        let now = self.engine.clock.now();
        let next = auto::next(range, self.pool(&budget), &places, *last, now);
        *last = next.last;
        let mut why = next.why;
        let mut change = None;
        if next.budget != budget.memory {
            let memory = Budget {
                memory: next.budget,
                ..*budget
            };
            match self.apply(By::Host, &mut budget, Some(memory), None) {
                Ok(done) => change = Some(done),
                Err(error) => why = format!("it could not be made {}: {error}", next.budget),
            }
        }
        *self.follower.why.lock() = Some(why);
        drop(budget);
        if let Some(change) = change {
            events::changed(&change);
        }
        true
    }

    fn pool(&self, budget: &Budget) -> Pool {
        let core = self.engine.core();
        let free = core.manager.occupancy(self.engine.clock.now()).free;
        let (derived, leaving) = (*core.manager.derived(), core.manager.leaving());
        drop(core);
        let spare = derived.watermarks.high.0 + derived.frames.0 / FREE_IN_FULL;
        Pool {
            budget: budget.memory,
            leaving: leaving.to_bytes(self.engine.page_size),
            is_full: free.0 <= spare,
        }
    }

    pub(crate) fn memory_in_force(&self) -> MemoryInForce {
        let budget = self.budget.lock();
        MemoryInForce {
            bytes: budget.memory,
            auto: budget.auto,
            why: self.follower.why.lock().clone().filter(|_| budget.auto.is_some()),
        }
    }

    /// As [`Limit`](crate::settings::Limit) says it.
    pub(crate) fn memory_told(&self, budget: &Budget) -> String {
        let size = Value::Size(budget.memory);
        let Some(range) = budget.auto else {
            return size.to_string();
        };
        let why = self.follower.why.lock().clone();
        let why = why.unwrap_or_else(|| "the host was not looked at yet".into());
        format!("{}, now {} MiB: {why}", Value::Auto(range), budget.memory.0 >> 20)
    }
}
