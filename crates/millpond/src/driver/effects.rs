//! The core's effects: what is done under the core lock, and what is left for after it.
//!
//! Under the lock: pages enter the table, transfers begin. After it, in [`Shared::finish`]: requests go to the device,
//! threads wake up. Waits and pauses are for the thread that sent the event.

use super::sync::Answer;
use super::transfers::{Kind, OwnRead, Transfer};
use super::writes::Copying;
use super::{Core, Shared, file_of};
use crate::device::{Device, Op, Request};
use crate::file::FileInner;
use crate::order::Log;
use crate::table::Load;
use millpond_core::event::{Effect, Effects, Reason, Waiters};
use millpond_core::units::{FileId, FrameNo, Nanos, PageIndex, PageKey};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is left to do when the core lock has been let go.
#[derive(Default)]
pub(crate) struct Deferred {
    requests: Vec<(Arc<FileInner>, Request)>,
    /// Writes whose pages are to be copied first.
    copying: Vec<Copying>,
    /// Logs that shall be durable up to a record, because pages wait for it.
    pub(super) asks: Vec<(Arc<Log>, u64)>,
    pub(crate) own: Option<OwnRead>,
    pub(crate) granted: Vec<Load>,
    /// None of the pages is within the fault's [`Reach`](super::Reach).
    pub(crate) outside: bool,
    /// Pages that are read in the background.
    pub(crate) ahead: u64,
    pub(crate) wait: Option<Nanos>,
    pub(crate) pause: Option<Nanos>,
    wake_memory: bool,
    wake_dirtiers: bool,
    wake_syncs: bool,
    pub(super) wake_background: bool,
    pub(crate) reclaim_more: bool,
}

impl Shared {
    pub(super) fn carry_out(
        &self,
        core: &mut Core,
        effect: &Effect,
        effects: &Effects,
        deferred: &mut Deferred,
    ) {
        match effect {
            Effect::Read {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let mut loads = self.insert(core, *file, *first, effects.frames(frames));
                if *reason == Reason::Fault {
                    deferred.own = Some(OwnRead {
                        io: *io,
                        first: *first,
                        loads,
                    });
                    return;
                }
                deferred.ahead += loads.len() as u64;
                let file = file_of(core, *file);
                let request = self.read_request((u64::from(io.0), *reason), &file, *first, &mut loads);
                deferred.requests.push((file.clone(), request));
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
                deferred.granted = self.insert(core, *file, *first, effects.frames(frames));
            }
            Effect::Write {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let file = file_of(core, *file);
                let frames = effects.frames(frames).to_vec();
                let token = (u64::from(io.0), *reason);
                let pins = if file.keeping.is_plain() {
                    Vec::new()
                } else {
                    let copied = self.copy_later(core, &file, token, *first, &frames);
                    match copied {
                        Ok(copying) => {
                            deferred.copying.push(copying);
                            let kind = Kind::Write(frames, Vec::new());
                            let first = *first;
                            core.transfers.insert(*io, Transfer { file, first, kind });
                            return;
                        }
                        Err(pins) => pins,
                    }
                };
                let request = self.write_request(token, &file, *first, &frames);
                deferred.requests.push((file.clone(), request));
                core.transfers.insert(
                    *io,
                    Transfer {
                        file,
                        first: *first,
                        kind: Kind::Write(frames, pins),
                    },
                );
            }
            Effect::Wait { at_most, .. } => deferred.wait = Some(*at_most),
            Effect::Pause { at_most, .. } => {
                self.throttling.store(true, Ordering::Relaxed);
                deferred.pause = Some(*at_most);
            }
            Effect::Wake(Waiters::Memory) => deferred.wake_memory = true,
            Effect::Wake(Waiters::Dirtiers) => deferred.wake_dirtiers = true,
            Effect::Synced {
                ticket,
                result,
                brief,
            } => {
                if let Some(answer) = core.tickets.answers.get_mut(ticket) {
                    *answer = Answer::Ended(*result, *brief);
                }
                deferred.wake_syncs = true;
            }
            Effect::SyncHeld { ticket } => {
                if let Some(answer) = core.tickets.answers.get_mut(ticket) {
                    *answer = Answer::Held;
                }
                deferred.wake_syncs = true;
            }
            Effect::MarkReadAhead { file, at } => {
                file_of(core, *file).readahead_mark.store(at.0, Ordering::Relaxed);
            }
            Effect::WakeReclaimer => {
                self.reclaim_wanted.store(true, Ordering::Relaxed);
                deferred.wake_background = true;
            }
            Effect::ReclaimMore => deferred.reclaim_more = true,
            Effect::Withdraw { frame } => self.table.locked(&mut core.turn).give_back(*frame),
        }
    }

    fn insert(&self, core: &mut Core, file: FileId, first: PageIndex, frames: &[FrameNo]) -> Vec<Load> {
        let mut table = self.table.locked(&mut core.turn);
        let keys = (0..).map(|n| PageKey::new(file, first.after(n)));
        keys.zip(frames)
            .map(|(key, &frame)| table.insert(key, frame))
            .collect()
    }

    /// Does what was left for after the lock.
    pub(crate) fn finish(&self, deferred: &mut Deferred) {
        let _dart = self.dart("device");
        for copying in deferred.copying.drain(..) {
            let write = self.copy(copying);
            deferred.requests.push(write);
        }
        for (log, n) in deferred.asks.drain(..) {
            log.ask(n);
        }
        if !deferred.requests.is_empty() {
            let mut requests = Vec::with_capacity(deferred.requests.len());
            for (file, request) in deferred.requests.drain(..) {
                if request.op == Op::Write {
                    file.make_room(&self.device, request.offset + request.segments.bytes() as u64);
                }
                requests.push(request);
            }
            if let Err(error) = self.device.submit(&mut requests) {
                self.poison(format!("the device takes no requests any more: {error}"));
            }
        }
        if std::mem::take(&mut deferred.wake_memory) {
            self.memory_gate.announce();
        }
        if std::mem::take(&mut deferred.wake_dirtiers) {
            self.dirtier_gate.announce();
        }
        if std::mem::take(&mut deferred.wake_syncs) {
            self.sync_gate.announce();
        }
        if std::mem::take(&mut deferred.wake_background) {
            self.device.wake();
        }
    }
}
