//! How processes wait, for how long, and how they are woken. The timeouts are the engine's.

use super::{Entry, World};
use crate::faults::Seen;
use crate::process::{Failure, State};
use millpond_core::admission::Form;
use millpond_core::dirty::DirtierId;
use millpond_core::event::Event;
use millpond_core::units::{FileId, Instant, Nanos};

/// After this long without a frame, or without any page being written, an operation gives up.
const PATIENCE_FOR_MEMORY: Nanos = Nanos::from_secs(30);
/// After this long without any page being written, a paused dirtier of a failing file gets an error.
const PATIENCE_WITH_ERRORS: Nanos = Nanos::from_secs(2);
/// Unannounced changes are checked for after this time.
const LOOK_AGAIN: Nanos = Nanos::from_millis(200);

impl<A: Form> World<A> {
    pub(super) fn wait(&mut self, pid: usize, state: State, at_most: Option<Nanos>) {
        let process = &mut self.processes[pid];
        process.state = state;
        process.wait_number += 1;
        let number = process.wait_number;
        if let Some(at_most) = at_most {
            self.enqueue(self.now + at_most, Entry::Process(pid, number));
        }
    }

    /// Waits for something that others do.
    pub(super) fn wait_for_others(&mut self, pid: usize) {
        self.wait(pid, State::Others, Some(LOOK_AGAIN));
    }

    pub(super) fn wake_one(&mut self, pid: usize) {
        self.processes[pid].wait_number += 1;
        let number = self.processes[pid].wait_number;
        self.enqueue(self.now, Entry::Process(pid, number));
    }

    /// Wakes the processes that wait for this, in the order of their numbers; those that wait for memory from any of
    /// them on, because the first takes what there is.
    pub(super) fn wake(&mut self, state: State) {
        let mut waiting = (0..self.processes.len())
            .filter(|&pid| self.processes[pid].state == state)
            .collect::<Vec<_>>();
        if state == State::Memory && waiting.len() > 1 {
            let first = self.random.below(waiting.len() as u64);
            waiting.rotate_left(first as usize);
        }
        waiting.into_iter().for_each(|pid| self.wake_one(pid));
    }

    /// Waits for a frame; `false`: it gave up, and the operation has failed.
    pub(super) fn wait_for_memory(&mut self, pid: usize, at_most: Nanos) -> bool {
        let process = &mut self.processes[pid];
        let since = *process.short_since.get_or_insert(self.now);
        if self.now.since(since) > PATIENCE_FOR_MEMORY {
            self.coverage.count(Seen::NoFrames);
            process.result = Err(Failure::NoFrames);
            return false;
        }
        self.wait(pid, State::Memory, Some(at_most));
        true
    }

    /// Pauses a dirtier; `false`: it gave up, and the operation has failed.
    pub(super) fn pause(&mut self, pid: usize, at_most: Nanos) -> bool {
        let written = self.manager.stats().nr_written;
        let file = self.processes[pid].op.file();
        let own = file.and_then(|file| self.manager.refuses(file));
        let (before, since): (u64, Instant) = *self.processes[pid]
            .paused_since
            .get_or_insert((written, self.now));
        let stuck = self.now.since(since);
        if before != written {
            self.processes[pid].paused_since = Some((written, self.now));
        }
        let failure = match own {
            Some(error) => Some(Failure::Device(error)),
            None if before != written => None,
            None if stuck > PATIENCE_FOR_MEMORY => Some(Failure::NoFrames),
            None if stuck > PATIENCE_WITH_ERRORS => {
                let mut files = (0..self.files.len()).map(|file| FileId(file as u32));
                let failing = files.find_map(|file| self.manager.failing(file));
                failing.map(|(_, error)| Failure::Device(error))
            }
            None => None,
        };
        let Some(failure) = failure else {
            self.wait(pid, State::Dirtiers, Some(at_most));
            return true;
        };
        self.coverage.count(match failure {
            Failure::NoFrames => Seen::NoFrames,
            _ => Seen::PauseError,
        });
        self.processes[pid].result = Err(failure);
        self.processes[pid].must_ask = true;
        false
    }

    /// Before a process dirties pages: whether it may, or has to wait, or has failed because its file can't be written.
    /// A process that has given up a pause would else fill memory with pages that can't be written, a few at each try.
    pub(super) fn may_dirty(&mut self, pid: usize) -> bool {
        let file = self.processes[pid].op.file();
        if let Some(error) = file.and_then(|file| self.manager.refuses(file)) {
            self.coverage.count(Seen::Refused);
            self.processes[pid].result = Err(Failure::Device(error));
            self.wake_one(pid);
            return false;
        }
        if !self.processes[pid].must_ask {
            return true;
        }
        let dirtier = DirtierId(pid as u32);
        let told = self.step(Event::Resume { dirtier });
        let Some(at_most) = told.pause else {
            self.processes[pid].must_ask = false;
            return true;
        };
        if !self.pause(pid, at_most) {
            self.wake_one(pid);
        }
        false
    }
}
