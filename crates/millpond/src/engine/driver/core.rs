//! The core, its lock, and the only place that steps it.
//!
//! ```text
//!   Engine::core ─► CoreGuard ─► step, as often as it takes ─► its drop: unlocks, then the outbox
//! ```
//!
//! A method of [`CoreGuard`] runs under the core lock: it waits for nothing and transfers nothing. Slow work goes into the
//! [`Outbox`]. The holder of the guard can't forget it: dropping the guard does the work, in the outbox's order. A thread
//! that still has pages in hand settles them between unlock and outbox ([`CoreGuard::unlock`]), because the code that the
//! outbox calls may wait for them.

use super::devices::DeviceNumbers;
use super::effects::StepAnswer;
#[cfg(feature = "lock-times")]
use super::hold_times::{Held, Hold, Holds};
use super::outbox::Outbox;
use super::sync::Tickets;
use super::transfers::Transfer;
use super::writes::{Frames, LogBlocked, StepPages};
use super::{Engine, mempool};
use crate::files::FileInner;
use crate::frames::table::{Load, WriteToken};
use crate::host::hook;
use crate::observe::record::{self, Recorder};
use millpond_core::event::{Effects, Event};
use millpond_core::io::{IoError, IoId};
use millpond_core::manager::Manager;
use millpond_core::units::FileId;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The lock while it is held.
#[cfg(not(feature = "lock-times"))]
type Held<'a> = parking_lot::MutexGuard<'a, Core>;

/// The data that the core lock protects.
pub(crate) struct Core {
    pub(crate) manager: Manager,
    /// The right to change the table.
    pub(crate) token: WriteToken,
    effects: Effects,
    pub(super) transfers: HashMap<IoId, Transfer>,
    pub(super) pages: StepPages,
    pub(super) log_blocked: LogBlocked,
    pub(crate) files: Vec<Option<Arc<FileInner>>>,
    pub(super) tickets: Tickets,
    pub(super) devices: DeviceNumbers,
    recorder: Option<Box<dyn Recorder>>,
    #[cfg(feature = "lock-times")]
    pub(super) holds: Holds,
}

impl Core {
    pub(super) fn new(manager: Manager, token: WriteToken, recorder: Option<Box<dyn Recorder>>) -> Core {
        Core {
            manager,
            token,
            effects: Effects::default(),
            transfers: HashMap::with_capacity(mempool::TRANSFERS),
            pages: StepPages::new(),
            log_blocked: LogBlocked::default(),
            files: Vec::new(),
            tickets: Tickets::default(),
            devices: DeviceNumbers::default(),
            recorder,
            #[cfg(feature = "lock-times")]
            holds: Holds::default(),
        }
    }

    /// Returns an open file that the core has named.
    pub(super) fn file(&self, file: FileId) -> Arc<FileInner> {
        self.files[file.0 as usize]
            .clone()
            .expect("the core names only files that are open")
    }
}

/// The core, while its lock is held, and the work left for afterwards. The fields are dropped in this order.
pub(crate) struct CoreGuard<'a> {
    pub(super) engine: &'a Engine,
    pub(super) held: Held<'a>,
    pub(super) outbox: Outbox<'a>,
}

impl Engine {
    /// Takes the core lock.
    pub(crate) fn core(&self) -> CoreGuard<'_> {
        CoreGuard::lock(self.outbox())
    }

    /// Steps one event, for a thread that wants no answer.
    pub(crate) fn tell(&self, event: Event<'_>) {
        self.core().step(event);
    }

    /// Starts recording the next `count` holds of the lock, and forgets earlier ones.
    #[cfg(feature = "lock-times")]
    pub(crate) fn note_holds(&self, count: usize) {
        let _before = self.core().holds.note(count);
    }

    /// Returns the recorded holds and stops recording.
    #[cfg(feature = "lock-times")]
    pub(crate) fn take_holds(&self) -> Vec<Hold> {
        self.core().holds.take()
    }
}

impl<'a> CoreGuard<'a> {
    /// Takes the core lock. New work is added to what the outbox already has.
    pub(crate) fn lock(outbox: Outbox<'a>) -> CoreGuard<'a> {
        let engine = outbox.engine();
        hook::check_outside(engine);
        #[cfg(not(feature = "lock-times"))]
        let held = engine.core.lock();
        #[cfg(feature = "lock-times")]
        let held = Held::lock(&engine.core);
        CoreGuard { engine, held, outbox }
    }

    /// Steps the core with one event and carries out the effects that belong under its lock.
    ///
    /// A panic in here is a bug of ours and leaves the core in the middle of a step, so it poisons the cache.
    pub(crate) fn step(&mut self, event: Event<'_>) -> StepAnswer {
        let mut answer = StepAnswer::default();
        self.step_into(event, &mut answer);
        answer
    }

    /// As [`CoreGuard::step`], with an answer that has room for pages.
    pub(super) fn step_into(&mut self, event: Event<'_>, answer: &mut StepAnswer) {
        let engine = self.engine;
        let _poisons = engine.poison_on_panic("state machine");
        #[cfg(feature = "lock-times")]
        self.holds.steps(&event);
        if matches!(event, Event::Tick) {
            self.unpin_late();
            self.ask_again();
        }
        let Core {
            manager,
            token,
            effects,
            recorder,
            files,
            pages,
            log_blocked,
            ..
        } = &mut *self.held;
        let mut frames = Frames {
            table: engine.table.locked(token),
            engine,
            files,
            pages,
            log_blocked,
            asks: &mut self.outbox.asks,
        };
        let now = engine.clock.now();
        match recorder.as_deref_mut() {
            None => manager.step(now, event, &mut frames, effects),
            Some(recorder) => hook::inside(engine, || {
                record::step(recorder, manager, (now, event), &mut frames, effects);
            }),
        }
        let effects = std::mem::take(&mut self.effects);
        for effect in &effects.list {
            self.carry_out(effect, &effects, answer);
        }
        let tick_at = effects.next_tick.map_or(u64::MAX, |at| at.0);
        let before = engine.tick_at.swap(tick_at, Ordering::Relaxed);
        self.outbox.wake_background |= tick_at < before;
        self.effects = effects;
        let StepPages { sampled, written, .. } = &mut self.held.pages;
        if !sampled.is_empty() || !written.is_empty() {
            let marked = self.outbox.marked();
            marked.sampled.append(sampled);
            marked.written.append(written);
        }
        if !self.pages.changed.is_empty() {
            let mut frames = std::mem::take(&mut self.pages.changed);
            self.step_into(Event::Changed { frames: &frames }, answer);
            frames.clear();
            self.pages.changed = frames;
        }
    }

    /// Ends a failed read. Its pages do not come into memory.
    pub(super) fn fail_read(&mut self, io: IoId, loads: Vec<Load>, error: IoError) {
        for load in loads {
            self.engine.table.locked(&mut self.held.token).fail_load(load);
        }
        let result = Err(error);
        self.step(Event::ReadDone { io, result });
    }

    /// Hands the core lock to a waiting thread, if there is one, and takes it again. Costs one load if there is none.
    pub(crate) fn bump(&mut self) {
        Held::bump(&mut self.held);
    }

    /// Releases the lock and nothing else. Dropping the returned outbox does the remaining work.
    pub(crate) fn unlock(self) -> Outbox<'a> {
        self.outbox
    }

    /// Releases the lock, and hands it to a waiting thread directly, if there is one.
    pub(crate) fn unlock_fair(self) {
        let CoreGuard { held, outbox, .. } = self;
        Held::unlock_fair(held);
        drop(outbox);
    }
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.held
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.held
    }
}
