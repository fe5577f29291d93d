//! Anonymous pages: in memory, in swap, or in both.
//!
//! ```text
//!   never touched ──► in memory, changed ──written──► in memory and in swap ──taken──► in swap
//!                             ▲                            │  ▲                          │ touched: read, with the
//!                             └───────── changed ──────────┘  └──────────────────────────┘ slots around it (8 pages)
//! ```
//!
//! A new page starts on the active list, to 5.8; one that comes back from swap, and its neighbours, on the inactive one.

use super::memory::{
    ACTIVE_ANON, ANONYMOUS, DIRTY, INACTIVE_ANON, LOADING, MAPPED, Mark, NONE, REFERENCED, WRITING, YOUNG,
};
use super::scheduler::{Machine, Step, Wait};
use crate::linux::vm_swap_full;
use millpond_core::swap::SlotNo;
use millpond_core::units::{Instant, Nanos};

/// Linux' `page_cluster` of 3: slots read together, aligned.
const CLUSTER_SLOTS: u32 = 8;

/// The location of an anonymous page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Anonymous {
    pub(super) frame: u32,
    pub(super) slot: Option<SlotNo>,
}

/// A touch of a page in memory: nothing to speak of.
const TOUCH: Nanos = Nanos(150);
/// A fault without the disk.
const FAULT: Nanos = Nanos(1_000);

impl Machine {
    /// `pages` anonymous pages of programs that have run for long: in memory, and not used for a while. The number of the
    /// first.
    pub fn add_anonymous(&mut self, pages: u32) -> u32 {
        let first = self.anonymous.len() as u32;
        let never_touched = Anonymous {
            frame: NONE,
            slot: None,
        };
        self.anonymous
            .resize(self.anonymous.len() + pages as usize, never_touched);
        for page in first..first + pages {
            if let Some(frame) = self.memory.take(Mark::Low, ANONYMOUS, page, DIRTY | MAPPED) {
                self.anonymous[page as usize].frame = frame;
                self.memory.push_warm(frame, ACTIVE_ANON);
            }
        }
        first
    }

    /// `thread` uses the page, and changes it if `is_write`. `Done` when it has; `Ran` with a frame still to be found is
    /// never answered: the caller gets `None` then, and reclaims.
    pub(super) fn touch(&mut self, thread: usize, page: u32, is_write: bool, mark: Mark) -> Option<Step> {
        let at = self.anonymous[page as usize];
        if at.frame != NONE {
            let frame = self.memory.frame(at.frame);
            if frame.has(LOADING) {
                self.sleep(thread, Wait::Page(at.frame), Instant::NEVER);
                return Some(Step::Waits(FAULT));
            }
            frame.flags |= YOUNG;
            if is_write {
                frame.flags |= DIRTY;
                self.drop_slot(page);
            } else if vm_swap_full(&self.swap) && at.slot.is_some() {
                self.memory.frame(at.frame).flags |= DIRTY;
                self.drop_slot(page);
            }
            return Some(Step::Done(TOUCH));
        }
        let Some(slot) = at.slot else {
            let flags = YOUNG | DIRTY | MAPPED;
            let frame = self.memory.take(mark, ANONYMOUS, page, flags)?;
            self.anonymous[page as usize].frame = frame;
            let list = match self.options.system.any_use_rescues_anonymous() {
                true => ACTIVE_ANON,
                false => INACTIVE_ANON,
            };
            self.memory.push_warm(frame, list);
            return Some(Step::Done(FAULT));
        };
        self.swap_in(thread, page, slot, mark)
    }

    /// The page's content is given up. One in transit, or held by reclaim, stays.
    pub(super) fn release(&mut self, page: u32) {
        let frame = self.anonymous[page as usize].frame;
        if frame != NONE {
            let is_in_hand = self.memory.list_of(frame).is_none();
            if is_in_hand || self.memory.frame(frame).flags & (LOADING | WRITING) != 0 {
                return;
            }
            self.memory.remove(frame);
            self.memory.give(frame);
            self.anonymous[page as usize].frame = NONE;
        }
        self.drop_slot(page);
    }

    fn drop_slot(&mut self, page: u32) {
        if let Some(slot) = self.anonymous[page as usize].slot.take() {
            self.swap.give(slot);
            self.slot_pages[slot.0 as usize] = NONE;
        }
    }

    /// Reads the page, and those of its aligned cluster that are only in swap, while frames are available.
    fn swap_in(&mut self, thread: usize, page: u32, slot: SlotNo, mark: Mark) -> Option<Step> {
        let wanted = self
            .memory
            .take(mark, ANONYMOUS, page, LOADING | MAPPED | REFERENCED)?;
        let first = slot.0 / CLUSTER_SLOTS * CLUSTER_SLOTS;
        let mut run: Vec<u32> = Vec::new();
        let mut run_from = first;
        for at in first..first + CLUSTER_SLOTS {
            let neighbour = self
                .slot_pages
                .get(at as usize)
                .copied()
                .filter(|&page| page != NONE);
            let frame = match neighbour {
                Some(other) if other == page => Some(wanted),
                Some(other) if self.anonymous[other as usize].frame == NONE => {
                    self.memory.take(Mark::Low, ANONYMOUS, other, LOADING | MAPPED)
                }
                _ => None,
            };
            if let (Some(frame), Some(other)) = (frame, neighbour) {
                self.anonymous[other as usize].frame = frame;
                self.memory.push_warm(frame, INACTIVE_ANON);
                self.counters.pswpin += 1;
                if run.is_empty() {
                    run_from = at;
                }
                run.push(frame);
            } else if !run.is_empty() {
                let frames = std::mem::take(&mut run);
                self.read_swap(thread, run_from, frames);
            }
        }
        if !run.is_empty() {
            self.read_swap(thread, run_from, run);
        }
        self.sleep(thread, Wait::Page(wanted), Instant::NEVER);
        Some(Step::Waits(FAULT))
    }

    fn read_swap(&mut self, thread: usize, slot: u32, frames: Vec<u32>) {
        let offset = u64::from(slot) * 4096;
        self.block.submit(self.now, thread, (false, true), offset, frames);
    }
}
