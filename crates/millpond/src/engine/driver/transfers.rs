//! Transfers between their start and their end: requests for the device, and what follows when they are over.
//!
//! A read that a thread needs is done by that thread ([`Engine::read_missing`]); read-ahead and writes are handed to the device,
//! and the cache's thread takes their ends in ([`CoreGuard::completed`]).

use super::swap_in::SwapRead;
use super::writes::WritePin;
use super::{CoreGuard, Engine, Outbox};
use crate::device::{Op, Request, Segments};
use crate::error::{Error, Result, again, errno_of};
use crate::files::{FileInner, Shrunk};
use crate::frames::table::Load;
use crate::host::hook;
use millpond_core::event::Event;
use millpond_core::io::{IoError, IoId, Reason};
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the core is told of a page that its file's check refuses.
pub(super) const BAD: IoError = IoError(libc::EBADMSG);

/// A transfer between its start and its end.
pub(super) struct Transfer {
    pub(super) file: Arc<FileInner>,
    pub(super) first: PageIndex,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Read(Vec<Load>),
    /// The pins of what is to stay as it is until the write is over. Its frames are known to the core.
    Write(Vec<WritePin>),
    /// A page of a region from the swap file.
    SwapIn(SwapRead),
    /// Pages of regions to the swap file. Their frames are known to the core.
    SwapOut,
}

/// A read that the thread which needs the pages does itself.
pub(crate) struct OwnRead {
    pub(super) io: IoId,
    pub(super) first: PageIndex,
    pub(super) loads: Vec<Load>,
}

/// Pages that were read and have to pass a check.
pub(crate) enum Unchecked {
    /// Their file's, read ahead.
    Of(Arc<FileInner>, OwnRead),
    /// That of their checksum, from the swap file.
    Swap(SwapRead, io::Result<usize>),
}

impl Engine {
    pub(super) fn read_request(
        &self,
        (token, reason): (u64, Reason),
        file: &Arc<FileInner>,
        first: PageIndex,
        loads: &mut [Load],
    ) -> Request {
        let size = self.page_size.bytes() as usize;
        let mut segments = Segments::set_aside(self.table.clone(), &self.mempool.ranges);
        for load in loads {
            let frame = self.table.loading_frame(load);
            segments.push(self.table.memory().offset(frame), size);
        }
        Request {
            token,
            op: Op::Read,
            reason: Some(reason),
            file: file.device(),
            offset: self.offset(first),
            segments,
        }
    }

    /// The pages as far as the file goes: what lies beyond its end in the last one is not written.
    pub(super) fn write_request(
        &self,
        (token, reason): (u64, Reason),
        file: &Arc<FileInner>,
        first: PageIndex,
        frames: &[FrameNo],
    ) -> Request {
        let (size, offset) = (self.page_size.bytes(), self.offset(first));
        let mut left = file.len().saturating_sub(offset);
        if mutation::is(Mutation::SkipTail) {
            left -= left % size;
        }
        let mut segments = Segments::set_aside(self.table.clone(), &self.mempool.ranges);
        for &frame in frames {
            let len = left.min(size);
            let frame = self.table.writing_frame(frame);
            segments.push(self.table.memory().offset(frame), len as usize);
            left -= len;
        }
        Request {
            token,
            op: Op::Write,
            reason: Some(reason),
            file: file.device(),
            offset,
            segments,
        }
    }

    /// Lets the file's check look at what was read.
    ///
    /// # Errors
    /// [`Error::Check`] for the first page that it refuses.
    pub(super) fn check_read(&self, file: &FileInner, first: PageIndex, loads: &mut [Load]) -> Result<()> {
        let Some(check) = &file.writeback_rules.check else {
            return Ok(());
        };
        let _poisons = self.poison_on_panic("page check");
        for (n, load) in loads.iter_mut().enumerate() {
            let page = first.after(n as u64).0;
            let bytes = self.table.load_bytes(load);
            if let Err(what) = hook::inside(self, || check.after_read(page, bytes)) {
                let path = file.path.clone();
                return Err(Error::Check { path, page, what });
            }
        }
        Ok(())
    }

    /// What the device did not deliver lies beyond the end of the file: zeros.
    pub(super) fn zero_rest(&self, loads: &mut [Load], bytes: usize) {
        let size = self.page_size.bytes() as usize;
        for (n, load) in loads.iter_mut().enumerate().skip(bytes / size) {
            let have = bytes.saturating_sub(n * size).min(size);
            self.table.load_bytes(load)[have..].fill(0);
        }
    }

    /// Whether the device had all of these pages, of which it has read `bytes`, as far as others have left the file as it was.
    ///
    /// # Errors
    /// [`Error::Read`], unless `shrunk` says otherwise.
    pub(super) fn is_whole(
        &self,
        file: &FileInner,
        first: PageIndex,
        pages: usize,
        bytes: usize,
        shrunk: Shrunk,
    ) -> Result<()> {
        let (offset, size) = (self.offset(first), self.page_size.bytes());
        if bytes as u64 >= pages as u64 * size || shrunk == Shrunk::Zeros {
            return Ok(());
        }
        let Some(at) = file.cut_by_others(offset + bytes as u64) else {
            return Ok(());
        };
        if shrunk == Shrunk::LeftOver && pages == 1 && at > offset {
            // Under the lock: a thread that finds no such file any more takes the flag back.
            let _core = self.core();
            file.set_short_at(Some(at));
            self.call_flags.set_short(true);
            return Ok(());
        }
        Err(file.is_cut(at.max(offset)))
    }

    /// Lets the file's check look at pages that were read ahead. What it refuses does not come into memory, nor does
    /// what was read with it; a thread that wants such a page reads it, and is told. The outbox is emptied by the caller, who
    /// may have other pages in hand.
    pub(crate) fn check_ahead<'a>(&'a self, unchecked: Unchecked, outbox: Outbox<'a>) -> Outbox<'a> {
        let (file, read) = match unchecked {
            Unchecked::Of(file, read) => (file, read),
            Unchecked::Swap(read, result) => return self.swapped_in(read, result, outbox),
        };
        let OwnRead { io, first, mut loads } = read;
        let checked = self.check_read(&file, first, &mut loads);
        let mut core = outbox.lock();
        match checked {
            Err(_) => core.fail_read(io, loads, BAD),
            Ok(()) => {
                for load in loads {
                    self.table.finish_load(load);
                }
                core.step(Event::ReadDone { io, result: Ok(()) });
            }
        }
        core.unlock()
    }
}

impl CoreGuard<'_> {
    pub(super) fn fail_read(&mut self, io: IoId, loads: Vec<Load>, error: IoError) {
        for load in loads {
            self.engine.table.locked(&mut self.held.token).fail_load(load);
        }
        let result = Err(error);
        self.step(Event::ReadDone { io, result });
    }

    /// A transfer that the device had been handed is over. Gives it back if its pages are to be checked, which takes too
    /// long for the core lock: [`Engine::check_ahead`].
    pub(crate) fn completed(&mut self, token: u64, result: io::Result<usize>) -> Option<Unchecked> {
        let (engine, io) = (self.engine, IoId(token as u32));
        let Some(Transfer { file, first, kind }) = self.transfers.remove(&io) else {
            engine.poison(format!(
                "the device completed request {token}, which it was not given"
            ));
            return None;
        };
        match (kind, result) {
            (Kind::Read(mut loads), Ok(bytes)) => {
                if engine
                    .is_whole(&file, first, loads.len(), bytes, Shrunk::Refused)
                    .is_err()
                {
                    self.fail_read(io, loads, BAD);
                    return None;
                }
                engine.zero_rest(&mut loads, bytes);
                if file.writeback_rules.check.is_some() {
                    let read = OwnRead { io, first, loads };
                    return Some(Unchecked::Of(file, read));
                }
                for load in loads {
                    engine.table.finish_load(load);
                }
                self.step(Event::ReadDone { io, result: Ok(()) });
            }
            (Kind::SwapIn(read), result) => return Some(Unchecked::Swap(read, result)),
            (Kind::SwapOut, result) => {
                self.swapped_out(io, result.is_ok());
                let result = result.map(|_| ()).map_err(|error| io_error(&error));
                self.step(Event::WriteDone { io, result });
            }
            (Kind::Read(loads), Err(error)) => self.fail_read(io, loads, io_error(&error)),
            (Kind::Write(_pins), Ok(_)) => {
                for &frame in self.manager.frames_of(io) {
                    engine.table.end_write(frame);
                }
                self.step(Event::WriteDone { io, result: Ok(()) });
                if file.failing.load(Ordering::Relaxed) {
                    let is_failing = self.manager.failing(file.id).is_some();
                    file.failing.store(is_failing, Ordering::Relaxed);
                }
            }
            (Kind::Write(_pins), Err(error)) => {
                let pages = self.held.manager.frames_of(io);
                for &frame in pages {
                    engine.table.fail_write(frame);
                }
                // Once until all of them are written: a full disk refuses thousands.
                if !file.failing.load(Ordering::Relaxed) {
                    let failed = (file.clone(), first, pages.len(), again(&error));
                    self.outbox.failed.push(failed);
                }
                let result = Err(file.refused(error));
                self.step(Event::WriteDone { io, result });
                file.failing.store(true, Ordering::Relaxed);
                engine.failing.store(true, Ordering::Relaxed);
            }
        }
        None
    }
}

/// What the core is told of a failure: its number.
pub(super) fn io_error(error: &io::Error) -> IoError {
    IoError(errno_of(error))
}
