//! Transfers between their start and their end: requests for the device, and what follows when they are over.
//!
//! A read that a thread needs is done by that thread ([`Shared::read`]); read-ahead and writes are handed to the device,
//! and the cache's thread takes their ends in ([`Shared::completed`]).

use super::{Core, Deferred, Shared};
use crate::device::{Device, Op, Request, Segments};
use crate::file::FileInner;
use crate::sys::arena::Arena;
use crate::table::{Load, SharedPin, Table};
use millpond_core::event::{Event, IoError, IoId};
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A transfer between its start and its end.
pub(super) struct Transfer {
    pub(super) file: Arc<FileInner>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Read(Vec<Load>),
    Write(Vec<FrameNo>),
}

/// A read that the thread which needs the pages does itself.
pub(crate) struct OwnRead {
    pub(super) io: IoId,
    pub(super) first: PageIndex,
    pub(super) loads: Vec<Load>,
}

impl Shared {
    pub(super) fn read_request(
        &self,
        token: u64,
        file: &Arc<FileInner>,
        first: PageIndex,
        loads: &mut [Load],
    ) -> Request {
        let size = self.page_size.bytes() as usize;
        let mut segments = Segments::new(self.table.clone());
        for load in loads {
            segments.push(self.table.loading_frame(load).index() * size, size);
        }
        Request {
            token,
            op: Op::Read,
            file: file.device(),
            offset: self.offset(first),
            segments,
        }
    }

    /// The pages as far as the file goes: what lies beyond its end in the last one is not written.
    pub(super) fn write_request(
        &self,
        token: u64,
        file: &Arc<FileInner>,
        first: PageIndex,
        frames: &[FrameNo],
    ) -> Request {
        let (size, offset) = (self.page_size.bytes(), self.offset(first));
        let mut left = file.len_to_write().saturating_sub(offset);
        if mutation::is(Mutation::SkipTail) {
            left -= left % size;
        }
        let mut segments = Segments::new(self.table.clone());
        for &frame in frames {
            let len = left.min(size);
            segments.push(
                self.table.writing_frame(frame).index() * size as usize,
                len as usize,
            );
            left -= len;
        }
        Request {
            token,
            op: Op::Write,
            file: file.device(),
            offset,
            segments,
        }
    }

    /// Does the read that a fault has left to its thread. `each` sees every page before anybody else does.
    ///
    /// # Errors
    /// The device's; the pages are not in memory then.
    pub(crate) fn read(
        &self,
        file: &Arc<FileInner>,
        own: OwnRead,
        mut each: impl FnMut(PageIndex, &[u8]),
        keep: bool,
    ) -> io::Result<Option<SharedPin<&Table<Arena>>>> {
        let OwnRead { io, first, mut loads } = own;
        let request = self.read_request(0, file, first, &mut loads);
        let dart = self.dart("device");
        let result = self.device.transfer(&request);
        drop(dart);
        drop(request);
        let mut deferred = Deferred::default();
        let answer = match result {
            Ok(bytes) => {
                self.zero_rest(&mut loads, bytes);
                for (n, load) in loads.iter_mut().enumerate() {
                    each(first.after(n as u64), self.table.load_bytes(load));
                }
                let mut pinned = None;
                let mut core = self.core();
                for (n, load) in loads.into_iter().enumerate() {
                    if keep && n == 0 {
                        pinned = Some(self.table.finish_load_pinned(load));
                    } else {
                        self.table.finish_load(load);
                    }
                }
                self.step(&mut core, Event::ReadDone { io, result: Ok(()) }, &mut deferred);
                Ok(pinned)
            }
            Err(error) => {
                self.fail_read(&mut self.core(), io, loads, io_error(&error), &mut deferred);
                Err(error)
            }
        };
        self.finish(&mut deferred);
        answer
    }

    /// What the device did not deliver lies beyond the end of the file: zeros.
    fn zero_rest(&self, loads: &mut [Load], bytes: usize) {
        let size = self.page_size.bytes() as usize;
        for (n, load) in loads.iter_mut().enumerate().skip(bytes / size) {
            let have = bytes.saturating_sub(n * size).min(size);
            self.table.load_bytes(load)[have..].fill(0);
        }
    }

    fn fail_read(
        &self,
        core: &mut Core,
        io: IoId,
        loads: Vec<Load>,
        error: IoError,
        deferred: &mut Deferred,
    ) {
        for load in loads {
            self.table.locked(&mut core.turn).fail_load(load);
        }
        self.step(
            core,
            Event::ReadDone {
                io,
                result: Err(error),
            },
            deferred,
        );
    }

    /// A transfer that the device had been handed is over.
    pub(crate) fn completed(
        &self,
        core: &mut Core,
        token: u64,
        result: io::Result<usize>,
        deferred: &mut Deferred,
    ) {
        let io = IoId(token as u32);
        let Some(Transfer { file, kind }) = core.transfers.remove(&io) else {
            return self.poison(format!(
                "the device completed request {token}, which it was not given"
            ));
        };
        match (kind, result) {
            (Kind::Read(mut loads), Ok(bytes)) => {
                self.zero_rest(&mut loads, bytes);
                for load in loads {
                    self.table.finish_load(load);
                }
                self.step(core, Event::ReadDone { io, result: Ok(()) }, deferred);
            }
            (Kind::Read(loads), Err(error)) => self.fail_read(core, io, loads, io_error(&error), deferred),
            (Kind::Write(frames), Ok(_)) => {
                for &frame in &frames {
                    self.table.end_write(frame);
                }
                self.step(core, Event::WriteDone { io, result: Ok(()) }, deferred);
                if file.failing.load(Ordering::Relaxed) {
                    let is_failing = core.manager.failing(file.id).is_some();
                    file.failing.store(is_failing, Ordering::Relaxed);
                }
            }
            (Kind::Write(frames), Err(error)) => {
                for &frame in &frames {
                    self.table.fail_write(frame);
                }
                self.step(
                    core,
                    Event::WriteDone {
                        io,
                        result: Err(io_error(&error)),
                    },
                    deferred,
                );
                file.failing.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// The system's error number, or `EIO` for what has none.
fn io_error(error: &io::Error) -> IoError {
    IoError(error.raw_os_error().unwrap_or(libc::EIO))
}
