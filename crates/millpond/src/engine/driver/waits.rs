//! Threads that wait for the cache: for frames, for permission to make pages dirty, for syncs. Each kind has the events that
//! end its wait, and its figures.

use crate::frames::event_count::EventCount;
use crate::observe::stats::FrameWaits as Figures;
use crate::sys::clock::{Clock, Patience};
use millpond_core::units::{Instant, Nanos, PageCount};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// All waits of a cache.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) frames: FrameWaits,
    pub(super) dirtiers: DirtierWaits,
    pub(super) syncs: EventCount,
}

impl Waits {
    /// Wakes all waiting threads of a poisoned cache: nothing else will.
    pub(super) fn call_off(&self) {
        for events in [&self.frames.events, &self.dirtiers.events, &self.syncs] {
            events.notify_all();
        }
    }
}

/// Calls that wait for frames, and the times that they have waited, in nanoseconds.
#[derive(Default)]
pub(crate) struct FrameWaits {
    pub(super) events: EventCount,
    count: AtomicU64,
    ns: AtomicU64,
    ns_max: AtomicU64,
    /// The parts of waits during which reclaim could have had pages without waiting for a write.
    clean_ns_max: AtomicU64,
    /// The time that calls spent reclaiming for themselves.
    reclaim_ns: AtomicU64,
}

impl FrameWaits {
    /// Adds the time for which a call reclaimed for itself.
    pub(super) fn reclaimed(&self, took: Nanos) {
        self.reclaim_ns.fetch_add(took.0, Ordering::Relaxed);
    }

    fn ended(&self, took: Nanos, clean: Nanos) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(took.0, Ordering::Relaxed);
        self.ns_max.fetch_max(took.0, Ordering::Relaxed);
        self.clean_ns_max.fetch_max(clean.0, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> Figures {
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        Figures {
            count: self.count.load(Ordering::Relaxed),
            total: time(&self.ns),
            longest: time(&self.ns_max),
            longest_with_clean: time(&self.clean_ns_max),
            reclaiming: time(&self.reclaim_ns),
        }
    }
}

/// The wait of one call for frames, which may have to ask several times.
pub(super) struct FrameWait<'a> {
    waits: &'a FrameWaits,
    clock: &'a Clock,
    /// When it was first told to wait.
    since: Option<Instant>,
    /// When it was last told to wait, if there were clean pages then.
    clean_since: Option<Instant>,
    clean: Nanos,
}

impl<'a> FrameWait<'a> {
    pub(super) fn new(waits: &'a FrameWaits, clock: &'a Clock) -> FrameWait<'a> {
        FrameWait {
            waits,
            clock,
            since: None,
            clean_since: None,
            clean: Nanos(0),
        }
    }

    /// Notes that the call was told to wait, with this many clean pages in memory.
    pub(super) fn waits(&mut self, clean: PageCount) {
        let now = self.clock.now();
        self.add_clean(now);
        self.since.get_or_insert(now);
        self.clean_since = (clean > PageCount(0)).then_some(now);
    }

    /// Notes that the call was told to go on, or gives up.
    pub(super) fn ends(&mut self) {
        if let Some(since) = self.since.take() {
            let now = self.clock.now();
            self.add_clean(now);
            self.waits.ended(now.since(since), self.clean);
        }
    }

    fn add_clean(&mut self, now: Instant) {
        if let Some(since) = self.clean_since.take() {
            self.clean = Nanos(self.clean.0 + now.since(since).0);
        }
    }
}

/// Threads that wait until they may make pages dirty.
#[derive(Default)]
pub(crate) struct DirtierWaits {
    pub(super) events: EventCount,
    /// A dirtier was told to pause: the next one asks first.
    pub(super) throttling: AtomicBool,
    /// Some file had unwritable pages when the core was last asked.
    pub(super) failing: AtomicBool,
    /// Since when unwritable pages have left no room, and the number of pages written by then.
    full: Mutex<Option<(u64, Patience)>>,
}

impl DirtierWaits {
    /// Notes that there is room. A thread that later finds none waits anew.
    pub(super) fn has_room(&self) {
        *self.full.lock() = None;
    }

    /// Notes that a thread, which looks each `every`, has found no room. Returns how long there has been none and nothing was
    /// written, whichever thread has looked. `written`: pages written since the cache was made.
    pub(super) fn full_for(&self, written: u64, every: Duration) -> Duration {
        let mut full = self.full.lock();
        match &mut *full {
            Some((seen, since)) if *seen == written => {
                since.slept(every);
                since.waited()
            }
            _ => {
                *full = Some((written, Patience::new()));
                Duration::ZERO
            }
        }
    }
}
