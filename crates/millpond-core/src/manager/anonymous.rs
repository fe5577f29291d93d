//! Anonymous memory: pages that belong to no file, and the swap file they are written to.
//!
//! ```text
//!   never touched ─► zeros, dirty ─► met at the cold end ─► tagged ─┬─► written to a slot, clean ─► evicted
//!                       ▲                                           │ 64 together, in slots that      │
//!                       └── differs from its slot, which is free ◄──┴ follow one another              │
//!                                                                   clean, keeps its slot ◄─ read ◄───┘
//! ```
//!
//! They share the lists, the rule and the budget of file pages, and leave the same shadows, so refaults count alike.
//! The differences:
//!
//! - The core does not see changes. A page never written to swap is dirty. One that was counts as clean until the
//!   driver reports at its eviction that it is not ([`Event::Changed`](crate::event::Event::Changed)).
//! - Reclaim's victims are the only pages written to free memory, because no flusher would have written them earlier.
//!   So reclaim tags them and continues. They are written in the background, many at a time, and are the next victims
//!   when that has ended. (Kim 2020's swap wrote page by page; an append of 64 was measured 1.6 to 2.7 times as fast.)
//!   Reclaim tags no more than it takes to fill free memory up to the high water mark, or a batch. Further pages keep
//!   their position, so that pages leave in order (decision 0014).
//! - They don't count for the limits on dirty pages: only callers that need a frame wait for them.
//!
//! Invariant: a page of a region has a slot if and only if it is clean, being written, being read, or not in memory and
//! not new. Regions have no more pages than there are slots, so swap is never full.

mod ahead;
mod out;

use super::fault::Want;
use super::step::StepContext;
use super::{Manager, PageCount};
use crate::admission::Form;
use crate::event::{Effect, Intent};
use crate::frame::FrameTable;
use crate::io::{Io, Reason};
use crate::memory::reserve::AllocationClass;
use crate::page::{PageEvent, Phase};
use crate::readahead::ReadAhead;
use crate::swap::{SlotNo, SwapSlots};
use crate::units::{DeviceNo, FileId, FrameNo, PageIndex, PageKey};
use alloc::vec::Vec;
use core::ops::Range;

/// Pages that are collected before they are written, unless a caller waits: then an append costs a page about its least.
const BATCH: usize = 64;

/// Marks a page of a region that has no slot, and a slot that could not be read.
const NO_SLOT: u32 = u32::MAX;
const UNREADABLE: u32 = 1 << 31;

/// Where the pages of a region are in the swap file, by the page: 4 bytes each.
#[derive(Clone, Debug)]
pub(super) struct Slots(Vec<u32>);

impl Slots {
    fn of(&self, page: PageIndex) -> Option<SlotNo> {
        let slot = self.0[page.0 as usize];
        (slot != NO_SLOT).then_some(SlotNo(slot & !UNREADABLE))
    }

    /// The same, if it may be read ahead.
    pub(super) fn readable(&self, page: PageIndex) -> Option<SlotNo> {
        let slot = *self.0.get(page.0 as usize)?;
        (slot & UNREADABLE == 0).then_some(SlotNo(slot))
    }

    fn put(&mut self, page: PageIndex, slot: Option<SlotNo>) -> Option<SlotNo> {
        let before = self.of(page);
        self.0[page.0 as usize] = slot.map_or(NO_SLOT, |slot| slot.0);
        before
    }
}

/// The swap file, and what is to go there.
#[derive(Clone, Debug, Default)]
pub(super) struct Swap {
    slots: Option<SwapSlots>,
    /// Dirty pages that reclaim has tagged, in the order in which it met them, each with its neighbors. One that was
    /// discarded or is clean since is passed over.
    queue: Vec<FrameNo>,
    /// Pages of regions that have no slot.
    dirty: PageCount,
    /// Pages of regions on their way to their slots.
    writing: PageCount,
    /// Pages of regions that are to be freed when they have been written: queued, or being written.
    leaving: PageCount,
    /// Bytes of the regions' [`Slots`].
    slots_bytes: u64,
}

impl Swap {
    pub(super) fn added(&mut self, slots: PageCount, priority: i16, device: DeviceNo) {
        self.slots.get_or_insert_default().add(slots, priority, device);
    }

    /// Where the slot is that is taken next.
    fn next_device(&self) -> DeviceNo {
        self.slots.as_ref().map_or(DeviceNo(0), SwapSlots::next_device)
    }

    fn device_of(&self, slot: SlotNo) -> DeviceNo {
        (self.slots.as_ref()).map_or(DeviceNo(0), |slots| slots.device_of(slot))
    }

    /// One more page is to be freed when it has been written.
    pub(super) fn leaves(&mut self) {
        self.leaving += PageCount(1);
    }

    pub(super) fn dirty(&self) -> PageCount {
        self.dirty
    }

    pub(super) fn writing(&self) -> PageCount {
        self.writing
    }

    pub(super) fn metadata_bytes(&self) -> u64 {
        let slots = self.slots.as_ref().map_or(0, SwapSlots::metadata_bytes);
        self.slots_bytes + slots + (self.queue.capacity() * size_of::<FrameNo>()) as u64
    }

    /// A region is closed: its slots are free. Its pages in memory were discarded before.
    pub(super) fn close(&mut self, slots: &Slots) {
        self.slots_bytes -= (slots.0.capacity() * size_of::<u32>()) as u64;
        for &slot in slots.0.iter().filter(|&&slot| slot != NO_SLOT) {
            self.give(Some(SlotNo(slot & !UNREADABLE)));
        }
    }

    fn give(&mut self, slot: Option<SlotNo>) {
        if let (Some(slot), Some(slots)) = (slot, &mut self.slots) {
            slots.give(slot);
        }
    }

    fn taken(&self) -> PageCount {
        self.slots.as_ref().map_or(PageCount(0), SwapSlots::taken)
    }
}

impl<A: Form> Manager<A> {
    pub(super) fn open_region(&mut self, file: FileId, pages: PageCount) {
        let slots = Slots(alloc::vec![NO_SLOT; pages.0 as usize]);
        self.swap.slots_bytes += (slots.0.capacity() * size_of::<u32>()) as u64;
        let state = self.files.open(file, pages, DeviceNo(0), Some(slots));
        state.readahead = ReadAhead::that_learns(ahead::STREAMS_MAX);
    }

    /// Whether the page of a region is in its slot of the swap file, whatever it is in memory.
    pub fn has_slot(&self, region: FileId, page: PageIndex) -> bool {
        let slots = self.files.get(region).and_then(|state| state.slots.as_ref());
        slots.is_some_and(|slots| slots.of(page).is_some())
    }

    /// Slots that are taken, and how many there are; `None` without a swap file.
    pub fn swap_slots(&self) -> Option<(PageCount, PageCount)> {
        let slots = self.swap.slots.as_ref()?;
        Some((slots.taken(), slots.len()))
    }

    /// Grants frames for a prefix of the missing pages: for those never touched empty ones, the others are read. Whether
    /// there may be something to write now.
    pub(super) fn fault_region<F: FrameTable>(
        &mut self,
        file: FileId,
        first: PageIndex,
        count: u32,
        intent: Intent,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> bool {
        let ahead = matches!(intent, Intent::Prefetch | Intent::Background);
        let mut granted = self.ios.frame_list();
        for n in 0..u64::from(count) {
            let page = first.after(n);
            let is_new_memory = self.files.slots(file).of(page).is_none();
            if ahead && is_new_memory {
                break;
            }
            let want = Want {
                key: PageKey::new(file, page),
                class: if ahead {
                    AllocationClass::ReadAhead
                } else {
                    AllocationClass::Ordinary
                },
                first_use: !ahead,
                is_run: count > 1,
                may_be_no_reuse: false,
                is_background: false,
                is_new_memory,
            };
            let Some(frame) = self.grant(want, frames, cx) else {
                break;
            };
            granted.push(frame);
        }
        let is_refused = granted.is_empty();
        if ahead {
            self.swap_in_ahead(file, first, granted, cx);
            return false;
        }
        for (n, &frame) in granted.iter().enumerate() {
            let page = first.after(n as u64);
            match self.files.slots(file).of(page) {
                None => self.grant_zeros(file, page, frame, cx),
                Some(slot) => {
                    let mut one = self.ios.frame_list();
                    one.push(frame);
                    let key = PageKey::new(file, page);
                    self.swap_in(Reason::Fault, key, slot, one, cx);
                    self.swap_missed(key, frames, cx);
                }
            }
        }
        self.ios.recycle(granted);
        if is_refused {
            self.wait_for_memory(cx);
        }
        is_refused
    }

    fn grant_zeros(&mut self, file: FileId, page: PageIndex, frame: FrameNo, cx: &mut StepContext<'_>) {
        self.filled(frame);
        self.pool.transition(frame, PageEvent::Changed);
        self.swap.dirty += PageCount(1);
        let frames = cx.effects.add_frames([frame]);
        cx.effects.list.push(Effect::Grant {
            file,
            first: page,
            frames,
        });
    }

    /// Reads pages that follow one another, as do their slots.
    pub(super) fn swap_in(
        &mut self,
        reason: Reason,
        first: PageKey,
        slot: SlotNo,
        frames: Vec<FrameNo>,
        cx: &mut StepContext<'_>,
    ) {
        self.stats.pgmajfault += u64::from(reason == Reason::Fault);
        self.stats.pswpin += frames.len() as u64;
        let pages = frames.len() as u64;
        self.reuse.missed(&mut self.files, first.file(), pages);
        self.stats.swap_ra += (frames.len() * usize::from(reason == Reason::ReadAhead)) as u64;
        let transfer = Io {
            reason,
            device: self.swap.device_of(slot),
            file: first.file(),
            first: first.index(),
            frames,
            issued_at: cx.now,
            small_fsync: false,
            awaited: None,
        };
        let (io, frames) = self.issue(transfer, cx);
        cx.effects.list.push(Effect::SwapIn {
            io,
            reason,
            file: first.file(),
            page: first.index(),
            slot,
            frames,
        });
    }

    /// Whether free memory comes to where it should be with what is on its way to swap, and what is to leave the pool as
    /// well: to the high water mark, or a batch above the low one if the marks of a small pool are closer than that. The
    /// marks rise while allocations are faster than what the device takes at a time.
    pub(super) fn is_swapping_enough(&self) -> bool {
        let coming = self.swap.leaving;
        let marks = self.watermarks();
        let batch = (marks.low.0 + BATCH as u64).min(self.derived.frames.0 / 16);
        let wanted = marks.high.max(PageCount(batch)) + self.leaving();
        coming > PageCount(0) && self.pool.free.len() + coming >= wanted
    }

    /// Reclaim has met a dirty page of a region. Whether it is to leave; else it stays where it is.
    pub(super) fn tag_for_swap<F: FrameTable>(&mut self, frame: FrameNo, frames: &F) -> bool {
        if self.pool[frame].free_on_clean {
            return true;
        }
        if self.is_swapping_enough() {
            return false;
        }
        self.pool[frame].free_on_clean = true;
        self.swap.leaves();
        self.stats.nr_vmscan_immediate_reclaim += 1;
        self.queue_with_neighbours(frame, frames);
        true
    }

    /// Pages that were taken for clean are not: their slots are free. They were met at the cold end, so they leave, or are
    /// the next ones that do.
    pub(super) fn changed<F: FrameTable>(&mut self, changed: &[FrameNo], frames: &F) {
        for &frame in changed {
            self.pool.transition(frame, PageEvent::Changed);
            self.swap.dirty += PageCount(1);
            self.free_slot(frames.key(frame));
        }
        // Neighbors are known to be dirty by now.
        for &frame in changed {
            self.tag_for_swap(frame, frames);
        }
        for &frame in changed.iter().rev() {
            if !self.pool[frame].free_on_clean {
                self.lru.rotate_to_cold(frame);
            }
        }
    }

    /// A page could not be read from its slot: it is read ahead no more.
    pub(super) fn swap_in_failed(&mut self, file: FileId, page: PageIndex) {
        if self.files.is_region(file)
            && let Some(slot) = self.files.slots(file).of(page)
        {
            self.files
                .slots(file)
                .put(page, Some(SlotNo(slot.0 | UNREADABLE)));
        }
    }

    fn free_slot(&mut self, key: PageKey) {
        let slot = self.files.slots(key.file()).put(key.index(), None);
        self.swap.give(slot);
    }

    /// Pages of a region that were in memory are no more.
    pub(super) fn discarded_of_region(
        &mut self,
        file: FileId,
        pages: &[(PageIndex, FrameNo)],
        cx: &mut StepContext<'_>,
    ) {
        for &(page, frame) in pages {
            self.swap.dirty -= PageCount(u64::from(self.phase(frame) == Phase::Dirty));
            self.swap.leaving -= PageCount(u64::from(self.pool[frame].free_on_clean));
            self.pool.transition(frame, PageEvent::Discarded);
            self.free_slot(PageKey::new(file, page));
            self.lru.remove(frame);
            self.release(frame, cx);
        }
    }

    /// Pages of a region that are not in memory are no more.
    pub(super) fn forgotten(&mut self, file: FileId, pages: Range<u64>) {
        for page in pages {
            self.free_slot(PageKey::new(file, PageIndex(page)));
        }
    }

    /// The invariant, and that every slot that is taken is a page's.
    pub(super) fn validate_swap<F: FrameTable>(&self, frames: &F) {
        let (mut taken, mut regions, mut leaving) = (0, 0, 0);
        for (file, state) in self.files.iter() {
            let Some(slots) = state.slots.as_ref() else {
                continue;
            };
            regions += 1;
            for page in (0..slots.0.len() as u64).map(PageIndex) {
                taken += u64::from(slots.of(page).is_some());
                let frame = frames.lookup(PageKey::new(file, page));
                if let Some(frame) = frame {
                    leaving += u64::from(self.pool[frame].free_on_clean);
                    let is_dirty = self.phase(frame) == Phase::Dirty;
                    assert_eq!(slots.of(page).is_none(), is_dirty, "{page:?} in {frame:?}");
                }
            }
        }
        assert_eq!(regions, self.files.regions(), "regions");
        assert_eq!(
            leaving, self.swap.leaving.0,
            "pages that leave when they have been written"
        );
        assert_eq!(taken, self.swap.taken().0, "slots that are taken");
    }
}
