//! Transfers between their start and their end: requests for the device, and what was read.
//!
//! A read that a thread needs is done by that thread ([`Reads::read_missing`](super::Reads::read_missing)); read-ahead and writes are handed to the device,
//! and the cache's thread takes their ends in ([`CoreGuard::completed`](super::CoreGuard::completed)).

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

/// What a file's transfers are made of.
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

    /// The pages as far as the file goes: what lies beyond its end in the last one is not written.
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

/// What the core is told of a failure: its number.
pub(super) fn io_error(error: &io::Error) -> IoError {
    IoError(errno_of(error))
}
