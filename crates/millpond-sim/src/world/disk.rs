//! The world's disk: requests on their way to the model and back, and their faults.

use super::{Entry, World};
use crate::checker::Flushed;
use crate::disk::{COMMAND_BYTES_MAX, ModelRequest};
use crate::faults::Seen;
use crate::process::{Failure, Op, State};
use millpond_core::admission::Form;
use millpond_core::event::Event;
use millpond_core::io::{IoError, IoId, Reason};
use millpond_core::units::{FileId, FrameNo, Instant, Nanos, PageCount, PageKey};

/// The request to the disk.
#[derive(Debug)]
pub(super) enum Request {
    Transfer(Transfer),
    Flush {
        is_brief: bool,
        pid: usize,
        file: FileId,
        taken: Vec<(PageKey, u64)>,
    },
}

#[derive(Debug)]
pub(super) struct Transfer {
    io: IoId,
    /// Why, as a driver's request carries it.
    reason: Reason,
    key: PageKey,
    frames: Vec<FrameNo>,
    versions: Vec<u64>,
    /// Pages that have been transferred.
    done: usize,
    /// Commands that have not ended.
    left: u32,
    /// The process that gets the error, and in which of its operations.
    owner: Option<(usize, u64)>,
}

impl Transfer {
    fn is_write(&self) -> bool {
        !self.reason.is_read()
    }
}

/// The maximum delay of a request that others are to overtake: some turns of a rotating disk.
const SHUFFLE_MAX: Nanos = Nanos::from_millis(20);

/// `EIO` and `ENOSPC`.
const BROKEN: IoError = IoError(5);
const NO_ROOM: IoError = IoError(28);

impl<A: Form> World<A> {
    /// Hands a transfer to the disk.
    pub(super) fn transfer(
        &mut self,
        (io, reason): (IoId, Reason),
        key: PageKey,
        frames: Vec<FrameNo>,
        owner: Option<(usize, u64)>,
    ) {
        let versions = frames.iter().map(|&f| self.frames.frame(f).version).collect();
        self.submit(Transfer {
            io,
            reason,
            key,
            frames,
            versions,
            done: 0,
            left: 0,
            owner,
        });
    }

    /// Asks for what is left of it, in commands that the disk takes.
    fn submit(&mut self, mut transfer: Transfer) {
        let page_size = self.manager.options().page_size;
        let (key, done) = (transfer.key, transfer.done as u64);
        let bytes = PageCount(transfer.frames.len() as u64 - done)
            .to_bytes(page_size)
            .0;
        let file = &self.files[key.file().0 as usize];
        let (start, at) = (file.start, file.device.index());
        let offset = start + (key.index().0 + done) * page_size.bytes();
        let id = self.next_id();
        let commands = bytes.div_ceil(COMMAND_BYTES_MAX.0);
        for n in 0..commands {
            let done = n * COMMAND_BYTES_MAX.0;
            let request = ModelRequest {
                id,
                write: transfer.is_write(),
                offset: offset + done,
                len: (bytes - done).min(COMMAND_BYTES_MAX.0) as u32,
            };
            self.disks[at].model.submit(self.now, request);
        }
        transfer.left = commands as u32;
        self.requests.insert(id, Request::Transfer(transfer));
    }

    /// Asks the disk to make durable what it has taken of a file, for process `pid`.
    pub(super) fn flush(&mut self, pid: usize, file: FileId) {
        let id = self.next_id();
        let taken = self.checker.flush_began(file);
        let is_brief = std::mem::take(&mut self.processes[pid].is_brief);
        let request = Request::Flush {
            is_brief,
            pid,
            file,
            taken,
        };
        self.requests.insert(id, request);
        self.wait(pid, State::Flush(id), None);
        let at = self.files[file.0 as usize].device.index();
        self.disks[at].model.flush(self.now, id);
    }

    fn next_id(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }

    /// The models are done with some requests: answers them, now or, if the disk is slow or stuck, later.
    pub(super) fn disk_has_news(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        for disk in &mut self.disks {
            disk.model.advance(self.now, &mut done);
        }
        for completion in done.drain(..) {
            if let Some(Request::Transfer(transfer)) = self.requests.get_mut(&completion.id) {
                transfer.left -= 1;
                if transfer.left > 0 {
                    continue;
                }
            }
            let at = self.answered_at();
            if at > self.now {
                self.enqueue(at, Entry::Answer(completion.id));
            } else {
                self.answer(completion.id);
            }
        }
        self.done = done;
    }

    fn answered_at(&mut self) -> Instant {
        let mut at = self.now;
        if self.faults.slow > Nanos::ZERO {
            at = self.slow_until.max(self.now) + self.faults.slow;
            self.slow_until = at;
            self.coverage.count(Seen::Slow);
        }
        if self.share(self.faults.shuffled) {
            at = at + Nanos(self.random.below(SHUFFLE_MAX.0));
            self.coverage.count(Seen::Shuffled);
        }
        if self.share(self.faults.stuck) {
            at = at + self.faults.stuck_for;
            self.stuck_until = self.stuck_until.max(at);
            self.coverage.count(Seen::Stuck);
        }
        at
    }

    pub(super) fn answer(&mut self, id: u64) {
        let request = self.requests.remove(&id);
        if self.requests.keys().next().is_some_and(|&first| first < id) {
            self.coverage.count(Seen::Overtaken);
        }
        match request {
            Some(Request::Transfer(transfer)) => self.transfer_answered(transfer),
            Some(Request::Flush {
                is_brief,
                pid,
                file,
                taken,
            }) => {
                let flushed = if self.share(self.faults.sync_errors) {
                    self.coverage.count(Seen::SyncError);
                    self.files[file.0 as usize].latched = true;
                    Flushed::Failed
                } else if self.share(self.faults.lies) {
                    self.coverage.count(Seen::Lie);
                    Flushed::Lied
                } else {
                    Flushed::Kept
                };
                self.checker.flush_ended(&taken, flushed);
                if is_brief {
                    self.step(Event::DeviceSync { file, begun: false });
                }
                if self.processes[pid].state == State::Flush(id) {
                    self.wake_one(pid);
                }
            }
            None => panic!("the disk has answered request {id}, which it was not given"),
        }
    }

    fn transfer_answered(&mut self, mut transfer: Transfer) {
        let error = self.refusal(&transfer);
        let left = transfer.frames.len() - transfer.done;
        if error.is_none() && left > 1 && self.share(self.faults.short) {
            let some = 1 + (self.draw() % (left as u64 - 1)) as usize;
            self.moved(&transfer, some);
            transfer.done += some;
            self.coverage.count(if transfer.is_write() {
                Seen::ShortWrite
            } else {
                Seen::ShortRead
            });
            return self.submit(transfer);
        }
        match error {
            None => self.moved(&transfer, left),
            Some(_) if transfer.is_write() => self.torn(&transfer),
            Some(_) => {}
        }
        self.transfer_done(&transfer, error);
    }

    /// Why the disk refuses the transfer, if it does.
    fn refusal(&mut self, transfer: &Transfer) -> Option<IoError> {
        let file = transfer.key.file();
        let (error, seen) = match transfer.is_write() {
            true if self.faults.is_broken(file) => (BROKEN, Seen::BrokenFile),
            true if self.faults.has_no_room(self.now) => (NO_ROOM, Seen::NoRoom),
            true if self.share(self.faults.write_errors) => (BROKEN, Seen::WriteError),
            false if self.share(self.faults.read_errors) => (BROKEN, Seen::ReadError),
            _ => return None,
        };
        self.coverage.count(seen);
        Some(error)
    }

    /// `count` more pages of a transfer are where they should be.
    fn moved(&mut self, transfer: &Transfer, count: usize) {
        for n in transfer.done..transfer.done + count {
            let key = PageKey::new(transfer.key.file(), transfer.key.index().after(n as u64));
            if transfer.is_write() {
                self.checker.store(key, transfer.versions[n]);
            } else {
                self.frames.frame(transfer.frames[n]).version = self.checker.loaded(key);
            }
        }
    }

    /// A write has failed: any of its pages may have reached the device.
    fn torn(&mut self, transfer: &Transfer) {
        let stored = self.draw();
        for n in transfer.done..transfer.frames.len() {
            if stored >> (n % 64) & 1 != 0 {
                let key = PageKey::new(transfer.key.file(), transfer.key.index().after(n as u64));
                self.checker.store(key, transfer.versions[n]);
            }
        }
    }

    fn transfer_done(&mut self, transfer: &Transfer, error: Option<IoError>) {
        let (io, result) = (transfer.io, error.map_or(Ok(()), Err));
        for &frame in &transfer.frames {
            let state = self.frames.frame(frame);
            if transfer.is_write() {
                state.writing = false;
                state.dirty |= error.is_some();
            } else if error.is_none() {
                state.loading = false;
            } else {
                self.frames.remove(frame);
            }
        }
        if transfer.is_write() {
            self.step_about(Event::WriteDone { io, result }, &transfer.frames);
            return self.wake(State::Others);
        }
        let mut used = Vec::new();
        if let Some((pid, number)) = transfer.owner
            && self.processes[pid].number == number
            && error.is_none()
        {
            used = self.own_read_done(pid, transfer.key, &transfer.frames);
        }
        self.step_about(Event::ReadDone { io, result }, &transfer.frames);
        used.into_iter().for_each(|key| self.reached(key));
        for pid in 0..self.processes.len() {
            let process = &mut self.processes[pid];
            if transfer.owner == Some((pid, process.number)) && process.result.is_ok() {
                process.result = result.map_err(Failure::Device);
            }
            if let State::Page(frame) = process.state
                && transfer.frames.contains(&frame)
            {
                self.wake_one(pid);
            }
        }
        self.wake(State::Others);
    }

    /// A process that has asked for pages uses them before another can take their frames. Which pages were read.
    fn own_read_done(&mut self, pid: usize, key: PageKey, frames: &[FrameNo]) -> Vec<PageKey> {
        let mut used = Vec::new();
        let process = &mut self.processes[pid];
        match process.op {
            Op::Read { first, pages, .. } => {
                let at = first + u64::from(process.at);
                let offset = at.wrapping_sub(key.index().0) as usize;
                let wanted = (pages - process.at) as usize;
                for &frame in frames.iter().skip(offset).take(wanted) {
                    process.at += 1;
                    process.owed = process.owed + self.costs.copy;
                    used.push(self.frames.state(frame).key);
                }
            }
            Op::Guard { change, .. } => {
                let state = self.frames.frame(frames[0]);
                if change {
                    state.exclusive = true;
                } else {
                    state.pins += 1;
                }
                process.own_page = Some(frames[0]);
            }
            _ => {}
        }
        used
    }

    /// True for this many in 65536.
    fn share(&mut self, share: u32) -> bool {
        share > 0 && (self.draw() & 0xffff) < u64::from(share)
    }

    fn draw(&mut self) -> u64 {
        self.random.bits()
    }
}
