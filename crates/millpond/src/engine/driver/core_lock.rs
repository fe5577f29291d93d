//! The core lock. With the feature `lock-times` each time that it is held is noted, which costs the holder some 80 ns;
//! without it there is nothing here but the lock.

use super::{Core, Engine};
use crate::host::hook;
#[cfg(not(feature = "lock-times"))]
use parking_lot::MutexGuard;

#[cfg(not(feature = "lock-times"))]
pub(crate) type CoreGuard<'a> = MutexGuard<'a, Core>;

#[cfg(feature = "lock-times")]
pub(crate) use times::CoreGuard;

impl Engine {
    /// Takes the core lock.
    #[cfg(not(feature = "lock-times"))]
    pub(crate) fn core(&self) -> CoreGuard<'_> {
        hook::check_outside(self);
        self.core.lock()
    }

    /// Takes the core lock.
    #[cfg(feature = "lock-times")]
    pub(crate) fn core(&self) -> CoreGuard<'_> {
        hook::check_outside(self);
        CoreGuard::lock(&self.core)
    }
}

/// Lets go of the core lock, and of its turn if another thread waits for it.
#[cfg(not(feature = "lock-times"))]
pub(crate) fn unlock_fair(core: CoreGuard<'_>) {
    MutexGuard::unlock_fair(core);
}

#[cfg(feature = "lock-times")]
pub(crate) fn unlock_fair(core: CoreGuard<'_>) {
    drop(core);
}

/// Lets a thread that waits for the core lock have it, if there is one, and takes it again. One load if there is none.
#[cfg(not(feature = "lock-times"))]
pub(crate) fn bump(core: &mut CoreGuard<'_>) {
    MutexGuard::bump(core);
}

#[cfg(feature = "lock-times")]
pub(crate) fn bump(core: &mut CoreGuard<'_>) {
    core.bump();
}

#[cfg(feature = "lock-times")]
pub(crate) mod times {
    use super::{Core, Engine};
    use millpond_core::event::{Event, Intent};
    use parking_lot::{Mutex, MutexGuard};
    use std::ops::{Deref, DerefMut};
    use std::time::{Duration, Instant};

    /// One time that the core lock was held.
    #[derive(Clone, Copy, Debug)]
    pub struct Hold {
        /// The first event that was stepped; "no event" if there was none.
        pub event: &'static str,
        /// How many events were stepped.
        pub events: u32,
        /// Nanoseconds from asking for the lock to having it.
        pub waited_ns: u32,
        /// Nanoseconds from having it to letting it go.
        pub held_ns: u32,
    }

    impl Engine {
        /// Notes the next `count` holds, and forgets those before.
        pub(crate) fn note_holds(&self, count: usize) {
            let list = Vec::with_capacity(count);
            // The old list is freed after the lock.
            let _before = std::mem::replace(&mut self.core().holds.list, list);
        }

        /// Those that were noted; notes no more.
        pub(crate) fn take_holds(&self) -> Vec<Hold> {
            std::mem::take(&mut self.core().holds.list)
        }
    }

    /// What the lock protects of this.
    #[derive(Default)]
    pub(in crate::engine::driver) struct Holds {
        list: Vec<Hold>,
        event: Option<&'static str>,
        events: u32,
    }

    impl Holds {
        /// The holder steps this event.
        pub(in crate::engine::driver) fn steps(&mut self, event: &Event<'_>) {
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
    pub(crate) struct CoreGuard<'a> {
        core: MutexGuard<'a, Core>,
        waited: Duration,
        since: Instant,
    }

    impl CoreGuard<'_> {
        pub(super) fn lock(lock: &Mutex<Core>) -> CoreGuard<'_> {
            let asked = Instant::now();
            let core = lock.lock();
            let since = Instant::now();
            CoreGuard {
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
    }

    impl Deref for CoreGuard<'_> {
        type Target = Core;

        fn deref(&self) -> &Core {
            &self.core
        }
    }

    impl DerefMut for CoreGuard<'_> {
        fn deref_mut(&mut self) -> &mut Core {
            &mut self.core
        }
    }

    impl Drop for CoreGuard<'_> {
        fn drop(&mut self) {
            let held = self.since.elapsed();
            self.core.holds.end(self.waited, held);
        }
    }
}
