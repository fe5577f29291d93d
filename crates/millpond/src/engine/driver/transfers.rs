//! Transfers between their start and their end: requests for the device, and what was read.
//!
//! A read that a thread needs is done by that thread ([`Engine::read_missing`]); read-ahead and writes are handed to the device,
//! and the cache's thread takes their ends in ([`CoreGuard::completed`](super::CoreGuard::completed)).

use super::Engine;
use super::coming::SwapRead;
use super::writes::WritePin;
use crate::device::{Op, Request, Segments};
use crate::error::{Error, Result, errno_of};
use crate::files::FileInner;
use crate::frames::table::Load;
use crate::host::hook;
use millpond_core::io::{IoError, IoId, Reason};
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex};
use std::io;
use std::sync::Arc;

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
}

/// What the core is told of a failure: its number.
pub(super) fn io_error(error: &io::Error) -> IoError {
    IoError(errno_of(error))
}
