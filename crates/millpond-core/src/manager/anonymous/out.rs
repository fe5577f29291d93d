//! Pages of regions on their way to the swap file.
//!
//! ```text
//!   tagged   p7  q2  p8  r1 ...                  as reclaim met them
//!   queued   p7 p6 p8 p9 │ q2 q3 │ r1            with their neighbors that are dirty and not in use
//!   sorted   p6 p7 p8 p9 │ q2 q3 │ r1            side by side
//!   slots    40 41 42 43   44 45   46            one write as long as slots follow one another
//! ```
//!
//! Neighbors (as in FreeBSD's `vm_pageout_cluster`) are cleaned, and stay until their own turn comes. Records of
//! several threads reach the cold end interleaved, a few pages of each at a time, and would otherwise be scattered over
//! the swap file.

use super::BATCH;
use crate::admission::{Form, Verdict};
use crate::event::Effect;
use crate::frame::{BeginWrite, FrameTable};
use crate::io::{Io, IoError, Reason};
use crate::manager::Manager;
use crate::manager::step::StepContext;
use crate::page::{PageEvent, Phase};
use crate::swap::{SlotNo, SwapSlots};
use crate::units::{Bytes, FileId, FrameNo, PageCount, PageIndex, PageKey};
use alloc::vec::Vec;

/// The largest write: as the flusher's.
const WRITE_MAX: Bytes = Bytes::from_mib(1);

/// How many neighbors on each side of a page are written with it, where memory has 64 times as many pages: with the page
/// itself about a batch.
const NEIGHBOURS_MAX: u64 = 32;

impl<A: Form> Manager<A> {
    /// A page is to be written, and with it those beside it that are dirty and not in use.
    pub(super) fn queue_with_neighbours<F: FrameTable>(&mut self, frame: FrameNo, frames: &F) {
        if !core::mem::replace(&mut self.pool[frame].queued, true) {
            self.swap.queue.push(frame);
        }
        let key = frames.key(frame);
        let (file, at) = (key.file(), key.index().0);
        let most = NEIGHBOURS_MAX.min(self.derived.frames.0 / 64);
        let end = self.files.of(file).pages.0;
        let mut goes_too = |page: u64| self.queue_neighbour(PageKey::new(file, PageIndex(page)), frames);
        let _ = (at.saturating_sub(most)..at).rev().all(&mut goes_too);
        let _ = (at + 1..(at + 1 + most).min(end)).all(&mut goes_too);
    }

    /// Whether the page is dirty, not in use, and was not among them before: then it is now.
    fn queue_neighbour<F: FrameTable>(&mut self, key: PageKey, frames: &F) -> bool {
        let Some(frame) = frames.lookup(key) else {
            return false;
        };
        let state = &mut self.pool[frame];
        let goes_too = state.phase() == Phase::Dirty && !state.queued && frames.tracks_accesses(frame);
        if goes_too {
            state.queued = true;
            self.swap.queue.push(frame);
        }
        goes_too
    }

    /// Writes what was tagged: whole batches, and the rest when no more is collected or a caller waits.
    pub(in crate::manager) fn swap_out<F: FrameTable>(&mut self, frames: &mut F, cx: &mut StepContext<'_>) {
        let page_size = self.options.page_size;
        while !self.swap.queue.is_empty() {
            let is_short = self.memory_waiters || self.pool.free.len() <= self.derived.watermarks.min;
            if self.swap.queue.len() < BATCH && self.reclaimer.is_awake() && !is_short {
                return;
            }
            let device = self.swap.next_device();
            let most = self
                .devices
                .of(device)
                .admission
                .write_bytes(cx.now)
                .0
                .min(WRITE_MAX.0);
            let most = Bytes(most).to_pages(page_size).0.max(1) as usize;
            let count = most.min(self.swap.queue.len());
            let bytes = PageCount(count as u64).to_bytes(page_size);
            let admission = &mut self.devices.of(device).admission;
            if let Verdict::Wait(until) = admission.admit(cx.now, Reason::Swap, bytes) {
                let sooner = self.look_again.into_iter().chain(until).min();
                self.look_again = sooner;
                return;
            }
            self.swap_out_some(count, frames, cx);
        }
    }

    /// Writes the first `count` pages that were tagged, as one transfer for each run of slots.
    fn swap_out_some<F: FrameTable>(&mut self, count: usize, frames: &mut F, cx: &mut StepContext<'_>) {
        let mut queue = core::mem::take(&mut self.swap.queue);
        let is_wanted = |frame: &FrameNo| {
            let state = &self.pool[*frame];
            state.phase() == Phase::Dirty && state.queued
        };
        let mut batch = self.ios.frame_list();
        batch.extend(queue.drain(..count).filter(is_wanted));
        // Neighbors side by side: one read brings them back.
        batch.sort_unstable_by_key(|&frame| frames.key(frame).to_bits());
        let mut run = self.ios.frame_list();
        let mut first = SlotNo(0);
        for frame in batch.drain(..) {
            // The same frame may have been tagged twice.
            if !core::mem::take(&mut self.pool[frame].queued) {
                continue;
            }
            let leaves = core::mem::take(&mut self.pool[frame].free_on_clean);
            let slot = self.swap.slots.as_mut().and_then(SwapSlots::take);
            let slot = slot.expect("regions have no more pages than there are slots");
            let begun = frames.begin_write(frame);
            if begun != BeginWrite::Begun {
                // In use again, or in the hands of a device, or given up.
                self.swap.give(Some(slot));
                self.swap.leaving -= PageCount(u64::from(leaves));
                if begun == BeginWrite::Useless {
                    self.given_up(frame, cx);
                }
                continue;
            }
            self.pool[frame].free_on_clean = leaves;
            self.pool.transition(frame, PageEvent::WriteStarted);
            let key = frames.key(frame);
            self.files.slots(key.file()).put(key.index(), Some(slot));
            if !run.is_empty() && slot.0 != first.0 + run.len() as u32 {
                let full = core::mem::replace(&mut run, self.ios.frame_list());
                self.issue_swap_out(first, full, cx);
            }
            if run.is_empty() {
                first = slot;
            }
            run.push(frame);
        }
        self.swap.queue = queue;
        self.ios.recycle(batch);
        if run.is_empty() {
            self.ios.recycle(run);
        } else {
            self.issue_swap_out(first, run, cx);
        }
    }

    /// A page without a slot was given up before it was written.
    fn given_up(&mut self, frame: FrameNo, cx: &mut StepContext<'_>) {
        self.swap.dirty -= PageCount(1);
        self.stats.pglazyfreed += 1;
        self.pool.transition(frame, PageEvent::Discarded);
        self.lru.remove(frame);
        self.release(frame, cx);
        self.wake_memory(cx);
    }

    fn issue_swap_out(&mut self, first: SlotNo, run: Vec<FrameNo>, cx: &mut StepContext<'_>) {
        let pages = PageCount(run.len() as u64);
        self.swap.dirty -= pages;
        self.swap.writing += pages;
        self.stats.pswpout += pages.0;
        let transfer = Io {
            reason: Reason::Swap,
            device: self.swap.device_of(first),
            // Of several regions: it is not asked for.
            file: FileId(0),
            first: PageIndex(first.0.into()),
            frames: run,
            issued_at: cx.now,
            small_fsync: false,
            awaited: None,
        };
        let (io, frames) = self.issue(transfer, cx);
        cx.effects.list.push(Effect::SwapOut { io, first, frames });
    }

    /// A write to swap has ended. After an error its pages are dirty, and are tried again when they come to the cold end.
    pub(in crate::manager) fn swap_done(
        &mut self,
        io: Io,
        result: Result<(), IoError>,
        frames: &impl FrameTable,
        cx: &mut StepContext<'_>,
    ) {
        let pages = PageCount(io.frames.len() as u64);
        let bytes = pages.to_bytes(self.options.page_size);
        self.stats.io_ended(io.reason, cx.now.since(io.issued_at));
        self.devices
            .of(io.device)
            .admission
            .completed(cx.now, io.reason, bytes, io.issued_at);
        self.swap.writing -= pages;
        for &frame in &io.frames {
            let is_tagged = core::mem::take(&mut self.pool[frame].free_on_clean);
            self.swap.leaving -= PageCount(u64::from(is_tagged));
            if result.is_err() {
                self.stats.pswpout_failed += 1;
                self.pool.transition(frame, PageEvent::WriteFailed);
                self.swap.dirty += PageCount(1);
                self.free_slot(frames.key(frame));
                continue;
            }
            self.pool.transition(frame, PageEvent::Written);
            if is_tagged {
                self.lru.rotate_to_cold(frame);
            }
        }
        self.ios.recycle(io.frames);
        self.wake_memory(cx);
        self.wake_reclaimer(cx);
    }
}
