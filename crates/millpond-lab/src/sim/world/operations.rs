//! What processes do, step by step until they have to wait.

use super::{Entry, Told, World};
use crate::sim::process::{Done, Op, Process, State};
use millpond_core::event::{DirtierId, Event, Intent, SyncTicket};
use millpond_core::frame::FrameTable;
use millpond_core::units::{FileId, Nanos, PageIndex, PageKey};

impl World {
    /// Goes on with the operation of a process whose turn it is.
    pub(super) fn carry_on(&mut self, pid: usize) {
        let process = &self.processes[pid];
        let is_over = match process.op {
            _ if process.result.is_err() => true,
            Op::Read { file, first, pages } => self.read(pid, file, first, pages),
            Op::Write { file, first, pages } => self.write(pid, file, first, pages),
            Op::Sync { file } => self.sync(pid, file),
            Op::Truncate { file, first } => self.truncate(pid, file, first),
            Op::Sleep(_) => true,
            Op::Exit => return,
        };
        if !is_over {
            return;
        }
        let process = &mut self.processes[pid];
        let owed = std::mem::take(&mut process.owed);
        if owed > Nanos::ZERO {
            // The processor time of the operation passes before it ends.
            process.wait_number += 1;
            let number = process.wait_number;
            return self.enqueue(self.now + owed, Entry::Process(pid, number));
        }
        let Process {
            op,
            began,
            missed,
            result,
            ..
        } = *process;
        let done = Done {
            op,
            began,
            ended: self.now,
            missed,
            result,
        };
        let next = process.script.next(self.now, Some(&done));
        (
            process.op,
            process.began,
            process.at,
            process.missed,
            process.result,
        ) = (next, self.now, 0, 0, Ok(()));
        match next {
            Op::Exit => process.state = State::Exited,
            Op::Sleep(span) => self.wait(pid, State::Ready, Some(span)),
            _ => {
                process.wait_number += 1;
                let number = process.wait_number;
                self.enqueue(self.now, Entry::Process(pid, number));
            }
        }
    }

    /// How many pages of the operation from page `at` on are not in memory, one after the other.
    pub(super) fn missing(&self, file: FileId, at: u64, end: u64) -> u32 {
        (at..end)
            .take_while(|&p| self.frames.lookup(PageKey::new(file, PageIndex(p))).is_none())
            .count() as u32
    }

    pub(super) fn read(&mut self, pid: usize, file: FileId, first: u64, pages: u32) -> bool {
        while self.processes[pid].at < pages {
            let page = first + u64::from(self.processes[pid].at);
            let key = PageKey::new(file, PageIndex(page));
            if let Some(frame) = self.frames.lookup(key) {
                if self.frames.frame(frame).loading {
                    self.wait(pid, State::Page(frame), None);
                    return false;
                }
                self.frames.touch(frame);
                self.processes[pid].at += 1;
                self.processes[pid].owed = self.processes[pid].owed + self.costs.copy;
                if self.files[file.0 as usize]
                    .mark
                    .take_if(|m| m.0 == page)
                    .is_some()
                {
                    self.step(Event::ReadAheadDue {
                        file,
                        at: PageIndex(page),
                    });
                }
                continue;
            }
            let count = self.missing(file, page, first + u64::from(pages));
            let told = self.step(Event::Fault {
                file,
                first: PageIndex(page),
                count,
                intent: Intent::Read,
            });
            self.processes[pid].missed += told.granted.min(count);
            self.processes[pid].owed = self.processes[pid].owed + self.costs.fault;
            if let Some(at_most) = told.wait {
                self.wait(pid, State::Memory, Some(at_most));
                return false;
            }
        }
        true
    }

    pub(super) fn write(&mut self, pid: usize, file: FileId, first: u64, pages: u32) -> bool {
        while self.processes[pid].at < pages {
            let page = first + u64::from(self.processes[pid].at);
            let key = PageKey::new(file, PageIndex(page));
            let mut owned = Vec::new();
            match self.frames.lookup(key) {
                Some(frame) if self.frames.frame(frame).loading => {
                    self.wait(pid, State::Page(frame), None);
                    return false;
                }
                Some(frame) => owned.push(frame),
                None => {
                    let count = self.missing(file, page, first + u64::from(pages));
                    let fault = Event::Fault {
                        file,
                        first: PageIndex(page),
                        count,
                        intent: Intent::Overwrite,
                    };
                    let told = self.step(fault);
                    if let Some(at_most) = told.wait {
                        self.wait(pid, State::Memory, Some(at_most));
                        return false;
                    }
                    self.processes[pid].missed += told.granted;
                    self.processes[pid].owed = self.processes[pid].owed + self.costs.fault;
                    let granted = u64::from(told.granted);
                    owned.extend(
                        (page..page + granted)
                            .filter_map(|p| self.frames.lookup(PageKey::new(file, PageIndex(p)))),
                    );
                }
            }
            let mut edges = Vec::new();
            for (n, &frame) in owned.iter().enumerate() {
                let version = self
                    .checker
                    .written(PageKey::new(file, PageIndex(page + n as u64)));
                let state = self.frames.frame(frame);
                state.version = version;
                state.uses = state.uses.max(1);
                let edge = !std::mem::replace(&mut state.dirty, true);
                if edge {
                    edges.push(frame);
                }
            }
            let count = owned.len() as u32;
            self.processes[pid].at += count;
            self.processes[pid].owed = self.processes[pid].owed + Nanos(self.costs.copy.0 * u64::from(count));
            let mut told = Told::default();
            if !edges.is_empty() {
                // A run of granted pages is all edges; a single page that was there is one or none.
                assert!(edges.len() == owned.len(), "a run with old and new pages");
                let dirtier = DirtierId(pid as u32);
                told = self.step(Event::Dirtied {
                    file,
                    first: PageIndex(page),
                    frames: &edges,
                    dirtier,
                });
            }
            for frame in owned {
                self.frames.frame(frame).pins = 0;
            }
            if let Some(at_most) = told.pause {
                self.wait(pid, State::Dirtiers, Some(at_most));
                return false;
            }
        }
        true
    }

    pub(super) fn sync(&mut self, pid: usize, file: FileId) -> bool {
        match self.processes[pid].at {
            0 => {
                let ticket = SyncTicket(self.next_ticket);
                self.next_ticket += 1;
                self.checker.sync_began(ticket, file);
                self.wait(pid, State::Ticket(ticket), None);
                self.step(Event::Sync { file, ticket });
                false
            }
            1 => {
                let id = self.next_request;
                self.next_request += 1;
                self.processes[pid].at = 2;
                self.wait(pid, State::Flush(id), None);
                self.model.flush(self.now, id);
                false
            }
            _ => true,
        }
    }

    pub(super) fn truncate(&mut self, pid: usize, file: FileId, first: u64) -> bool {
        let pages: Vec<_> = self
            .frames
            .pages(file, first)
            .map(|(key, frame)| (key.index(), frame))
            .collect();
        let busy = pages.iter().any(|&(_, frame)| {
            self.manager.phase(frame).is_writing()
                || self.frames.frame(frame).loading
                || self.frames.frame(frame).pins > 0
        });
        if busy {
            self.wait(pid, State::Writeback, Some(Nanos::from_millis(1)));
            return false;
        }
        for &(page, frame) in &pages {
            self.frames.remove(frame);
            self.checker.dropped(PageKey::new(file, page));
        }
        // Pages that are only on the device go as well.
        let end = self.files[file.0 as usize].pages.0;
        for page in first..end {
            self.checker.dropped(PageKey::new(file, PageIndex(page)));
        }
        self.step(Event::Discarded { file, pages: &pages });
        true
    }
}
