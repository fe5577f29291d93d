//! Pages leave regions, under the core lock: they are compared with their slots, and written if they differ.
//!
//! ```text
//!   the core asks for uses     Mapped ─► Cached, behind the step, neighbours together (`sample.rs`)
//!   the core evicts            moved out if it is Mapped; equal to its slot, known or by its checksum? it goes : Event::Changed
//!   the core swaps out         moved out, Writing; its checksum taken; written; Cached
//!   the user gives it up       dropped wherever it is, its frame given memory (`forget.rs`)
//! ```
//!
//! A 64-bit checksum decides that a page need not be written. So each eviction of a changed page loses it with a probability
//! of 2^-64: once in twelve million years at 50,000 a second. With 32 bits it would be once a day.

use super::double_resident::{copy_of, leave_double};
use super::transfers::{FileIo, Kind, Transfer};
use super::writes::Frames;
use super::{Core, CoreGuard};
use crate::memory::{At, RegionInner, Tables};
use crate::sys::arena::exchange::InHand;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::io::{IoId, Reason};
use millpond_core::swap::SlotNo;
use millpond_core::units::FrameNo;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The most pages that one system call moves out.
pub(super) const RUN_MAX: usize = 64;

/// A page that is to leave its region.
pub(super) struct Leaving {
    pub(super) region: Arc<RegionInner>,
    pub(super) page: u64,
    pub(super) frame: FrameNo,
}

/// Lists for the pages that leave in one step, reused by the next one: cleaning memory must not allocate.
#[derive(Default)]
pub(super) struct Lists {
    leaving: Vec<Leaving>,
    /// Of those, pages that we hold and that are in their regions.
    within: Vec<Leaving>,
    /// Of those, pages with no other copy.
    alone: Vec<Leaving>,
    /// Pages that are out.
    held: Vec<Leaving>,
    offered: Vec<FrameNo>,
    stuck: Vec<FrameNo>,
    /// The frames of a write that has ended.
    written: Vec<FrameNo>,
}

/// Returns the pages of a run, `RUN_MAX` at most. The last one is repeated to fill the array.
pub(super) fn in_hands<'a, T>(run: &'a [T], in_hand: impl Fn(&'a T) -> InHand<'a>) -> [InHand<'a>; RUN_MAX] {
    std::array::from_fn(|n| in_hand(&run[n.min(run.len() - 1)]))
}

impl Leaving {
    pub(super) fn in_hand(&self) -> InHand<'_> {
        InHand {
            memory: &self.region.memory,
            page: self.page,
            frame: self.frame,
        }
    }
}

impl CoreGuard<'_> {
    /// Writes pages to the swap file.
    pub(super) fn write_swap(&mut self, io: IoId, first: SlotNo, frames: &[FrameNo]) {
        let engine = self.engine;
        let (file, first) = engine.regions().place(first);
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
        let mut frames = std::mem::take(&mut self.pages.leaving.written);
        frames.extend_from_slice(self.manager.frames_of(io));
        for frame in frames.drain(..) {
            let key = engine.table.locked(&mut self.token).key(frame);
            match is_written {
                true => engine.table.end_write(frame),
                false => {
                    engine.table.fail_write(frame);
                }
            }
            if let Some(region) = engine.regions().of(key.file()) {
                if is_written {
                    region.pages.note_same(key.index().0);
                }
                engine.regions().settle(&region, key.index().0, At::Cached);
            }
        }
        self.pages.leaving.written = frames;
    }
}

impl Frames<'_> {
    /// Returns the page's region, if it is of one.
    fn region_of(&self, frame: FrameNo) -> Option<(Arc<RegionInner>, u64)> {
        let regions = self.engine.regions.as_ref()?;
        let key = self.table.key(frame);
        Some((regions.of(key.file())?, key.index().0))
    }

    /// Returns whether the page is in a region, where its uses are not seen.
    pub(super) fn is_in_region(&self, frame: FrameNo) -> bool {
        let (Some(regions), key) = (&self.engine.regions, self.table.key(frame)) else {
            return false;
        };
        let page = key.index().0;
        regions
            .pages_of(key.file(), |pages| {
                page < pages.len() && pages.at(page) == At::Mapped
            })
            .unwrap_or(false)
    }

    /// Returns whether uses of the page are not seen, because it is in its region or in a mapping of its file.
    pub(super) fn hides_uses(&self, frame: FrameNo) -> bool {
        self.engine.table.word(frame).is_mapped() || self.is_in_region(frame)
    }

    /// Notes that the core has asked for a page's uses, for
    /// [`Sampling::sample_marked`](super::sample::Sampling::sample_marked).
    pub(super) fn note_sampled(&mut self, frame: FrameNo) {
        if self.hides_uses(frame) {
            self.pages.sampled.push(self.table.key(frame));
        }
    }

    /// As `evict`, for caches with regions.
    pub(super) fn evict_with_regions(&mut self, frames: &mut Vec<FrameNo>) {
        let mut lists = std::mem::take(&mut self.pages.leaving);
        lists
            .leaving
            .extend(frames.iter().filter_map(|&frame| self.leaving(frame)));
        lists.offered.extend(lists.leaving.iter().map(|page| page.frame));
        self.hold_all_out(&mut lists);
        let Lists { held, offered, .. } = &mut lists;
        held.retain(|page| {
            let is_clean = self.is_as_written(page);
            if !is_clean {
                self.pages.changed.push(page.frame);
            }
            is_clean
        });
        let goes = |frame: &FrameNo| held.iter().any(|page| page.frame == *frame);
        frames.retain(|frame| goes(frame) || !offered.contains(frame));
        self.evict_mapped(frames);
        for page in held.drain(..) {
            let to = match frames.contains(&page.frame) {
                true => At::Absent,
                false => At::Cached,
            };
            self.engine.regions().settle(&page.region, page.page, to);
            self.engine
                .regions()
                .free_table(&page.region, Tables::of(page.page));
        }
        offered.clear();
        self.pages.leaving = lists;
    }

    fn leaving(&self, frame: FrameNo) -> Option<Leaving> {
        let (region, page) = self.region_of(frame)?;
        Some(Leaving { region, page, frame })
    }

    /// Takes pages in hand and moves them out of their regions, neighbours together. Leaves those that were used since the
    /// core asked, or that another thread has in hand.
    fn hold_all_out(&self, lists: &mut Lists) {
        let Lists {
            leaving,
            within,
            alone,
            held,
            stuck,
            ..
        } = lists;
        leaving.sort_unstable_by_key(|page| (page.region.id.0, page.page));
        for page in leaving.drain(..) {
            if self.engine.table.was_used(page.frame) {
                continue;
            }
            match page.region.pages.take(page.page, &[At::Mapped, At::Cached]) {
                Some(At::Mapped) => within.push(page),
                Some(_) => held.push(page),
                None => {}
            }
        }
        let exchange = &self.engine.regions().exchange;
        let copies = within
            .iter()
            .filter_map(|page| copy_of(&page.region.pages, page.in_hand()));
        exchange.drop_copies(copies);
        for page in within.drain(..) {
            match leave_double(&page.region.pages, page.page) {
                true => held.push(page),
                false => alone.push(page),
            }
        }
        let follows = |a: &Leaving, b: &Leaving| a.region.id == b.region.id && b.page == a.page + 1;
        let runs = alone.chunk_by(follows).flat_map(|run| run.chunks(RUN_MAX));
        for run in runs {
            let run = &in_hands(run, Leaving::in_hand)[..run.len()];
            let mut left = run;
            while !left.is_empty() {
                let (done, why) = self.engine.regions().exchange.move_out(left);
                let at = usize::from(why.is_some()).min(left.len() - done);
                stuck.extend(left[done..done + at].iter().map(|page| page.frame));
                left = &left[done + at..];
            }
        }
        for page in alone.drain(..) {
            match stuck.contains(&page.frame) {
                true => self.engine.regions().settle(&page.region, page.page, At::Mapped),
                false => held.push(page),
            }
        }
        stuck.clear();
    }

    /// Returns whether the page, which we hold, equals its slot. If not, marks it dirty and releases it.
    fn is_as_written(&self, page: &Leaving) -> bool {
        let pages = &page.region.pages;
        let is_equal =
            || xxh3_64(self.engine.regions().exchange.bytes(&page.in_hand())) == pages.sum(page.page);
        if pages.is_same(page.page) {
            debug_assert!(is_equal(), "page {} was written and nobody knows", page.page);
            return true;
        }
        if is_equal() {
            return true;
        }
        self.engine.table.make_dirty(page.frame);
        self.engine.regions().settle(&page.region, page.page, At::Cached);
        false
    }

    /// Takes a page in hand and moves it out of its region, unless it was used since the core asked or another thread has it.
    fn hold_out(&self, region: &RegionInner, page: u64, frame: FrameNo) -> bool {
        if self.engine.table.was_used(frame) {
            return false;
        }
        let memory = &*region.memory;
        match region.pages.take(page, &[At::Mapped, At::Cached]) {
            Some(At::Mapped) => {
                let run = [InHand { memory, page, frame }];
                let exchange = &self.engine.regions().exchange;
                exchange.drop_copies(copy_of(&region.pages, run[0]).into_iter());
                if leave_double(&region.pages, page) {
                    return true;
                }
                let (_, stuck) = exchange.move_out(&run);
                if stuck.is_some() {
                    self.engine.regions().settle(region, page, At::Mapped);
                }
                stuck.is_none()
            }
            was => was.is_some(),
        }
    }

    /// As `begin_write`, for a page of a region; `None` if it is of none.
    pub(super) fn begin_swap_out(&mut self, frame: FrameNo) -> Option<BeginWrite> {
        let (region, page) = self.region_of(frame)?;
        if !self.hold_out(&region, page, frame) {
            return Some(BeginWrite::Busy);
        }
        if region.pages.is_lazy(page) {
            let mut frames = vec![frame];
            self.table.forget(&mut frames);
            if !frames.is_empty() {
                self.engine.regions().settle(&region, page, At::Absent);
                return Some(BeginWrite::Useless);
            }
        }
        let begun = self.table.begin_write(frame);
        let to = match begun {
            BeginWrite::Begun => At::Writing,
            _ => At::Cached,
        };
        self.engine.regions().settle(&region, page, to);
        Some(begun)
    }
}
