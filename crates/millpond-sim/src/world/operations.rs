//! Operations of processes, step by step until they have to wait.

use super::effects::Told;
use super::{Entry, World};
use crate::process::{Done, Op, Process, State};
use millpond_core::admission::Form;
use millpond_core::dirty::DirtierId;
use millpond_core::event::{Event, Intent};
use millpond_core::frame::FrameTable;
use millpond_core::units::{FileId, FrameNo, Nanos, PageIndex, PageKey};

/// The number of pages changed at a time, as in the engine.
const WRITE_PAGES_MAX: u64 = 32;

/// What is in a page's place.
pub(super) enum Found {
    /// The page, free for this use.
    Page(FrameNo),
    /// Nothing.
    Missing,
    /// The process waits for its content, or for those that hold it.
    Waiting,
}

impl<A: Form> World<A> {
    /// Goes on with the operation of a process whose turn it is.
    pub(super) fn carry_on(&mut self, pid: usize) {
        let process = &self.processes[pid];
        if process.result.is_ok() && !process.entered && !self.enter_file(pid) {
            return;
        }
        self.asker = Some(pid);
        let is_over = self.go_on(pid);
        self.asker = None;
        if !is_over {
            return;
        }
        self.drop_guards(pid);
        let process = &mut self.processes[pid];
        let owed = std::mem::take(&mut process.owed);
        if owed > Nanos::ZERO {
            // The processor time of the operation passes before it ends.
            process.wait_number += 1;
            let number = process.wait_number;
            return self.enqueue(self.now + owed, Entry::Process(pid, number));
        }
        self.next_operation(pid);
    }

    /// Whether the operation is over; if not, the process waits.
    fn go_on(&mut self, pid: usize) -> bool {
        let process = &self.processes[pid];
        match process.op {
            Op::Reopen { file } => self.reopen(pid, file),
            _ if process.result.is_err() => true,
            Op::Read { file, first, pages } => self.read(pid, file, first, pages),
            Op::Write { file, first, pages } => self.write(pid, file, first, pages),
            Op::Prefetch { file, first, pages } => self.prefetch(file, first, pages),
            Op::Guard {
                file,
                first,
                pages,
                change,
                span,
            } => self.guard(pid, file, first..first + u64::from(pages), change, span),
            Op::Sync { file } => self.sync(pid, file),
            Op::Truncate { file, first } => self.truncate(pid, file, first),
            Op::Advise { file, pattern } => {
                self.step(Event::Advised { file, pattern });
                true
            }
            Op::SetMemory { frames } => self.set_memory(frames),
            Op::Retune { number } => self.retune(number),
            Op::Sleep(_) => true,
            Op::Exit => false,
        }
    }

    fn next_operation(&mut self, pid: usize) {
        let process = &mut self.processes[pid];
        if let Some(ticket) = process.ticket.take() {
            self.checker.sync_ended(ticket, false);
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
        (process.op, process.began, process.began_patience) = (next, self.now, self.patience);
        (process.at, process.missed, process.result) = (0, 0, Ok(()));
        (process.short_since, process.paused_since) = (None, None);
        process.entered = false;
        process.number += 1;
        self.wake(State::Others);
        match next {
            Op::Exit => self.processes[pid].state = State::Exited,
            Op::Sleep(span) => self.wait(pid, State::Ready, Some(span)),
            _ => self.wake_one(pid),
        }
    }

    /// The number of consecutive pages from page `at` on that are not in memory.
    pub(super) fn missing(&self, file: FileId, at: u64, end: u64) -> u32 {
        (at..end)
            .take_while(|&p| self.frames.lookup(PageKey::new(file, PageIndex(p))).is_none())
            .count() as u32
    }

    /// Looks for a page that the process wants to read or, `alone`, to change.
    pub(super) fn find(&mut self, pid: usize, key: PageKey, alone: bool) -> Found {
        let Some(frame) = self.frames.lookup(key) else {
            return Found::Missing;
        };
        let state = self.frames.state(frame);
        if state.loading {
            self.step(Event::Awaited {
                file: key.file(),
                page: key.index(),
            });
            self.wait(pid, State::Page(frame), None);
            return Found::Waiting;
        }
        if state.exclusive || (alone && state.pins > 0) {
            self.wait_for_others(pid);
            return Found::Waiting;
        }
        self.frames.touch(frame);
        self.processes[pid].short_since = None;
        Found::Page(frame)
    }

    /// Asks for frames for up to `count` missing pages; `None`: the process waits, or has given up.
    pub(super) fn fault(&mut self, pid: usize, key: PageKey, count: u32, intent: Intent) -> Option<Told> {
        let (file, first) = (key.file(), key.index());
        let told = self.step(Event::Fault {
            file,
            first,
            count,
            intent,
        });
        self.charge(pid, self.costs.fault);
        if let Some(at_most) = told.wait {
            if !self.wait_for_memory(pid, at_most) {
                self.wake_one(pid);
            }
            return None;
        }
        self.processes[pid].short_since = None;
        self.processes[pid].missed += told.granted.min(count);
        Some(told)
    }

    pub(super) fn charge(&mut self, pid: usize, cost: Nanos) {
        self.processes[pid].owed = self.processes[pid].owed + cost;
    }

    /// A reader has come to the page: reads on if that was what the file's mark is for.
    pub(super) fn reached(&mut self, key: PageKey) {
        let (file, at) = (key.file(), key.index());
        let mark = &mut self.files[file.0 as usize].mark;
        if mark.take_if(|m| *m == at).is_some() {
            self.step(Event::ReadAheadDue { file, at });
        }
    }

    fn read(&mut self, pid: usize, file: FileId, first: u64, pages: u32) -> bool {
        while self.processes[pid].at < pages {
            let page = first + u64::from(self.processes[pid].at);
            let key = PageKey::new(file, PageIndex(page));
            match self.find(pid, key, false) {
                Found::Waiting => return false,
                Found::Page(_) => {
                    self.processes[pid].at += 1;
                    self.charge(pid, self.costs.copy);
                    self.reached(key);
                }
                Found::Missing => {
                    let count = self.missing(file, page, first + u64::from(pages));
                    if self.fault(pid, key, count, Intent::Read).is_none() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn write(&mut self, pid: usize, file: FileId, first: u64, pages: u32) -> bool {
        while self.processes[pid].at < pages {
            if !self.may_dirty(pid) {
                return false;
            }
            let page = first + u64::from(self.processes[pid].at);
            let key = PageKey::new(file, PageIndex(page));
            let mut owned = Vec::new();
            match self.find(pid, key, true) {
                Found::Waiting => return false,
                Found::Page(frame) => owned.push(frame),
                Found::Missing => {
                    let end = (first + u64::from(pages)).min(page + WRITE_PAGES_MAX);
                    let count = self.missing(file, page, end);
                    let Some(told) = self.fault(pid, key, count, Intent::Overwrite) else {
                        return false;
                    };
                    let granted = page..page + u64::from(told.granted);
                    owned
                        .extend(granted.filter_map(|p| self.frames.lookup(PageKey::new(file, PageIndex(p)))));
                }
            }
            let count = owned.len() as u32;
            self.processes[pid].at += count;
            self.charge(pid, Nanos(self.costs.copy.0 * u64::from(count)));
            let told = self.change(pid, key, &owned);
            for frame in owned {
                self.frames.frame(frame).exclusive = false;
            }
            if let Some(at_most) = told.pause {
                if !self.pause(pid, at_most) {
                    self.wake_one(pid);
                }
                return false;
            }
        }
        true
    }

    /// Changes the pages in `frames`, which the process owns and which follow `key` in the file.
    pub(super) fn change(&mut self, pid: usize, key: PageKey, frames: &[FrameNo]) -> Told {
        let (file, first) = (key.file(), key.index());
        let mut edges = Vec::new();
        for (n, &frame) in frames.iter().enumerate() {
            let version = self.checker.written(PageKey::new(file, first.after(n as u64)));
            let state = self.frames.frame(frame);
            state.version = version;
            state.uses = state.uses.max(1);
            if !std::mem::replace(&mut state.dirty, true) {
                edges.push(frame);
            }
        }
        if edges.is_empty() {
            return Told::default();
        }
        // A run of granted pages is all edges; a single page that was there is one or none.
        assert!(edges.len() == frames.len(), "a run with old and new pages");
        let event = Event::Dirtied {
            file,
            first,
            frames: &edges,
            dirtier: DirtierId(pid as u32),
        };
        self.step_about(event, &edges)
    }

    fn prefetch(&mut self, file: FileId, first: u64, pages: u32) -> bool {
        let (mut page, end) = (first, first + u64::from(pages));
        while page < end {
            let count = self.missing(file, page, end);
            if count == 0 {
                page += 1;
                continue;
            }
            let told = self.step(Event::Fault {
                file,
                first: PageIndex(page),
                count,
                intent: Intent::Prefetch,
            });
            if told.granted == 0 {
                break;
            }
            page += u64::from(told.granted);
        }
        true
    }
}
