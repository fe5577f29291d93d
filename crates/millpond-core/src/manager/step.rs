//! One step: an event comes in, effects go out.
//!
//! State that is valid for one step is in its [`StepContext`]; lasting state is in [`Manager`].

use super::{Manager, TICK_WHILE_DIRTY, write};
use crate::admission::Form;
use crate::event::{Effects, Event};
use crate::frame::FrameTable;
use crate::units::{Instant, PageCount};

/// What one step knows, beside the world's frames, and what it says.
pub(super) struct StepContext<'a> {
    pub(super) now: Instant,
    /// What is to be done.
    pub(super) effects: &'a mut Effects,
    /// There may be something to write that could not be written before, or did not have to be.
    may_write: bool,
    /// A page that was to be written was in other hands.
    pub(super) met_busy: bool,
    /// A dirtier waited until now and may go on.
    pub(super) woke_dirtier: bool,
    /// An allocation has reclaimed and not got what it wanted.
    pub(super) reclaimed_in_vain: bool,
}

impl StepContext<'_> {
    pub(super) fn new(now: Instant, effects: &mut Effects) -> StepContext<'_> {
        StepContext {
            now,
            effects,
            may_write: true,
            met_busy: false,
            woke_dirtier: false,
            reclaimed_in_vain: false,
        }
    }
}

impl<A: Form> Manager<A> {
    /// Processes one event. Empties `effects`, then fills it with what the driver has to do.
    ///
    /// # Panics
    /// If the event is impossible: the end of a transfer that was not issued, or a file that is not open. That is a bug
    /// in the driver.
    pub fn step<F: FrameTable>(
        &mut self,
        now: Instant,
        event: Event<'_>,
        frames: &mut F,
        effects: &mut Effects,
    ) {
        effects.clear();
        let is_dirtied = matches!(event, Event::Dirtied { .. });
        let mut cx = StepContext::new(now, effects);
        self.apply(event, frames, &mut cx);
        if cx.may_write {
            self.pump(frames, &mut cx);
        }
        self.swap_out(frames, &mut cx);
        if is_dirtied && cx.met_busy {
            write::ask_at_once(&mut cx);
        }
        self.ask_for_tick(&mut cx);
    }

    /// What the event itself comes to, before anything is written.
    fn apply<F: FrameTable>(&mut self, event: Event<'_>, frames: &mut F, cx: &mut StepContext<'_>) {
        match event {
            Event::DeviceFound { device, hints } => {
                cx.may_write = false;
                self.devices.found(device, hints);
            }
            Event::Opened { file, pages, device } => {
                cx.may_write = false;
                self.open(file, pages, device);
            }
            Event::SwapAdded {
                slots,
                priority,
                device,
            } => self.swap.added(slots, priority, device),
            Event::RegionOpened { file, pages } => {
                cx.may_write = false;
                self.open_region(file, pages);
            }
            Event::Changed { frames: changed } => self.changed(changed, frames),
            Event::Forgotten { file, pages } => self.forgotten(file, pages),
            Event::Resized { file, pages } => {
                cx.may_write = false;
                self.files.of(file).pages = pages;
            }
            Event::Closed { file } => match self.files.close(file).slots {
                Some(slots) => self.swap.close(&slots),
                None => {
                    self.flusher.close(file);
                    self.lru.closed(file);
                }
            },
            Event::Advised { file, pattern } => {
                cx.may_write = false;
                self.files.of(file).readahead.advise(pattern);
            }
            Event::Fault {
                file,
                first,
                count,
                intent,
            } => {
                cx.may_write = self.fault(file, first, count, intent, frames, cx);
            }
            Event::ReadAheadDue { file, at } => {
                cx.may_write = false;
                self.readahead_due(file, at, frames, cx);
            }
            Event::Awaited { file, page } => self.awaited(file, page, cx),
            Event::ReadDone { io, result } => self.read_done(io, result, cx),
            Event::WriteDone { io, result } => self.write_done(io, result, frames, cx),
            Event::Dirtied {
                file,
                first,
                frames: dirtied,
                dirtier,
            } => {
                self.dirtied(file, first, dirtied, dirtier, cx);
            }
            Event::Resume { dirtier } => {
                // A dirtier that pauses has let go of its pages.
                if let Some(file) = self.busy_file.take() {
                    self.flusher.look_again(file);
                }
                self.wake_blocked(cx);
                self.throttle(dirtier, cx);
            }
            Event::Sync { file, ticket } => {
                self.flusher.sync(file, ticket);
                self.tell_syncs(file, cx);
            }
            Event::SyncGivenUp { file, ticket } => {
                self.flusher.sync_given_up(file, ticket);
                self.tell_syncs(file, cx);
            }
            Event::Retry { file } => self.flusher.retry(cx.now, file),
            Event::DeviceSync { file, begun } => {
                let device = self.files.of(file).device;
                let admission = &mut self.devices.of(device).admission;
                match begun {
                    true => admission.device_sync_begun(cx.now),
                    false => admission.device_sync_ended(cx.now),
                }
            }
            Event::Released { file, pages } => self.flusher.released(file, pages),
            Event::Discarded { file, pages } => self.discarded(file, pages, cx),
            Event::Reclaim => self.background_reclaim(frames, cx),
            Event::Tick => {
                self.last_tick = cx.now;
                self.flusher.tick(cx.now);
                self.wake_blocked(cx);
                if self.pool.is_shrinking() {
                    self.wake_reclaimer(cx);
                }
            }
            Event::Retuned(options) => {
                self.set_at.retuned(cx.now, &self.options, &options);
                self.retune(*options, cx);
            }
            Event::MemoryChanged { frames: count } => {
                if count != self.derived.frames {
                    self.set_at.memory_changed(cx.now);
                }
                self.memory_changed(count, frames, cx);
            }
        }
    }

    fn ask_for_tick(&mut self, cx: &mut StepContext<'_>) {
        if let Some(at) = self.look_again {
            cx.effects.tick_at(at);
        }
        // No event comes when a page is let go that kept the pool from getting smaller.
        if self.flusher.dirty() > PageCount(0) || (self.pool.is_shrinking() && !self.reclaimer.is_awake()) {
            cx.effects.tick_at(self.last_tick + TICK_WHILE_DIRTY);
        }
    }
}
