//! Pages leave memory, or are to be written, under the core lock: first they leave their regions and mappings (`unmap.rs`).
//!
//! ```text
//!   the core asks for uses     noted: after the step they leave, neighbours together (`call_back.rs`), so the next use is seen
//!   the core evicts            of a file: its device has it, it goes
//!                              of a region: equal to its slot, known or by its checksum? it goes : Event::Changed
//!   the core writes to swap    Writing; its checksum taken; written; Cached
//!   the core writes to a file  if it is open in its mapping: with open pages behind it
//! ```
//!
//! A 64-bit checksum decides that a page need not be written. So each eviction of a changed page loses it with a probability
//! of 2^-64: once in twelve million years at 50,000 a second. With 32 bits it would be once a day.

use super::transfers::{FileIo, Kind, Transfer};
use super::unmap::{Fate, HeldPage};
use super::writes::Frames;
use super::{Core, CoreGuard, Unmap};
use crate::memory::{At, Pages, Space, SpaceInner, Tables};
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::io::{IoId, Reason};
use millpond_core::swap::SlotNo;
use millpond_core::units::{FrameNo, PageKey};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The most pages that leave a mapping together when the first is to be written: what one system call moves.
const TOGETHER: u64 = 32;

impl CoreGuard<'_> {
    /// Writes pages to the swap file.
    pub(super) fn write_swap(&mut self, io: IoId, first: SlotNo, frames: &[FrameNo]) {
        let engine = self.engine;
        let (file, first) = engine.spaces().place(first);
        let Core { token, pages, .. } = &mut *self.held;
        let table = engine.table.locked(token);
        let keys = frames.iter().map(|&frame| (table.key(frame), frame));
        pages.written.extend(keys);
        let token = (u64::from(io.0), Reason::Swap);
        let request = FileIo::of(engine, &file).write_request(token, first, frames);
        self.outbox.submit(file.clone(), request);
        let kind = Kind::SwapOut;
        self.transfers.insert(io, Transfer { file, first, kind });
    }

    /// Ends a write to swap, successful or not: its pages can be moved again.
    pub(super) fn swapped_out(&mut self, io: IoId, is_written: bool) {
        let engine = self.engine;
        let mut frames = std::mem::take(&mut self.pages.ended);
        frames.extend_from_slice(self.manager.frames_of(io));
        for frame in frames.drain(..) {
            let key = engine.table.locked(&mut self.token).key(frame);
            match is_written {
                true => engine.table.end_write(frame),
                false => {
                    engine.table.fail_write(frame);
                }
            }
            if let Some(region) = engine.spaces().of(key.file()) {
                if is_written {
                    region.pages.note_same(key.index().0);
                }
                engine.spaces().settle(&region, key.index().0, At::Cached);
            }
        }
        self.pages.ended = frames;
    }
}

impl Frames<'_> {
    /// Returns the page's region, if it is of one.
    fn region_of(&self, frame: FrameNo) -> Option<(Arc<SpaceInner>, u64)> {
        let spaces = self.engine.spaces.as_ref()?;
        let key = self.table.key(frame);
        Some((spaces.of(key.file())?, key.index().0))
    }

    /// Returns whether uses of the page are not seen, because it is in its region or in a mapping of its file.
    pub(super) fn hides_uses(&self, frame: FrameNo) -> bool {
        let (Some(spaces), key) = (&self.engine.spaces, self.table.key(frame)) else {
            return false;
        };
        let page = key.index().0;
        let is_in_region = |pages: &Pages| page < pages.len() && pages.at(page) == At::Mapped;
        self.engine.table.word(frame).is_mapped()
            || spaces.pages_of(key.file(), is_in_region).unwrap_or(false)
    }

    /// Notes that the core has asked for a page's uses, for
    /// [`CallBack::sample_marked`](super::CallBack::sample_marked).
    pub(super) fn note_sampled(&mut self, frame: FrameNo) {
        if self.hides_uses(frame) {
            self.pages.sampled.push(self.table.key(frame));
        }
    }

    /// As the table's `evict`, for caches with regions or mappings. Leaves pages that were used since the core asked, or that
    /// another thread has in hand.
    pub(super) fn evict_resident(&mut self, frames: &mut Vec<FrameNo>) {
        let engine = self.engine;
        let mut held = std::mem::take(&mut self.pages.held);
        frames.retain(|&frame| self.hold_victim(frame, &mut held));
        Unmap::of(engine).unmap(&mut held);
        held.retain(|page| {
            let goes = page.fate != Fate::Out || page.is_of_file() || self.is_as_written(page);
            if !goes {
                self.pages.changed.push(page.frame);
                page.let_go(engine);
            }
            goes
        });
        // Pages that are only in their mappings get no memory in their frames: they would lose it at once.
        Unmap::of(engine).vacate(&mut self.table, &held);
        let is = |fate, frame: &FrameNo| held.iter().any(|page| (page.fate, page.frame) == (fate, *frame));
        let changed = &self.pages.changed;
        frames.retain(|frame| !is(Fate::Stuck, frame) && !changed.contains(frame));
        match held.iter().any(|page| page.fate == Fate::Alone) {
            false => self.table.evict(frames),
            true => {
                let asked = &mut self.pages.asked;
                asked.clone_from(frames);
                frames.retain(|frame| !is(Fate::Alone, frame));
                self.table.evict(frames);
                asked.retain(|frame| is(Fate::Alone, frame) || frames.contains(frame));
                std::mem::swap(asked, frames);
            }
        }
        for page in held.drain(..) {
            let is_evicted = page.is_of_file() || frames.contains(&page.frame);
            match page.fate {
                Fate::Out | Fate::Alone if is_evicted => page.settle(engine, At::Absent),
                _ => page.let_go(engine),
            }
            engine.spaces().free_table(page.inner(), Tables::of(page.page));
        }
        self.pages.held = held;
    }

    /// Takes a page in hand that is to be evicted, if it is of a region or in a mapping. `false`: it can't be evicted now.
    fn hold_victim(&self, frame: FrameNo, held: &mut Vec<HeldPage>) -> bool {
        let engine = self.engine;
        if let Some((region, page)) = self.region_of(frame) {
            let page = self.hold_in_region(region, page, frame);
            let is_held = page.is_some();
            held.extend(page);
            return is_held;
        }
        let word = engine.table.word(frame);
        if word.is_mapped() && !word.is_dirty() && !engine.table.was_used(frame) {
            held.extend(Unmap::of(engine).hold_found(self.table.key(frame), frame));
        }
        // The table refuses one that is still mapped.
        true
    }

    /// Takes a page of a region in hand, wherever it is, unless it was used since the core asked or another thread has it.
    fn hold_in_region(&self, region: Arc<SpaceInner>, page: u64, frame: FrameNo) -> Option<HeldPage> {
        if self.engine.table.was_used(frame) {
            return None;
        }
        let fate = match region.pages.take(page, &[At::Mapped, At::Cached])? {
            At::Mapped => Fate::Mapped,
            _ => Fate::Out,
        };
        Some(HeldPage::new(Space::Region(region), page, frame, fate))
    }

    /// Returns whether the page of a region, which we hold, equals its slot. If not, marks it dirty.
    fn is_as_written(&self, held: &HeldPage) -> bool {
        let (pages, page) = (&held.inner().pages, held.page);
        let exchange = &self.engine.spaces().exchange;
        let is_equal = || xxh3_64(exchange.bytes(&held.in_hand())) == pages.sum(page);
        if pages.is_same(page) {
            debug_assert!(is_equal(), "page {page} was written and nobody knows");
            return true;
        }
        if !is_equal() {
            self.engine.table.make_dirty(held.frame);
            return false;
        }
        true
    }

    /// As `begin_write`, for a page of a region; `None` if it is of none.
    pub(super) fn begin_swap_out(&mut self, frame: FrameNo) -> Option<BeginWrite> {
        let engine = self.engine;
        let (region, page) = self.region_of(frame)?;
        let Some(mut held) = self.hold_in_region(region, page, frame) else {
            return Some(BeginWrite::Busy);
        };
        Unmap::of(engine).unmap(std::slice::from_mut(&mut held));
        if held.fate != Fate::Out {
            held.let_go(engine);
            return Some(BeginWrite::Busy);
        }
        if held.inner().pages.is_lazy(page) {
            let mut frames = vec![frame];
            self.table.forget(&mut frames);
            if !frames.is_empty() {
                held.settle(engine, At::Absent);
                return Some(BeginWrite::Useless);
            }
        }
        let begun = self.table.begin_write(frame);
        match begun {
            BeginWrite::Begun => held.settle(engine, At::Writing),
            _ => held.let_go(engine),
        }
        Some(begun)
    }

    /// Takes a page that is to be written out of its mapping, if it is open there, together with open pages behind it.
    /// `false`: it can't leave now.
    pub(super) fn shut_to_write(&mut self, frame: FrameNo) -> bool {
        let engine = self.engine;
        let is_open = |frame: &FrameNo| engine.table.word(*frame).is_open();
        if !is_open(&frame) {
            return true;
        }
        let first = self.table.key(frame);
        let mut held = std::mem::take(&mut self.pages.held);
        held.extend((0..TOGETHER).map_while(|n| {
            let key = PageKey::new(first.file(), first.index().after(n));
            let next = self.table.lookup(key).filter(is_open)?;
            Unmap::of(engine).hold_found(key, next)
        }));
        Unmap::of(engine).unmap(&mut held);
        for page in held.drain(..) {
            if page.fate == Fate::Alone {
                // The program has had the kernel drop it. It is called back after this step.
                self.pages.sampled.push(page.key());
            }
            page.let_go(engine);
        }
        self.pages.held = held;
        !is_open(&frame)
    }
}
