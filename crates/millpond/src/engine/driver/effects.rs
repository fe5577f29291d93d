//! Carries out the core's effects under the core lock: pages enter the table, transfers begin. Work for after the unlock
//! goes into the [`Outbox`](super::Outbox). Frames, waits and pauses are for the thread that sent the event
//! ([`StepAnswer`]).

use super::CoreGuard;
use super::coming::SwapRead;
use super::sync::Answer;
use super::transfers::{FileIo, Kind, OwnRead, Transfer};
use crate::frames::table::Load;
use millpond_core::event::{Effect, Effects, Waiters};
use millpond_core::io::Reason;
use millpond_core::units::{FileId, FrameNo, Nanos, PageIndex, PageKey};
use std::sync::atomic::Ordering;

/// The core's answer to the thread that sent an event. Most events have none.
#[derive(Default)]
pub(crate) struct StepAnswer {
    /// For a fault: missing pages that the thread reads itself.
    pub(super) own: Option<OwnRead>,
    /// For a fault in a region: pages that the thread reads from swap, or hands to the device.
    pub(super) swap_read: Option<SwapRead>,
    /// For a fault: pages that the thread fills.
    pub(super) granted: Vec<Load>,
    /// An empty list for either, made before the fault takes the core lock.
    pub(super) room: Vec<Load>,
    /// For a fault: the number of pages that the device reads while the thread goes on.
    pub(super) ahead: u64,
    /// For a fault: there is no frame. Ask again after this time at most.
    pub(super) wait: Option<Nanos>,
    /// For a thread that makes pages dirty: pause, and ask again after this time at most.
    pub(super) pause: Option<Nanos>,
    /// For the background reclaimer: memory has not reached its high water mark.
    pub(crate) reclaim_more: bool,
}

impl CoreGuard<'_> {
    pub(super) fn carry_out(&mut self, effect: &Effect, effects: &Effects, answer: &mut StepAnswer) {
        let engine = self.engine;
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
                let mut loads = self.insert(*file, *first, effects.frames(frames), loads);
                if *reason == Reason::Fault {
                    answer.own = Some(OwnRead {
                        io: *io,
                        first: *first,
                        loads,
                    });
                    return;
                }
                answer.ahead += loads.len() as u64;
                let file = self.file(*file);
                let request =
                    FileIo::of(engine, &file).read_request((u64::from(io.0), *reason), *first, &mut loads);
                self.outbox.submit(file.clone(), request);
                self.transfers.insert(
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
                answer.granted = self.insert(*file, *first, effects.frames(frames), loads);
                self.hold_granted(*file, *first);
            }
            Effect::Write {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let file = self.file(*file);
                let frames = effects.frames(frames);
                let token = (u64::from(io.0), *reason);
                let pins = if file.writeback_rules.is_plain() {
                    Vec::new()
                } else {
                    let copied = self.copy_later(&file, token, *first, frames);
                    match copied {
                        Ok(copying) => {
                            self.outbox.copying.push(copying);
                            let kind = Kind::Write(Vec::new());
                            let first = *first;
                            self.transfers.insert(*io, Transfer { file, first, kind });
                            return;
                        }
                        Err(pins) => pins,
                    }
                };
                let request = FileIo::of(engine, &file).write_request(token, *first, frames);
                self.outbox.submit(file.clone(), request);
                self.transfers.insert(
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
                let loads = self.insert(*file, *page, effects.frames(frames), Vec::new());
                let (io, reason, slot, count) = (*io, *reason, *slot, loads.len());
                let read = SwapRead::hold(engine, io, reason, PageKey::new(*file, *page), slot, loads);
                if reason == Reason::Fault {
                    answer.swap_read = Some(read);
                } else {
                    answer.ahead += count as u64;
                    self.read_later(read);
                }
            }
            Effect::SwapOut { io, first, frames } => {
                self.write_swap(*io, *first, effects.frames(frames));
            }
            Effect::Wait { at_most, .. } => answer.wait = Some(*at_most),
            Effect::Pause { at_most, .. } => {
                engine.waits.dirtiers.throttling.store(true, Ordering::Relaxed);
                answer.pause = Some(*at_most);
            }
            Effect::Wake(Waiters::Memory) => self.outbox.wake_memory = true,
            Effect::Wake(Waiters::Dirtiers) => self.outbox.wake_dirtiers = true,
            Effect::Synced {
                ticket,
                result,
                small_fsync,
            } => {
                if let Some(of_ticket) = self.tickets.answers.get_mut(ticket) {
                    *of_ticket = Answer::Ended(*result, *small_fsync);
                }
                self.outbox.wake_syncs = true;
            }
            Effect::SyncLogBlocked { ticket } => {
                if let Some(of_ticket) = self.tickets.answers.get_mut(ticket) {
                    *of_ticket = Answer::Held;
                }
                self.outbox.wake_syncs = true;
            }
            Effect::MarkReadAhead { file, at } => {
                if let Some(region) = engine.spaces.as_ref().and_then(|spaces| spaces.of(*file)) {
                    return self.mark_ahead(&region, at.0);
                }
                self.file(*file).readahead_mark.store(at.0, Ordering::Relaxed);
            }
            Effect::WakeReclaimer => {
                engine.reclaim_wanted.store(true, Ordering::Relaxed);
                self.outbox.wake_background = true;
            }
            Effect::ReclaimMore => answer.reclaim_more = true,
            Effect::Withdraw { frame } => engine.table.locked(&mut self.held.token).give_back(*frame),
        }
    }

    fn insert(
        &mut self,
        file: FileId,
        first: PageIndex,
        frames: &[FrameNo],
        mut loads: Vec<Load>,
    ) -> Vec<Load> {
        let mut table = self.engine.table.locked(&mut self.held.token);
        table.insert_run(PageKey::new(file, first), frames, &mut loads);
        loads
    }
}
