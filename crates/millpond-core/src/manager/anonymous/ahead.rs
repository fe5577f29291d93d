//! Pages of regions that are read before they are touched.
//!
//! ```text
//!   touched   p   p+1 │ p+2 ... p+33 │ p+34 ... p+97 │        the windows of `readahead.rs`, by the page
//!                      ▲ a use of it asks for the next
//!   slots     9    3  │ 4 5 6 ... 20 │ 7 7 1 ...              one read for each run of slots
//! ```
//!
//! A region is read ahead like a file: a fault right after the previous one opens a stream, and windows double as long
//! as a reader reaches their marks, which proves that the pages read are used. Pages written together are adjacent in
//! the swap file, so a window is one read or a few. Kernels read around the slot instead (`page-cluster`, Linux 2.4) or
//! around the page (`swap_vma_readahead`, 4.14), up to 32 pages at a time (8 by default) and one window at a time: at the
//! default a 512 KiB chunk takes 16 round trips.
//!
//! A learned record (`readahead/walks.rs`) is wanted as much as its first page: a thread that touches that page also
//! reclaims for the others if the reclaimer is late. Other windows take free frames only; the rest of such a window is
//! dropped.
//!
//! Random faults read nothing ahead. Windows are smaller than those of files: pages read too far displace pages that
//! first had to be written.

use crate::admission::Form;
use crate::event::Effect;
use crate::frame::FrameTable;
use crate::io::Reason;
use crate::manager::Manager;
use crate::manager::fault::Want;
use crate::manager::step::StepContext;
use crate::memory::reserve::AllocationClass;
use crate::readahead::{ReadAheadOptions, Window};
use crate::swap::SlotNo;
use crate::units::{Bytes, FileId, FrameNo, PageIndex, PageKey};
use alloc::vec::Vec;

/// The largest window: with two of them under way a device of 1 GB/s and 0.25 ms is busy, and a program that works in
/// chunks of 512 KiB (Kim 2020's ebizzy) is overtaken by half a chunk at most.
const WINDOW_MAX: Bytes = Bytes::from_kib(256);

/// Streams of a region that are told apart: threads that each go through a part of it, with random faults between.
pub(in crate::manager) const STREAMS_MAX: usize = 24;

impl<A: Form> Manager<A> {
    /// A page is read because it was touched: what to read behind it, if it belongs to a stream.
    pub(in crate::manager) fn swap_missed<F: FrameTable>(
        &mut self,
        key: PageKey,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        let (options, page_size) = (self.swap_readahead(), self.options.page_size);
        let state = self.files.of(key.file());
        if let Some(window) = state
            .readahead
            .missed(key.index(), 1, state.pages, &options, page_size, false)
        {
            self.swap_ahead(key.file(), window, frames, cx);
        }
    }

    /// A reader has come to a mark.
    pub(in crate::manager) fn swap_due<F: FrameTable>(
        &mut self,
        file: FileId,
        at: PageIndex,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        let (options, page_size) = (self.swap_readahead(), self.options.page_size);
        let state = self.files.of(file);
        if let Some(window) = state.readahead.due(at, state.pages, &options, page_size) {
            self.swap_ahead(file, window, frames, cx);
        }
    }

    fn swap_readahead(&self) -> ReadAheadOptions {
        let mut options = self.options.readahead;
        // A small pool has no room for what was not asked for.
        let share = Bytes(self.derived.frames.to_bytes(self.options.page_size).0 / 32);
        options.max = options.max.min(WINDOW_MAX).min(share);
        options
    }

    /// Reads the window's pages that are in their slots only, a run of slots with one read.
    fn swap_ahead<F: FrameTable>(
        &mut self,
        file: FileId,
        window: Window,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        let mut run = self.ios.frame_list();
        let mut first = window.first;
        let mut reading = Vec::new();
        for n in 0..window.count.0 {
            let page = window.first.after(n);
            let key = PageKey::new(file, page);
            let is_wanted = self.files.slots(file).readable(page).is_some() && frames.lookup(key).is_none();
            let want = Want {
                key,
                class: if window.is_whole {
                    AllocationClass::Ordinary
                } else {
                    AllocationClass::ReadAhead
                },
                first_use: false,
                is_run: window.count.0 > 1,
                may_be_no_reuse: false,
                is_background: false,
                is_new_memory: false,
            };
            let frame = if is_wanted && self.pool.free.len() > self.derived.reserve {
                self.grant(want, frames, cx)
            } else {
                None
            };
            if is_wanted && frame.is_none() {
                // A touch of the page has it read; what is left of the window is dropped.
                self.stats.readahead_dropped_pages += window.count.0 - n;
                self.pending_refault = None;
                break;
            }
            let Some(frame) = frame else {
                if !run.is_empty() {
                    let full = core::mem::replace(&mut run, self.ios.frame_list());
                    self.swap_in_ahead(file, first, full, cx);
                }
                continue;
            };
            if run.is_empty() {
                first = page;
            }
            run.push(frame);
            reading.push(page);
        }
        self.swap_in_ahead(file, first, run, cx);
        for at in self
            .files
            .of(file)
            .readahead
            .reading(&reading)
            .into_iter()
            .flatten()
        {
            cx.effects.list.push(Effect::MarkReadAhead { file, at });
        }
    }

    /// Reads pages that follow one another and have frames: as many reads as there are runs of slots.
    pub(in crate::manager) fn swap_in_ahead(
        &mut self,
        file: FileId,
        first: PageIndex,
        granted: Vec<FrameNo>,
        cx: &mut StepContext<'_>,
    ) {
        let mut run = self.ios.frame_list();
        let mut start: Option<(PageIndex, SlotNo)> = None;
        for (n, &frame) in granted.iter().enumerate() {
            let page = first.after(n as u64);
            let slot = self.files.slots(file).of(page);
            let next = start.map(|(_, slot)| SlotNo(slot.0 + run.len() as u32));
            if let Some((page, slot)) = start.filter(|_| slot != next) {
                let full = core::mem::replace(&mut run, self.ios.frame_list());
                self.swap_in(Reason::ReadAhead, PageKey::new(file, page), slot, full, cx);
            }
            if run.is_empty() {
                start = slot.map(|slot| (page, slot));
            }
            run.push(frame);
        }
        match start {
            Some((page, slot)) => self.swap_in(Reason::ReadAhead, PageKey::new(file, page), slot, run, cx),
            None => self.ios.recycle(run),
        }
        self.ios.recycle(granted);
    }
}
