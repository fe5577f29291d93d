//! Threads that wait for the cache: for frames, for leave to make pages dirty, for syncs. Each kind has the events that end its
//! wait, and what else is known of it.

use crate::frames::event_count::EventCount;
use crate::observe::stats::FrameWaits as Figures;
use crate::sys::clock::{Clock, Patience};
use millpond_core::units::{Instant, Nanos, PageCount};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// All of them.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) frames: FrameWaits,
    pub(super) dirtiers: DirtierWaits,
    pub(super) syncs: EventCount,
}

impl Waits {
    /// No thread will be woken for what it waits for.
    pub(super) fn call_off(&self) {
        for events in [&self.frames.events, &self.dirtiers.events, &self.syncs] {
            events.notify_all();
        }
    }
}

/// Calls that wait for frames, and how long they have, in nanoseconds.
#[derive(Default)]
pub(crate) struct FrameWaits {
    pub(super) events: EventCount,
    count: AtomicU64,
    ns: AtomicU64,
    ns_max: AtomicU64,
    /// Of the part of a wait during which reclaim could have had pages without waiting for a write.
    clean_ns_max: AtomicU64,
    /// Steps in which a call has reclaimed for itself.
    reclaim_ns: AtomicU64,
}

impl FrameWaits {
    /// A call has reclaimed for itself for so long.
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
    /// When it was told to wait first.
    since: Option<Instant>,
    /// When it was told last, if there were clean pages then.
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

    /// It was told to wait, with so many clean pages in memory.
    pub(super) fn waits(&mut self, clean: PageCount) {
        let now = self.clock.now();
        self.add_clean(now);
        self.since.get_or_insert(now);
        self.clean_since = (clean > PageCount(0)).then_some(now);
    }

    /// It was told to go on, or gives up.
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
    /// One was told to pause: the next one asks first.
    pub(super) throttling: AtomicBool,
    /// Some file has pages that can't be written, when the core was asked last.
    pub(super) failing: AtomicBool,
    /// Since when those have left no room for others, and how many pages were written by then.
    full: Mutex<Option<(u64, Patience)>>,
}

impl DirtierWaits {
    /// There is room. A thread that is without room later waits anew.
    pub(super) fn has_room(&self) {
        *self.full.lock() = None;
    }

    /// A thread that looks each `every` has found no room: for how long there has been none and nothing was written, no matter
    /// which thread has looked. `written`: pages that were written since the cache was made.
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
