//! The thread that follows the host while `memory=auto`: it looks, asks the rule, and sets the budget.
//!
//! ```text
//!   the kernel says that memory is short (`host/pressure`), or time has passed: 50 ms to 1 s, by how much is free
//!        ──► host::places ──► takers ──► auto::next ──► apply, as set_memory does
//!   memory=64M ──► sleeps until the next memory=auto ──► the cache is dropped: it ends
//! ```
//!
//! A thread of its own, as the cache's has to take in completions without a system call that may wait (the kernel sums up
//! its counters for `memory.stat`), without memory that is not there, and without the budget's lock, whose holder may wait
//! for it. There is none before the first `memory=auto`.

use super::budget::Budget;
use super::cache::Cache;
use super::takers::Takers;
use crate::control::auto::{self, Last, Pool};
use crate::error::{Error, Result};
use crate::host::{self, Pressure, Stalls};
use crate::observe::events;
use crate::observe::history::By;
use crate::settings::{MemoryRange, Value};
use crate::sys::eventfd::Eventfd;
use crate::sys::threads;
use millpond_core::units::Bytes;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// The shortest time between two readings, however many events the kernel sends. Ours: a reading at each event of a
/// reclaiming group would leave time for nothing else.
const LOOK_MIN: Duration = Duration::from_millis(20);

/// A pool counts as full when at most this part of it is free, besides what its watermarks keep free.
const FREE_IN_FULL: u64 = 16;

/// The budget in force, and the reason for it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MemoryInForce {
    /// The budget.
    pub bytes: Bytes,
    /// The bounds between which the host decides, if it does.
    pub auto: Option<MemoryRange>,
    /// The result of the last check of the host; `None` before the first, or if the host does not decide.
    pub why: Option<String>,
}

#[derive(Default)]
pub(crate) struct Follower {
    sign: Arc<Mutex<Sign>>,
    thread: Mutex<Option<Thread>>,
    why: Mutex<Option<String>>,
}

struct Thread {
    bell: Arc<Eventfd>,
    handle: JoinHandle<()>,
}

#[derive(Default)]
struct Sign {
    stop: bool,
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
        let failed = |source| Error::Setup {
            what: "starting the thread that follows the host's memory",
            source,
        };
        let bell = Arc::new(Eventfd::new(false).map_err(failed)?);
        let (sign, rung) = (self.sign.clone(), bell.clone());
        let handle = threads::spawn("millpond-memory", move || run(&cache, &sign, &rung)).map_err(failed)?;
        *thread = Some(Thread { bell, handle });
        Ok(())
    }

    /// Has the thread look again: something was set.
    pub(crate) fn look(&self) {
        // The event was about the state before.
        *self.why.lock() = None;
        if let Some(thread) = &*self.thread.lock() {
            // Without a bell it looks when its time has come.
            let _ = thread.bell.ring();
        }
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        self.sign.lock().stop = true;
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        let is_lost = thread.bell.ring().is_err();
        // A hook that this thread has called may drop the cache.
        if thread.handle.thread().id() != std::thread::current().id() {
            // It has poisoned the cache if it has panicked.
            threads::join_unless_lost(thread.handle, is_lost);
        }
    }
}

/// The thread's state between two readings.
#[derive(Default)]
struct Looks {
    last: Last,
    takers: Takers,
    /// Places where the kernel has reported stalls since the last reading.
    stalled: Vec<Option<PathBuf>>,
}

fn run(cache: &Weak<Cache>, sign: &Mutex<Sign>, bell: &Eventfd) {
    let mut looks = Looks::default();
    let mut pressure = Pressure::default();
    let mut is_watched = false;
    loop {
        let Some(inner) = cache.upgrade() else { return };
        let next = {
            let _poisons = inner
                .engine
                .poison_on_panic("thread that follows the host's memory");
            inner.follow_host(&mut looks)
        };
        drop(inner);
        // What follows the host may have begun or ended.
        if next.is_some() != is_watched {
            is_watched = next.is_some();
            pressure = if is_watched {
                Pressure::watch()
            } else {
                Pressure::default()
            };
            looks.takers = Takers::default();
        }
        if sign.lock().stop {
            return;
        }
        wait(bell, &mut pressure, next, &mut looks.stalled);
        if sign.lock().stop {
            return;
        }
    }
}

/// Waits until the bell is rung, the kernel says something, or the time has passed.
fn wait(bell: &Eventfd, pressure: &mut Pressure, next: Option<Duration>, stalled: &mut Vec<Option<PathBuf>>) {
    let time = |span: Duration| Timespec::try_from(span).ok();
    let poll = |pressure: Option<&Pressure>, span: Option<Duration>| {
        let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
        fds.extend(pressure.into_iter().flat_map(Pressure::fds));
        let timeout = span.and_then(time);
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => fds.iter().map(PollFd::revents).collect(),
            // Interrupted: treated as an event.
            Err(_) => vec![PollFlags::empty(); fds.len()],
        }
    };
    // Not at each event; and not sooner for what is set meanwhile.
    if let Some(next) = next {
        let said = poll(None, Some(LOOK_MIN.min(next)));
        if said[0].is_empty() {
            let said = poll(Some(&*pressure), Some(next.saturating_sub(LOOK_MIN)));
            pressure.take(&said[1..], stalled);
        }
    } else {
        poll(None, None);
    }
    bell.clear();
}

impl Cache {
    /// Starts the thread that follows the host, as the budget says so.
    ///
    /// # Errors
    /// [`Error::Setup`] if the system gives no thread.
    pub(crate) fn follow_from_now_on(&self) -> Result<()> {
        self.follower.start(self.me.clone())
    }

    /// One look at the host, and what follows. When to look again; `None` if the host does not decide.
    fn follow_host(&self, looks: &mut Looks) -> Option<Duration> {
        if self.engine.call_flags.is_poisoned() {
            return None;
        }
        let mut places = host::places();
        let mut budget = self.budget.lock();
        let Some(range) = budget.auto else {
            *self.follower.why.lock() = None;
            return None;
        };
        let now = self.engine.clock.now();
        let pool = self.pool(&budget);
        looks.takers.look(&mut places, pool, now);
        for stalled in looks.stalled.drain(..) {
            // The average follows later.
            let place = places.iter_mut().find(|place| place.group == stalled);
            if let Some(place) = place {
                place.stalls = place.stalls.max(Some(Stalls::HIGH));
            }
        }
        let next = auto::next(range, pool, &places, looks.last, now);
        looks.last = next.last;
        let later = auto::look_after(&places, pool.leaving, looks.last, now);
        let mut why = next.why;
        let mut change = None;
        if next.budget != budget.memory {
            let memory = Budget {
                memory: next.budget,
                ..*budget
            };
            match self.apply(By::Host, &mut budget, Some(memory), None) {
                Ok(done) => change = Some(done),
                Err(error) => why = format!("it could not be set to {}: {error}", next.budget),
            }
        }
        *self.follower.why.lock() = Some(why);
        drop(budget);
        if let Some(change) = change {
            events::changed(&change);
        }
        Some(later)
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

    /// In the form of [`Limit`](crate::settings::Limit).
    pub(crate) fn memory_told(&self, budget: &Budget) -> String {
        let size = Value::Size(budget.memory);
        let Some(range) = budget.auto else {
            return size.to_string();
        };
        let why = self.follower.why.lock().clone();
        let why = why.unwrap_or_else(|| "the host has not been checked yet".into());
        format!("{}, now {} MiB: {why}", Value::Auto(range), budget.memory.0 >> 20)
    }
}
