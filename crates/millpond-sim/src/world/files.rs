//! Operations on whole files and on the whole cache: durability, length, closing, the budget, the options.

use super::{SimFile, World};
use crate::faults::Seen;
use crate::process::{Failure, Op, State};
use millpond_core::admission::Form;
use millpond_core::event::Event;
use millpond_core::manager::Derived;
use millpond_core::units::{DeviceNo, FileId, FrameNo, PageCount, PageIndex};
use millpond_core::writeback::SyncTicket;

impl<A: Form> World<A> {
    /// Adds a file of `pages` pages, after those before it on the first disk.
    pub fn add_file(&mut self, pages: PageCount) -> FileId {
        self.add_file_on(DeviceNo(0), pages)
    }

    /// The same on another disk.
    pub fn add_file_on(&mut self, device: DeviceNo, pages: PageCount) -> FileId {
        let bytes = pages.to_bytes(self.manager.options().page_size);
        let disk = &mut self.disks[device.index()];
        let start = disk.end;
        disk.end += bytes.0;
        let file = FileId(self.files.len() as u32);
        self.files.push(SimFile {
            device,
            start,
            mark: None,
            pages,
            latched: false,
            closing: None,
        });
        self.step(Event::Opened { file, pages, device });
        file
    }

    /// Lets the process into its file, for the length of an operation. `false`: it waits, because the file is being
    /// closed, or because it wants to close it while others use it.
    pub(super) fn enter_file(&mut self, pid: usize) -> bool {
        let op = self.processes[pid].op;
        if let Some(file) = op.file() {
            let closing = self.files[file.0 as usize].closing;
            let in_use = self
                .processes
                .iter()
                .any(|p| p.entered && p.op.file() == Some(file));
            let wants_to_close = matches!(op, Op::Reopen { .. });
            if wants_to_close && closing.is_none() {
                self.files[file.0 as usize].closing = Some(pid);
            }
            if closing.is_some_and(|by| by != pid) || (wants_to_close && in_use) {
                self.wait_for_others(pid);
                return false;
            }
        }
        self.processes[pid].entered = true;
        true
    }

    fn begin_sync(&mut self, pid: usize, file: FileId) {
        self.next_ticket += 1;
        let ticket = SyncTicket(self.next_ticket);
        self.checker.sync_began(ticket, file);
        self.processes[pid].ticket = Some(ticket);
        self.wait(pid, State::Ticket(ticket), None);
        self.step(Event::Sync { file, ticket });
    }

    pub(super) fn sync(&mut self, pid: usize, file: FileId) -> bool {
        let at = self.processes[pid].at;
        if at == 0 {
            self.charge(pid, self.costs.sync);
            self.begin_sync(pid, file);
            return false;
        }
        // Before the flush for an earlier error, and after it for one that came meanwhile: what was lost then may have
        // been this one's, too.
        let latched = self.files[file.0 as usize].latched;
        if at == 1 && !latched {
            self.processes[pid].at = 2;
            if self.processes[pid].is_brief {
                self.step(Event::DeviceSync { file, begun: true });
            }
            self.flush(pid, file);
            return false;
        }
        if latched {
            self.coverage.count(Seen::Latched);
            self.processes[pid].result = Err(Failure::Sync);
        }
        if let Some(ticket) = self.processes[pid].ticket.take() {
            self.checker.sync_ended(ticket, !latched);
        }
        true
    }

    /// Whether pages of `file` from `first` on are in use, so that they can't go now.
    fn is_busy(&self, file: FileId, first: u64) -> bool {
        self.frames.pages(file, first).any(|(_, frame)| {
            let state = self.frames.state(frame);
            state.writing || state.loading || state.exclusive || state.pins > 0
        })
    }

    /// Takes the pages of `file` from `first` on out of memory.
    fn discard(&mut self, file: FileId, first: u64) {
        let pages: Vec<(PageIndex, FrameNo)> = self
            .frames
            .pages(file, first)
            .map(|(key, frame)| (key.index(), frame))
            .collect();
        let frames: Vec<FrameNo> = pages.iter().map(|&(_, frame)| frame).collect();
        frames.iter().for_each(|&frame| self.frames.remove(frame));
        self.step_about(Event::Discarded { file, pages: &pages }, &frames);
    }

    pub(super) fn truncate(&mut self, pid: usize, file: FileId, first: u64) -> bool {
        if self.is_busy(file, first) {
            self.wait_for_others(pid);
            return false;
        }
        // Pages that are only on the device go as well.
        self.checker.truncated(file, PageIndex(first));
        self.discard(file, first);
        true
    }

    /// As when the last handle is dropped: what is dirty is tried, all is forgotten, and the file is closed; then
    /// it is opened anew.
    pub(super) fn reopen(&mut self, pid: usize, file: FileId) -> bool {
        if self.processes[pid].at == 0 {
            self.begin_sync(pid, file);
            return false;
        }
        if self.is_busy(file, 0) {
            self.wait_for_others(pid);
            return false;
        }
        self.discard(file, 0);
        for _ in 0..self.checker.closed(file) {
            self.coverage.count(Seen::GivenUp);
        }
        self.coverage.count(Seen::Reopened);
        self.step(Event::Closed { file });
        let state = &mut self.files[file.0 as usize];
        (state.mark, state.latched, state.closing) = (None, false, None);
        let (pages, device) = (state.pages, state.device);
        self.step(Event::Opened { file, pages, device });
        true
    }

    pub(super) fn set_memory(&mut self, frames: PageCount) -> bool {
        let before = self.manager.derived().frames;
        self.checker.memory_changed(frames);
        self.step(Event::MemoryChanged { frames });
        if frames != before {
            self.coverage.count(if frames < before {
                Seen::MemoryShrunk
            } else {
                Seen::MemoryGrown
            });
        }
        self.check_derived();
        true
    }

    pub(super) fn retune(&mut self, number: usize) -> bool {
        let options = self.alternatives[number].clone();
        self.step(Event::Retuned(Box::new(options)));
        self.coverage.count(Seen::Retuned);
        self.check_derived();
        true
    }

    /// Hills 2015: limits depend on the options and on memory now, and on nothing that was before.
    fn check_derived(&self) {
        let frames = self.manager.derived().frames;
        let derived = Derived::of(self.manager.options(), frames);
        assert_eq!(*self.manager.derived(), derived, "limits remember the past");
    }
}
