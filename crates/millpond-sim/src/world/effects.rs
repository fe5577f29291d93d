//! Runs steps of the policy, and carries out its effects.

use super::{Entry, World};
use crate::process::{Failure, State};
use millpond_core::admission::Form;
use millpond_core::event::{Effect, Effects, Event, Waiters};
use millpond_core::io::{IoError, Reason};
use millpond_core::units::{FrameNo, Nanos, PageKey};
use millpond_core::writeback::SyncTicket;

/// The answer to the process that raised an event.
#[derive(Default)]
pub(super) struct Told {
    pub(super) wait: Option<Nanos>,
    pub(super) pause: Option<Nanos>,
    /// Frames that were given out, read-ahead among them.
    pub(super) granted: u32,
    pub(super) reclaim_more: bool,
}

impl<A: Form> World<A> {
    pub(super) fn step(&mut self, event: Event<'_>) -> Told {
        self.step_about(event, &[])
    }

    /// A step about the frames `named`.
    pub(super) fn step_about(&mut self, event: Event<'_>, named: &[FrameNo]) -> Told {
        let mut effects = std::mem::take(&mut self.effects);
        self.manager.step(self.now, event, &mut self.frames, &mut effects);
        let mut told = Told::default();
        for effect in &effects.list {
            self.carry_out(effect, &effects, &mut told);
        }
        if let Some(at) = effects.next_tick
            && self.tick_at.is_none_or(|t| at < t)
        {
            let at = at.max(self.now);
            self.tick_at = Some(at);
            self.enqueue(at, Entry::Tick);
        }
        self.digest_step(&effects);
        self.checker
            .after_step(self.now, &effects, named, &self.manager, &mut self.frames);
        self.effects = effects;
        told
    }

    fn digest_step(&mut self, effects: &Effects) {
        let mut fold = |n: u64| {
            self.digest = (self.digest ^ n)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        };
        fold(self.now.0);
        fold(effects.list.len() as u64);
        effects.frames.iter().for_each(|frame| fold(u64::from(frame.0)));
        fold(effects.next_tick.map_or(0, |at| at.0));
    }

    fn carry_out(&mut self, effect: &Effect, effects: &Effects, told: &mut Told) {
        match effect {
            Effect::Read {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let frames = effects.frames(frames).to_vec();
                self.frames.enter_all(*file, *first, &frames, true);
                told.granted += frames.len() as u32;
                let owner = self.asker.filter(|_| *reason == Reason::Fault);
                let owner = owner.map(|pid| (pid, self.processes[pid].number));
                self.transfer((*io, *reason), PageKey::new(*file, *first), frames, owner);
            }
            Effect::Grant { file, first, frames } => {
                // Owned by the process that asked, which is about to fill them.
                let frames = effects.frames(frames);
                self.frames.enter_all(*file, *first, frames, false);
                told.granted += frames.len() as u32;
            }
            Effect::Write {
                io,
                reason,
                file,
                first,
                frames,
            } => {
                let frames = effects.frames(frames).to_vec();
                self.transfer((*io, *reason), PageKey::new(*file, *first), frames, None);
            }
            Effect::Wait { at_most, .. } => told.wait = Some(*at_most),
            Effect::Pause { at_most, .. } => told.pause = Some(*at_most),
            Effect::Wake(Waiters::Memory) => self.wake(State::Memory),
            Effect::Wake(Waiters::Dirtiers) => self.wake(State::Dirtiers),
            Effect::Synced {
                ticket,
                result,
                small_fsync,
            } => self.synced(*ticket, *result, *small_fsync),
            Effect::MarkReadAhead { file, at } => self.files[file.0 as usize].mark = Some(*at),
            Effect::WakeReclaimer => self.enqueue(self.now, Entry::Reclaim),
            Effect::ReclaimMore => told.reclaim_more = true,
            Effect::SwapIn { .. } | Effect::SwapOut { .. } => unreachable!("a world without regions"),
            // The simulator holds no pages.
            Effect::SyncLogBlocked { .. } | Effect::Withdraw { .. } => {}
        }
    }

    fn synced(&mut self, ticket: SyncTicket, result: Result<(), IoError>, is_brief: bool) {
        self.checker.sync_written(ticket, result.is_ok());
        for pid in 0..self.processes.len() {
            let process = &mut self.processes[pid];
            if process.state == State::Ticket(ticket) {
                process.result = result.map_err(Failure::Device);
                process.is_brief = is_brief;
                process.at = 1;
                self.wake_one(pid);
            }
        }
    }
}
