//! The core's effects: what is done under the core lock, what is left for after it, and what the core answers.
//!
//! Under the lock: pages enter the table, transfers begin. After it, in [`Engine::finish`]: requests go to the device,
//! threads wake up ([`AfterUnlock`]). Frames, waits and pauses are for the thread that sent the event ([`StepAnswer`]).

use super::mempool::{Batch, Marked};
use super::swap_in::SwapRead;
use super::sync::Answer;
use super::transfers::{Kind, OwnRead, Transfer};
use super::writes::Copying;
use super::{Core, Engine, file_of};
use crate::device::{Device, Op, Warning};
use crate::files::FileInner;
use crate::files::order::Log;
use crate::frames::table::Load;
use crate::memory::RegionInner;
use crate::observe::events;
use millpond_core::event::{Effect, Effects, Waiters};
use millpond_core::io::Reason;
use millpond_core::units::{FileId, FrameNo, Nanos, PageIndex, PageKey};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is left to do when the core lock has been let go: of one step, or of several.
#[derive(Default)]
pub(crate) struct AfterUnlock {
    requests: Option<Batch>,
    /// Writes whose pages are to be copied first.
    copying: Vec<Copying>,
    /// Logs that shall be durable up to a record, because pages wait for it.
    pub(super) asks: Vec<(Arc<Log>, u64)>,
    /// Pages of regions whose next use is to be seen, and such as are to be written, with their frames: their checksums come
    /// first.
    pub(super) marked: Marked,
    /// To be given when the lock has been let go: their receiver may use the cache.
    pub(super) warnings: Vec<Warning>,
    /// Pages of regions that are lost, and why: in our hands until that was said.
    pub(super) lost: Vec<(Arc<RegionInner>, u64, String)>,
    /// The same, of writes that have failed: of which file, from which page on, how many, why.
    pub(super) failed: Vec<(Arc<FileInner>, PageIndex, usize, io::Error)>,
    wake_memory: bool,
    wake_dirtiers: bool,
    wake_syncs: bool,
    pub(super) wake_background: bool,
}

/// What the core answers to an event: for the thread that sent it. Most events have no answer.
#[derive(Default)]
pub(crate) struct StepAnswer {
    /// To a fault: missing pages that the thread reads itself.
    pub(super) own: Option<OwnRead>,
    /// To a fault in a region: pages that the thread reads from swap, or hands to the device.
    pub(super) swap_read: Option<SwapRead>,
    /// To a fault: pages that the thread fills.
    pub(super) granted: Vec<Load>,
    /// An empty list for either: a fault makes it before it takes the core lock.
    pub(super) room: Vec<Load>,
    /// To a fault: how many pages the device reads, while the thread goes on.
    pub(super) ahead: u64,
    /// To a fault: there is no frame. Ask again after so long at most.
    pub(super) wait: Option<Nanos>,
    /// To a thread that makes pages dirty: pause, and ask again after so long at most.
    pub(super) pause: Option<Nanos>,
    /// To the background reclaimer: memory is not at its high water mark yet.
    pub(crate) reclaim_more: bool,
}

impl AfterUnlock {
    /// What it has for the device, with lists that were set aside.
    pub(super) fn batch(&mut self, engine: &Engine) -> &mut Batch {
        self.requests.get_or_insert_with(|| engine.mempool.batch())
    }
}

impl Engine {
    pub(super) fn carry_out(
        &self,
        core: &mut Core,
        effect: &Effect,
        effects: &Effects,
        later: &mut AfterUnlock,
        answer: &mut StepAnswer,
    ) {
        match effect {
            Effect::Read {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let loads = match reason {
                    Reason::Fault => std::mem::take(&mut answer.room),
                    _ => Vec::new(),
                };
                let mut loads = self.insert(core, *file, *first, effects.frames(frames), loads);
                if *reason == Reason::Fault {
                    answer.own = Some(OwnRead {
                        io: *io,
                        first: *first,
                        loads,
                    });
                    return;
                }
                answer.ahead += loads.len() as u64;
                let file = file_of(core, *file);
                let request = self.read_request((u64::from(io.0), *reason), &file, *first, &mut loads);
                later.batch(self).push(file.clone(), request);
                core.transfers.insert(
                    *io,
                    Transfer {
                        file,
                        first: *first,
                        kind: Kind::Read(loads),
                    },
                );
            }
            Effect::Grant { file, first, frames } => {
                let loads = std::mem::take(&mut answer.room);
                answer.granted = self.insert(core, *file, *first, effects.frames(frames), loads);
                self.hold_granted(*file, *first);
            }
            Effect::Write {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let file = file_of(core, *file);
                let frames = effects.frames(frames);
                let token = (u64::from(io.0), *reason);
                let pins = if file.writeback_rules.is_plain() {
                    Vec::new()
                } else {
                    let copied = self.copy_later(core, &file, token, *first, frames);
                    match copied {
                        Ok(copying) => {
                            later.copying.push(copying);
                            let kind = Kind::Write(Vec::new());
                            let first = *first;
                            core.transfers.insert(*io, Transfer { file, first, kind });
                            return;
                        }
                        Err(pins) => pins,
                    }
                };
                let request = self.write_request(token, &file, *first, frames);
                later.batch(self).push(file.clone(), request);
                core.transfers.insert(
                    *io,
                    Transfer {
                        file,
                        first: *first,
                        kind: Kind::Write(pins),
                    },
                );
            }
            Effect::SwapIn {
                io,
                reason,
                file,
                page,
                slot,
                frames,
            } => {
                let loads = self.insert(core, *file, *page, effects.frames(frames), Vec::new());
                let (io, reason, slot, count) = (*io, *reason, *slot, loads.len());
                let read = self.hold_read(io, reason, PageKey::new(*file, *page), slot, loads);
                if reason == Reason::Fault {
                    answer.swap_read = Some(read);
                } else {
                    answer.ahead += count as u64;
                    self.read_later(core, read, later);
                }
            }
            Effect::SwapOut { io, first, frames } => {
                self.write_swap(core, *io, *first, effects.frames(frames), later);
            }
            Effect::Wait { at_most, .. } => answer.wait = Some(*at_most),
            Effect::Pause { at_most, .. } => {
                self.throttling.store(true, Ordering::Relaxed);
                answer.pause = Some(*at_most);
            }
            Effect::Wake(Waiters::Memory) => later.wake_memory = true,
            Effect::Wake(Waiters::Dirtiers) => later.wake_dirtiers = true,
            Effect::Synced {
                ticket,
                result,
                small_fsync,
            } => {
                if let Some(of_ticket) = core.tickets.answers.get_mut(ticket) {
                    *of_ticket = Answer::Ended(*result, *small_fsync);
                }
                later.wake_syncs = true;
            }
            Effect::SyncLogBlocked { ticket } => {
                if let Some(of_ticket) = core.tickets.answers.get_mut(ticket) {
                    *of_ticket = Answer::Held;
                }
                later.wake_syncs = true;
            }
            Effect::MarkReadAhead { file, at } => {
                if let Some(region) = self.regions.as_ref().and_then(|regions| regions.of(*file)) {
                    return self.mark_ahead(&region, at.0);
                }
                file_of(core, *file).readahead_mark.store(at.0, Ordering::Relaxed);
            }
            Effect::WakeReclaimer => {
                self.reclaim_wanted.store(true, Ordering::Relaxed);
                later.wake_background = true;
            }
            Effect::ReclaimMore => answer.reclaim_more = true,
            Effect::Withdraw { frame } => self.table.locked(&mut core.token).give_back(*frame),
        }
    }

    fn insert(
        &self,
        core: &mut Core,
        file: FileId,
        first: PageIndex,
        frames: &[FrameNo],
        mut loads: Vec<Load>,
    ) -> Vec<Load> {
        let mut table = self.table.locked(&mut core.token);
        table.insert_run(PageKey::new(file, first), frames, &mut loads);
        loads
    }

    /// Does what was left for after the lock.
    pub(crate) fn finish(&self, later: &mut AfterUnlock) {
        let _poisons = self.poison_on_panic("device");
        for copying in later.copying.drain(..) {
            let (file, request) = self.copy(copying);
            later
                .requests
                .get_or_insert_with(|| self.mempool.batch())
                .push(file, request);
        }
        if let Some(regions) = &self.regions
            && regions.exchange.take_unlocked()
        {
            self.device.warn_soon(Warning::RegionUnlocked);
        }
        for warning in later.warnings.drain(..) {
            self.device.warn(warning);
        }
        // A thread that has touched such a page may end the process: the warning comes before it can.
        for (region, page, why) in later.lost.drain(..) {
            self.mark_lost(&region, page, &why);
        }
        for (file, first, pages, error) in later.failed.drain(..) {
            events::write_failed(&file.path, first, pages, &error);
        }
        self.sum_up(&mut later.marked.written);
        for (log, n) in later.asks.drain(..) {
            log.ask(n);
        }
        if let Some(mut batch) = later.requests.take() {
            for (file, request) in batch.files.drain(..).zip(&batch.requests) {
                let bytes = request.segments.bytes() as u64;
                // A write whose pages were all cut off has no bytes, and must not make the file longer again.
                if request.op == Op::Write && bytes > 0 {
                    file.make_room(&self.device, request.offset + bytes);
                }
            }
            if let Err(error) = self.device.submit(&mut batch.requests) {
                self.poison(format!("the device takes no requests any more: {error}"));
            }
            self.mempool.give_back(batch);
        }
        if std::mem::take(&mut later.wake_memory) {
            self.memory_events.notify_all();
            if let Some(regions) = &self.regions {
                regions.memory_came();
            }
        }
        if std::mem::take(&mut later.wake_dirtiers) {
            self.dirtier_events.notify_all();
            if let Some(regions) = &self.regions {
                regions.dirtiers_may();
            }
        }
        if std::mem::take(&mut later.wake_syncs) {
            self.sync_events.notify_all();
        }
        if std::mem::take(&mut later.wake_background) {
            self.device.wake();
        }
        if self.regions.is_some() {
            self.sample(&mut later.marked);
            self.mempool.take_back(later);
        }
    }
}
