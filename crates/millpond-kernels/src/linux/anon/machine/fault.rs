//! A page is used: what happens where it is not in memory (`do_anonymous_page`, `do_swap_page`, `filemap_read`).
//!
//! ```text
//!   in memory and mapped           its mark of use is set
//!   in the swap cache              a minor fault; active by the rule of 5.5, and its slot goes if swap is half full
//!   in a slot                      read, with its neighbours in memory; what the shadow says decides on the list
//!   nowhere                        a new page
//! ```
//!
//! Read-ahead is that by mappings (`swap_vma_readahead`): a window of up to `2^page_cluster` pages, grown by hits, ahead of
//! a task that goes through its memory in order, and around other faults.

use super::memory::{
    AHEAD, ANONYMOUS, Comes, DEAD, DIRTY, LOADING, NONE, REFERENCED, UNMAPPED, WORKINGSET, WRITING, YOUNG,
};
use super::scheduler::{Machine, Wait};
use crate::linux::anon::Entry;
use millpond_core::page::PageKind;
use millpond_sim::swap::Swap;

/// The read-ahead state of a task.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ahead {
    last: u32,
    window: u32,
    hits: u32,
}

/// `SWAP_RA_HITS_MAX` in effect: more hits make no larger window.
const HITS_MAX: u32 = 64;

impl Ahead {
    /// The number of pages to read (`__swapin_nr_pages`).
    fn window(&mut self, page: u32, max: u32) -> u32 {
        let mut pages = std::mem::take(&mut self.hits) + 2;
        if pages == 2 {
            if page.abs_diff(self.last) != 1 {
                pages = 1;
            }
        } else {
            pages = pages.next_power_of_two().max(4);
        }
        pages = pages.min(max).max(self.window / 2);
        self.window = pages;
        pages
    }
}

/// Read-ahead of files, in pages: 128 KiB.
const FILE_AHEAD: u32 = 32;

impl Machine {
    /// Uses an anonymous page.
    pub(super) fn touch(&mut self, number: u32, write: bool, ahead: &mut Ahead) -> Result<(), Wait> {
        let page = self.pages[number as usize];
        if page.frame == NONE {
            return match page.slot {
                NONE => self.new_page(number),
                _ => self.swap_in(number, ahead),
            };
        }
        let flags = self.memory.frame(page.frame).flags;
        if flags & LOADING != 0 {
            return Err(Wait::Frame(page.frame));
        }
        self.memory.counters.touches += 1;
        if flags & UNMAPPED != 0 {
            self.spend(self.options.costs.fault_minor);
            if flags & AHEAD != 0 {
                ahead.hits = (ahead.hits + 1).min(HITS_MAX);
                ahead.last = number;
            }
            self.map(number, page.frame);
        }
        let frame = self.memory.frame(page.frame);
        frame.flags |= YOUNG;
        if write {
            frame.flags |= DIRTY;
            let is_writing = frame.flags & WRITING != 0;
            if page.slot != NONE && !is_writing {
                self.give_slot(number);
            }
        }
        Ok(())
    }

    fn new_page(&mut self, number: u32) -> Result<(), Wait> {
        let frame = self
            .frame_for(number, ANONYMOUS | YOUNG | DIRTY)
            .ok_or(Wait::Memory)?;
        self.memory.counters.touches += 1;
        self.pages[number as usize].frame = frame;
        self.memory.enter(frame, Comes::default(), true);
        self.spend(self.options.costs.fault_new);
        Ok(())
    }

    /// The end of `do_swap_page`: a page of the swap cache gets its mapping.
    fn map(&mut self, number: u32, frame: u32) {
        let page = self.memory.frame(frame);
        page.flags = page.flags & !(UNMAPPED | AHEAD) | YOUNG;
        if self.memory.rules.entry == Entry::Active {
            self.memory.activate(frame);
        }
        if self.slots.is_half_full() && self.memory.frame(frame).flags & WRITING == 0 {
            self.give_slot(number);
        }
    }

    /// The page's slot is now empty, so the page is dirty.
    pub(super) fn give_slot(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        let slot = std::mem::replace(&mut page.slot, NONE);
        if slot == NONE {
            return;
        }
        let frame = page.frame;
        self.slots.give(slot, frame != NONE);
        if frame != NONE {
            self.memory.frame(frame).flags |= DIRTY;
        }
    }

    fn swap_in(&mut self, number: u32, ahead: &mut Ahead) -> Result<(), Wait> {
        match self.options.swap {
            Swap::Memory(each) => {
                let frame = self
                    .frame_for(number, ANONYMOUS | YOUNG | DIRTY)
                    .ok_or(Wait::Memory)?;
                let comes = self.come_back(number, frame);
                self.memory.enter(frame, comes, false);
                if self.memory.rules.entry == Entry::Active {
                    self.memory.activate(frame);
                }
                self.give_slot(number);
                self.memory.counters.pswpin += 1;
                self.memory.counters.swap_reads += 1;
                self.memory.counters.touches += 1;
                self.spend(self.options.costs.fault_major + each);
                Ok(())
            }
            Swap::Disk(_) => self.swap_in_from_disk(number, ahead),
        }
    }

    /// The page's frame is there: takes its shadow, and asks it.
    fn come_back(&mut self, number: u32, frame: u32) -> Comes {
        let slot = self.pages[number as usize].slot;
        let shadow = self.slots.came(slot);
        self.pages[number as usize].frame = frame;
        let has_room = self.slots.has_room();
        let is_ahead = self.memory.frame(frame).flags & AHEAD != 0;
        self.note_swap_in();
        if is_ahead && !self.memory.rules.read_ahead_activates {
            return Comes::default();
        }
        self.memory.refault(PageKind::Anonymous, shadow, has_room)
    }

    fn swap_in_from_disk(&mut self, number: u32, ahead: &mut Ahead) -> Result<(), Wait> {
        let max = 1 << self.options.page_cluster;
        let sequential = number == ahead.last + 1;
        let descending = number + 1 == ahead.last;
        let window = ahead.window(number, max);
        ahead.last = number;
        let first = match (sequential, descending) {
            (true, _) => number,
            (_, true) => (number + 1).saturating_sub(window),
            _ => number.saturating_sub((window - 1) / 2),
        };
        self.spend(self.options.costs.fault_major);
        let awaited = self.frame_for_swapped(number, 0).ok_or(Wait::Memory)?;
        let mut read = vec![(self.pages[number as usize].slot, awaited)];
        let end = (first + window).min(self.pages.len() as u32);
        for other in (first..end).filter(|&other| other != number) {
            let page = self.pages[other as usize];
            if page.is_file || page.frame != NONE || page.slot == NONE {
                continue;
            }
            if self.memory.free() <= self.marks.min.0 {
                break;
            }
            let Some(frame) = self.frame_for_swapped(other, AHEAD) else {
                break;
            };
            read.push((page.slot, frame));
        }
        read.sort_unstable();
        self.read_slots(&read);
        Err(Wait::Frame(awaited))
    }

    fn frame_for_swapped(&mut self, number: u32, flags: u16) -> Option<u32> {
        let frame = self.frame_for(number, ANONYMOUS | UNMAPPED | LOADING | flags)?;
        let comes = self.come_back(number, frame);
        self.memory.enter(frame, comes, false);
        self.spend(self.options.costs.swap_page);
        Some(frame)
    }

    /// Reads slots, those that lie side by side at a time.
    fn read_slots(&mut self, read: &[(u32, u32)]) {
        let now = self.now;
        let Some(swap) = &mut self.swap else {
            return;
        };
        for run in read.chunk_by(|a, b| b.0 == a.0 + 1) {
            let frames: Vec<u32> = run.iter().map(|&(_, frame)| frame).collect();
            swap.submit(now, false, run[0].0.into(), &frames);
            self.memory.counters.pswpin += frames.len() as u64;
            self.memory.counters.swap_reads += 1;
        }
        self.horizon = self.horizon.min(swap.next());
    }

    /// Reads a page of a file, which is read up to `end`.
    pub(super) fn read_file(&mut self, number: u32, end: u32) -> Result<(), Wait> {
        let frame = self.pages[number as usize].frame;
        if frame != NONE {
            if self.memory.frame(frame).flags & LOADING != 0 {
                return Err(Wait::Frame(frame));
            }
            self.memory.counters.touches += 1;
            self.mark_accessed(frame);
            return Ok(());
        }
        let mut frames = Vec::new();
        for other in number..end.min(number + FILE_AHEAD) {
            if self.pages[other as usize].frame != NONE {
                break;
            }
            let Some(frame) = self.frame_for(other, LOADING) else {
                break;
            };
            let page = &mut self.pages[other as usize];
            page.frame = frame;
            let shadow = std::mem::take(&mut page.shadow);
            let has_room = self.slots.has_room();
            let comes = self.memory.refault(PageKind::File, shadow, has_room);
            self.memory.enter(frame, comes, false);
            frames.push(frame);
        }
        let Some(&awaited) = frames.first() else {
            return Err(Wait::Memory);
        };
        self.memory.counters.file_reads += frames.len() as u64;
        self.files.submit(self.now, false, number.into(), &frames);
        self.horizon = self.horizon.min(self.files.next());
        Err(Wait::Frame(awaited))
    }

    /// `mark_page_accessed`.
    fn mark_accessed(&mut self, frame: u32) {
        let is_second = self.memory.frame(frame).flags & REFERENCED != 0;
        if is_second && !self.memory.is_active(frame) {
            self.memory.frame(frame).flags &= !REFERENCED;
            self.memory.activate(frame);
            let (rules, kind) = (self.memory.rules, self.memory.kind(frame));
            self.memory.ages.activated(&rules, kind, 1);
        } else {
            self.memory.frame(frame).flags |= REFERENCED;
        }
    }

    /// Marks a page of memory as accessed, as often as it takes to make it active.
    pub(super) fn make_active(&mut self, number: u32) {
        let frame = self.pages[number as usize].frame;
        if frame != NONE && !self.memory.is_active(frame) {
            self.mark_accessed(frame);
            if !self.memory.is_active(frame) {
                self.mark_accessed(frame);
            }
        }
    }

    /// Drops anonymous pages (`munmap`): frames, slots and shadows go.
    pub(super) fn drop_pages(&mut self, first: u32, pages: u64) {
        for number in first..first + pages as u32 {
            self.give_slot(number);
            let frame = std::mem::replace(&mut self.pages[number as usize].frame, NONE);
            if frame == NONE {
                continue;
            }
            self.memory.take_off(frame);
            let page = self.memory.frame(frame);
            page.flags &= !WORKINGSET;
            if page.flags & (LOADING | WRITING) != 0 {
                page.flags |= DEAD;
            } else {
                self.memory.give(frame);
            }
        }
    }
}
