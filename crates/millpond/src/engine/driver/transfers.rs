//! Transfers from their start to their end: requests for the device, and the pages that were read.
//!
//! A thread that needs pages reads them itself ([`Reads::read_missing`](super::Reads::read_missing)). Read-ahead and writes
//! are handed to the device, and the cache's thread completes them ([`CoreGuard::completed`](super::CoreGuard::completed)).

use super::Engine;
use super::coming::SwapRead;
use super::writes::WritePin;
use crate::device::{Op, Request, Segments};
use crate::error::errno_of;
use crate::files::FileInner;
use crate::frames::table::Load;
use millpond_core::io::{IoError, IoId, Reason};
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex};
use std::io;
use std::sync::Arc;

/// The error reported to the core for a page that its file's check refuses.
pub(super) const BAD: IoError = IoError(libc::EBADMSG);

/// A transfer that has not ended.
pub(super) struct Transfer {
    pub(super) file: Arc<FileInner>,
    pub(super) first: PageIndex,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Read(Vec<Load>),
    /// The pins of pages that must not change until the write ends. The core knows the frames.
    Write(Vec<WritePin>),
    /// A page of a region from the swap file.
    SwapIn(SwapRead),
    /// Pages of regions to the swap file. The core knows the frames.
    SwapOut,
}

/// A read done by the thread that needs the pages.
pub(crate) struct OwnRead {
    pub(super) io: IoId,
    pub(super) first: PageIndex,
    pub(super) loads: Vec<Load>,
}

/// Makes requests for transfers of a file.
#[derive(Clone, Copy)]
pub(crate) struct FileIo<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> FileIo<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> FileIo<'a> {
        FileIo { engine, file }
    }

    pub(super) fn read_request(
        self,
        (token, reason): (u64, Reason),
        first: PageIndex,
        loads: &mut [Load],
    ) -> Request {
        let FileIo { engine, file } = self;
        let size = engine.page_size.bytes() as usize;
        let mut segments = Segments::set_aside(engine.table.clone(), &engine.mempool.ranges);
        for load in loads {
            let frame = engine.table.loading_frame(load);
            segments.push(engine.table.memory().offset(frame), size);
        }
        Request {
            token,
            op: Op::Read,
            reason: Some(reason),
            file: file.device(),
            offset: engine.offset(first),
            segments,
        }
    }

    /// Returns a write of the pages up to the end of the file: the rest of the last page is not written.
    pub(super) fn write_request(
        self,
        (token, reason): (u64, Reason),
        first: PageIndex,
        frames: &[FrameNo],
    ) -> Request {
        let FileIo { engine, file } = self;
        let (size, offset) = (engine.page_size.bytes(), engine.offset(first));
        let mut left = file.len().saturating_sub(offset);
        if mutation::is(Mutation::SkipTail) {
            left -= left % size;
        }
        let mut segments = Segments::set_aside(engine.table.clone(), &engine.mempool.ranges);
        for &frame in frames {
            let len = left.min(size);
            let frame = engine.table.writing_frame(frame);
            segments.push(engine.table.memory().offset(frame), len as usize);
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
}

/// Returns the core's form of an error: its number.
pub(super) fn io_error(error: &io::Error) -> IoError {
    IoError(errno_of(error))
}
