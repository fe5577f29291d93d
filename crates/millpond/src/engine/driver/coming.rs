//! Pages come into regions, under the core lock: they are in hand from the step that finds them a frame to the end of their
//! read.

use super::transfers::{FileIo, Kind, Transfer};
use super::{CoreGuard, Engine};
use crate::device::{Request, Warning};
use crate::frames::table::Load;
use crate::memory::{Ahead, At, SpaceInner};
use crate::sys::uffd::Access;
use millpond_core::io::{IoId, Reason};
use millpond_core::swap::SlotNo;
use millpond_core::units::{FileId, PageIndex, PageKey};
use std::sync::Arc;

/// Consecutive pages that are being read from their slots.
pub(crate) struct SwapRead {
    pub(super) io: IoId,
    pub(super) region: Arc<SpaceInner>,
    /// The first page.
    pub(super) page: u64,
    pub(super) slot: SlotNo,
    pub(super) reason: Reason,
    /// The first access of the thread that waits for the page, if one does.
    pub(super) access: Access,
    pub(super) loads: Vec<Load>,
}

impl SwapRead {
    /// Takes pages in hand that are to be read from their slots, until the read ends.
    pub(super) fn hold(
        engine: &Engine,
        io: IoId,
        reason: Reason,
        key: PageKey,
        slot: SlotNo,
        loads: Vec<Load>,
    ) -> SwapRead {
        let (file, page) = (key.file(), key.index().0);
        let region = engine.spaces().of(file);
        let region = region.unwrap_or_else(|| panic!("{file:?} is no region"));
        for page in (page..).take(loads.len()) {
            let taken = region.pages.take(page, &[At::Absent]);
            assert_eq!(taken, Some(At::Absent), "page {page} of {file:?} is to be read");
            let was_read = reason == Reason::ReadAhead;
            let is_mark = false;
            region.pages.note_ahead(page, Ahead { was_read, is_mark });
        }
        SwapRead {
            io,
            region,
            page,
            slot,
            reason,
            access: Access::Read,
            loads,
        }
    }

    pub(super) fn request(&mut self, engine: &Engine, token: u64) -> Request {
        let reason = self.reason;
        let (file, slot) = engine.spaces().place(self.slot);
        FileIo::of(engine, &file).read_request((token, reason), slot, &mut self.loads)
    }
}

impl CoreGuard<'_> {
    /// Lets the device read the pages.
    pub(super) fn read_later(&mut self, mut read: SwapRead) {
        let (io, first) = (read.io, PageIndex(read.page));
        let request = read.request(self.engine, u64::from(io.0));
        let (file, _) = self.engine.spaces().place(read.slot);
        self.outbox.submit(file.clone(), request);
        let kind = Kind::SwapIn(read);
        self.transfers.insert(io, Transfer { file, first, kind });
    }

    /// Reports that the page's content is lost for good: once the warning is given, a thread that touches it gets `SIGBUS`.
    /// The page is loading or nowhere, and we hold it.
    pub(super) fn lose(&mut self, region: &Arc<SpaceInner>, page: u64, why: String) {
        self.outbox.warnings.push(Warning::PageLost {
            page,
            why: why.clone(),
        });
        self.outbox.lost.push((region.clone(), page, why));
    }

    /// Marks the page of a region so that its first touch asks for more read-ahead. Does nothing if it is not on its way.
    pub(super) fn mark_ahead(&self, region: &SpaceInner, page: u64) {
        if region.pages.at(page) == At::Busy {
            let (was_read, is_mark) = (false, true);
            region.pages.note_ahead(page, Ahead { was_read, is_mark });
        }
    }

    /// Takes in hand a never-touched page that was granted a frame, if it is a region's, until it is filled.
    pub(super) fn hold_granted(&self, file: FileId, first: PageIndex) {
        if let Some(region) = self.engine.spaces.as_ref().and_then(|spaces| spaces.of(file)) {
            let taken = region.pages.take(first.0, &[At::Absent]);
            assert_eq!(taken, Some(At::Absent), "{first:?} was granted");
        }
    }
}
