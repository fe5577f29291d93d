//! Records how long the core lock is held, at a cost of some 80 ns to each holder. Only with the feature `lock-times`.

use super::Core;
use millpond_core::event::{Event, Intent};
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// One hold of the core lock.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// The first event that was stepped; "no event" if there was none.
    pub event: &'static str,
    /// The number of events stepped.
    pub events: u32,
    /// Nanoseconds from asking for the lock to having it.
    pub waited_ns: u32,
    /// Nanoseconds from taking it to releasing it.
    pub held_ns: u32,
}

/// The recorder, protected by the lock.
#[derive(Default)]
pub(super) struct Holds {
    list: Vec<Hold>,
    event: Option<&'static str>,
    events: u32,
}

impl Holds {
    /// Starts recording the next `count` holds. Returns the earlier ones, to be freed after the unlock.
    pub(super) fn note(&mut self, count: usize) -> Vec<Hold> {
        std::mem::replace(&mut self.list, Vec::with_capacity(count))
    }

    /// Returns the recorded holds and stops recording.
    pub(super) fn take(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.list)
    }

    /// Records that the holder steps this event.
    pub(super) fn steps(&mut self, event: &Event<'_>) {
        self.event.get_or_insert(name(event));
        self.events += 1;
    }

    fn end(&mut self, waited: Duration, held: Duration) {
        let (event, events) = (self.event.take(), std::mem::take(&mut self.events));
        if self.list.len() < self.list.capacity() {
            let ns = |span: Duration| u32::try_from(span.as_nanos()).unwrap_or(u32::MAX);
            self.list.push(Hold {
                event: event.unwrap_or("no event"),
                events,
                waited_ns: ns(waited),
                held_ns: ns(held),
            });
        }
    }
}

fn name(event: &Event<'_>) -> &'static str {
    match event {
        Event::Fault { intent, .. } => match intent {
            Intent::Read => "Fault, to read",
            Intent::Overwrite => "Fault, to overwrite",
            Intent::Prefetch => "Fault, to prefetch",
            Intent::Background => "Fault, in the background",
        },
        Event::ReadAheadDue { .. } => "ReadAheadDue",
        Event::ReadDone { .. } => "ReadDone",
        Event::WriteDone { .. } => "WriteDone",
        Event::Dirtied { .. } => "Dirtied",
        Event::Resume { .. } => "Resume",
        Event::Sync { .. } => "Sync",
        Event::Reclaim => "Reclaim",
        Event::Tick => "Tick",
        Event::Discarded { .. } => "Discarded",
        _ => "another event",
    }
}

/// The lock while it is held.
pub(super) struct Held<'a> {
    core: MutexGuard<'a, Core>,
    waited: Duration,
    since: Instant,
}

impl Held<'_> {
    pub(super) fn lock(lock: &Mutex<Core>) -> Held<'_> {
        let asked = Instant::now();
        let core = lock.lock();
        let since = Instant::now();
        Held {
            core,
            waited: since - asked,
            since,
        }
    }

    pub(super) fn bump(&mut self) {
        let held = self.since.elapsed();
        self.core.holds.end(self.waited, held);
        let asked = Instant::now();
        MutexGuard::bump(&mut self.core);
        self.since = Instant::now();
        self.waited = self.since - asked;
    }

    pub(super) fn unlock_fair(self) {
        drop(self);
    }
}

impl Deref for Held<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let held = self.since.elapsed();
        self.core.holds.end(self.waited, held);
    }
}
