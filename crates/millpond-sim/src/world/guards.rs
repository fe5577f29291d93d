//! Pages that a process holds for a while: shared, to read them, or exclusively, to change them.

use super::World;
use super::operations::Found;
use crate::faults::Seen;
use crate::process::State;
use millpond_core::admission::Form;
use millpond_core::event::Intent;
use millpond_core::units::{FileId, Nanos, PageIndex, PageKey};
use std::ops::Range;

impl<A: Form> World<A> {
    pub(super) fn guard(
        &mut self,
        pid: usize,
        file: FileId,
        pages: Range<u64>,
        change: bool,
        span: Nanos,
    ) -> bool {
        let count = (pages.end - pages.start) as u32;
        while self.processes[pid].at < count {
            if change && !self.may_dirty(pid) {
                return false;
            }
            let key = PageKey::new(file, PageIndex(pages.start + u64::from(self.processes[pid].at)));
            let own = self.processes[pid].own_page.take();
            let frame = match own.map_or_else(|| self.find(pid, key, change), Found::Page) {
                Found::Waiting => return false,
                Found::Missing => {
                    if self.fault(pid, key, 1, Intent::Read).is_none() {
                        return false;
                    }
                    continue;
                }
                Found::Page(frame) => frame,
            };
            self.processes[pid].at += 1;
            self.processes[pid].began_patience = self.patience;
            self.processes[pid].guards.push(frame);
            let held = self.processes.iter().map(|p| p.guards.len() as u64).sum();
            self.held_max = self.held_max.max(held);
            self.coverage.count(Seen::Guarded);
            self.charge(pid, self.costs.copy);
            if !change {
                self.frames.frame(frame).pins += u32::from(own.is_none());
                self.reached(key);
                continue;
            }
            self.frames.frame(frame).exclusive = true;
            // A page is dirty from the moment on at which it is held to be changed.
            if let Some(at_most) = self.change(pid, key, &[frame]).pause {
                if !self.pause(pid, at_most) {
                    self.wake_one(pid);
                }
                return false;
            }
        }
        if self.processes[pid].at == count {
            self.processes[pid].at += 1;
            self.wait(pid, State::Ready, Some(span));
            return false;
        }
        true
    }

    pub(super) fn drop_guards(&mut self, pid: usize) {
        let process = &mut self.processes[pid];
        let mut guards = std::mem::take(&mut process.guards);
        guards.extend(process.own_page.take());
        for &frame in &guards {
            let state = self.frames.frame(frame);
            if state.exclusive {
                state.exclusive = false;
            } else {
                state.pins -= 1;
            }
        }
        if !guards.is_empty() {
            self.wake(State::Others);
        }
    }
}
