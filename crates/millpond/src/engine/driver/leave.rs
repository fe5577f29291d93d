//! Pages of regions that leave: sampled, compared, written, given up.
//!
//! ```text
//!   the core asks for uses     Mapped ─► Cached, behind the step, neighbours together
//!   the core evicts            moved out if it is Mapped; equal to its slot, known or by its checksum? it goes : Event::Changed
//!   the core swaps out         moved out, Writing; its checksum taken; written; Cached
//!   the user gives it up       dropped wherever it is, its frame given memory
//! ```
//!
//! A checksum of 64 bits decides that a page need not be written, so a changed page is lost with a probability of 2^-64 each
//! time one is evicted: once in twelve million years at 50,000 a second. 32 bits would be once in a day.

use super::double_resident::{copy_of, leave_double};
use super::mempool::Marked;
use super::transfers::{Kind, Transfer};
use super::writes::Frames;
use super::{CoreGuard, Engine};
use crate::error::Result;
use crate::memory::{At, RegionInner, Tables};
use crate::sys::arena::exchange::{InHand, Stuck};
use millpond_core::event::Event;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::io::{IoId, Reason};
use millpond_core::swap::SlotNo;
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Pages that a discard takes at a time, before it lets others have the core lock.
const FORGET_BATCH: u64 = 1024;

/// Pages that are moved out with one system call at most.
pub(super) const RUN_MAX: usize = 64;

/// A page of a region that is to leave.
pub(super) struct Leaving {
    pub(super) region: Arc<RegionInner>,
    pub(super) page: u64,
    pub(super) frame: FrameNo,
}

/// Room for pages that leave in one step, kept from one to the next: cleaning memory asks for none.
#[derive(Default)]
pub(super) struct Lists {
    leaving: Vec<Leaving>,
    /// Of those, pages in our hands that are in their regions.
    within: Vec<Leaving>,
    /// Of those, pages that are nowhere else.
    alone: Vec<Leaving>,
    /// And such as are out.
    held: Vec<Leaving>,
    offered: Vec<FrameNo>,
    stuck: Vec<FrameNo>,
    /// Frames of a write that has ended.
    written: Vec<FrameNo>,
}

/// The pages of a run, `RUN_MAX` at most, the last of them again and again behind it.
pub(super) fn in_hands<'a, T>(run: &'a [T], in_hand: impl Fn(&'a T) -> InHand<'a>) -> [InHand<'a>; RUN_MAX] {
    std::array::from_fn(|n| in_hand(&run[n.min(run.len() - 1)]))
}

/// Pages of one region in runs of such as follow one another, `RUN_MAX` at most.
fn in_runs(pages: &[(u64, FrameNo)]) -> impl Iterator<Item = &[(u64, FrameNo)]> {
    let runs = pages.chunk_by(|a, b| b.0 == a.0 + 1);
    runs.flat_map(|run| run.chunks(RUN_MAX))
}

/// The pages of such a run, as [`in_hands`].
fn of_region<'a>(region: &'a RegionInner, run: &'a [(u64, FrameNo)]) -> [InHand<'a>; RUN_MAX] {
    let memory = &region.memory;
    in_hands(run, |&(page, frame)| InHand { memory, page, frame })
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
        let table = engine.table.locked(&mut self.held.token);
        let keys = frames.iter().map(|&frame| (table.key(frame), frame));
        self.outbox.marked().written.extend(keys);
        let token = (u64::from(io.0), Reason::Swap);
        let request = engine.write_request(token, &file, first, frames);
        self.outbox.submit(file.clone(), request);
        let kind = Kind::SwapOut;
        self.transfers.insert(io, Transfer { file, first, kind });
    }

    /// Pages were written to swap, or could not be: they can be moved again.
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
                engine.settle(&region, key.index().0, At::Cached);
            }
        }
        self.pages.leaving.written = frames;
    }
}

impl Engine {
    /// Takes pages that were met by a scan out of their regions, so that their next use is seen, as soon as there is a batch.
    pub(super) fn sample(&self, marked: &mut Marked) {
        let Marked { sampled, held, .. } = marked;
        if sampled.is_empty() {
            return;
        }
        self.regions().doubles.enqueue_sampled(sampled);
        sampled.sort_unstable_by_key(|key| key.to_bits());
        for keys in sampled.chunk_by(|a, b| a.file() == b.file()) {
            if self.sample_mapped(keys) {
                continue;
            }
            let Some(region) = self.regions().of(keys[0].file()) else {
                continue;
            };
            // They may be of a region of this number that was there before.
            let pages = keys.iter().map(|key| key.index().0);
            let pages = pages.filter(|&page| page < region.pages.len());
            let taken = pages.filter(|&page| region.pages.take(page, &[At::Mapped]).is_some());
            held.clear();
            held.extend(taken.map(|page| (page, self.frame_of(&region, page))));
            for run in in_runs(held) {
                let exchange = &self.regions().exchange;
                exchange.put_together(&of_region(&region, run)[..run.len()]);
            }
            self.make_doubles(&region, held);
            self.drop_one_copy(&region, held);
            for run in in_runs(held) {
                self.move_out(&region, &of_region(&region, run)[..run.len()]);
            }
        }
        sampled.clear();
    }

    fn move_out(&self, region: &RegionInner, run: &[InHand<'_>]) {
        let mut left = run;
        while !left.is_empty() {
            let (done, stuck) = self.regions().exchange.move_out(left);
            left[..done]
                .iter()
                .for_each(|page| self.settle(region, page.page, At::Cached));
            left = &left[done..];
            if let (Some(Stuck::Pinned), Some(page)) = (stuck, left.first()) {
                self.settle(region, page.page, At::Mapped);
                left = &left[1..];
            }
        }
    }

    /// A page that we hold becomes `to`, and is held no more. A thread that has touched it meanwhile tries again.
    pub(super) fn settle(&self, region: &RegionInner, page: u64, to: At) {
        if matches!(to, At::Mapped | At::Poisoned) {
            region.tables.note(page, &self.regions().tables);
        }
        if region.pages.put(page, to) {
            self.regions().exchange.wake(&region.memory, page);
            region.settled.notify_all();
        }
    }

    /// Takes the checksums of pages that are about to be written.
    pub(super) fn sum_up(&self, written: &mut Vec<(PageKey, FrameNo)>) {
        for (key, frame) in written.drain(..) {
            if let Some(region) = self.regions().of(key.file()) {
                let (memory, page) = (&*region.memory, key.index().0);
                let in_hand = InHand { memory, page, frame };
                let sum = xxh3_64(self.regions().exchange.bytes(&in_hand));
                region.pages.set_sum(page, sum);
            }
        }
    }

    /// No thread will use the region any more: no page comes from now on.
    pub(crate) fn close_region(&self, region: &RegionInner) {
        let _core = self.core();
        region.closed.store(true, Ordering::Relaxed);
    }

    /// Pages of the region are no more: they read as zeros from now on. Waits for those that a device writes.
    pub(crate) fn region_forget(&self, region: &RegionInner, pages: Range<u64>) -> Result<()> {
        let mut at = pages.start;
        while at < pages.end {
            self.call_flags.check()?;
            let seen = self.memory_events.count();
            let done = self.forget_some(region, at..pages.end.min(at + FORGET_BATCH));
            if done == at {
                // A write or a read that ends wakes this as well.
                self.memory_events.wait(seen, Duration::from_millis(1));
            }
            at = done;
        }
        Ok(())
    }

    /// The content of these pages is of no use unless they are touched. Those only in their slots are no more; those in
    /// memory go without a write when it is needed. Those that another thread has in hand stay as they are.
    pub(crate) fn region_free(&self, region: &RegionInner, pages: Range<u64>) -> Result<()> {
        for at in pages.clone().step_by(RUN_MAX) {
            self.call_flags.check()?;
            self.free_some(region, at..pages.end.min(at + RUN_MAX as u64));
        }
        Ok(())
    }

    fn free_some(&self, region: &RegionInner, pages: Range<u64>) {
        // Only a thread that has the core lock can take a page that is nowhere.
        let (mut core, mut held) = (self.core(), Vec::new());
        for page in pages {
            match region.pages.take(page, &[At::Mapped, At::Cached, At::Absent]) {
                Some(At::Absent) => {
                    let (file, pages) = (region.id, page..page + 1);
                    core.step(Event::Forgotten { file, pages });
                    self.settle(region, page, At::Absent);
                }
                Some(was) => {
                    region.pages.note_lazy(page);
                    let key = PageKey::new(region.id, PageIndex(page));
                    let frame = self.table.locked(&mut core.token).lookup(key);
                    let frame = frame.unwrap_or_else(|| panic!("{key:?} was {was:?} and has no frame"));
                    let memory = &*region.memory;
                    match was {
                        // So that a touch is seen.
                        At::Mapped => {
                            held.clear();
                            held.push((page, frame));
                            self.drop_one_copy(region, &mut held);
                            if !held.is_empty() {
                                self.move_out(region, &[InHand { memory, page, frame }]);
                            }
                        }
                        _ => self.settle(region, page, At::Cached),
                    }
                }
                None => {}
            }
        }
    }

    /// Forgets pages, up to one that another thread has in hand. Returns the end of the forgotten ones.
    fn forget_some(&self, region: &RegionInner, pages: Range<u64>) -> u64 {
        let mut core = self.core();
        let (mut held, mut unfilled) = (Vec::new(), Vec::new());
        let mut end = pages.start;
        while end < pages.end {
            let states = [At::Mapped, At::Cached, At::Poisoned, At::Absent];
            let Some(was) = region.pages.take(end, &states) else {
                break;
            };
            if matches!(was, At::Mapped | At::Cached) {
                let key = PageKey::new(region.id, PageIndex(end));
                let frame = self.table.locked(&mut core.token).lookup(key);
                let frame = frame.unwrap_or_else(|| panic!("{key:?} was {was:?} and has no frame"));
                held.push((PageIndex(end), frame));
                unfilled.extend((was == At::Mapped).then_some(frame));
            }
            end += 1;
        }
        let mut frames: Vec<_> = held.iter().map(|&(_, frame)| frame).collect();
        self.table.locked(&mut core.token).forget(&mut frames);
        assert_eq!(frames.len(), held.len(), "pages of a region in other hands");
        let done = pages.start..end;
        self.regions()
            .exchange
            .discard(&region.memory, done.clone(), &unfilled);
        region.tables.gone_with(&done, &self.regions().tables);
        let file = region.id;
        if !held.is_empty() {
            core.step(Event::Discarded { file, pages: &held });
        }
        if !done.is_empty() {
            let pages = done.clone();
            core.step(Event::Forgotten { file, pages });
        }
        done.for_each(|page| self.settle(region, page, At::Absent));
        end
    }
}

impl Frames<'_> {
    /// The region that this page is of, if it is of one.
    fn region_of(&self, frame: FrameNo) -> Option<(Arc<RegionInner>, u64)> {
        let regions = self.engine.regions.as_ref()?;
        let key = self.table.key(frame);
        Some((regions.of(key.file())?, key.index().0))
    }

    /// Whether this is a page of a region, and in it: its uses are not seen there.
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

    /// The core has asked for a page's uses: notes it for [`Engine::sample`].
    pub(super) fn note_sampled(&mut self, frame: FrameNo) {
        if self.hides_uses(frame) {
            self.pages.sampled.push(self.table.key(frame));
        }
    }

    /// As `evict`, where there are regions.
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
            self.engine.settle(&page.region, page.page, to);
            self.engine.free_table(&page.region, Tables::of(page.page));
        }
        offered.clear();
        self.pages.leaving = lists;
    }

    fn leaving(&self, frame: FrameNo) -> Option<Leaving> {
        let (region, page) = self.region_of(frame)?;
        Some(Leaving { region, page, frame })
    }

    /// Takes pages in hand and out of their regions, neighbours together, except those that were used since the core
    /// asked or that another thread has in hand.
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
                true => self.engine.settle(&page.region, page.page, At::Mapped),
                false => held.push(page),
            }
        }
        stuck.clear();
    }

    /// Whether the page, which we hold, is what its slot holds. If not, it is dirty from now on, and held no more.
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
        self.engine.settle(&page.region, page.page, At::Cached);
        false
    }

    /// Takes a page in hand and out of its region, unless it was used since the core asked or another thread has it.
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
                    self.engine.settle(region, page, At::Mapped);
                }
                stuck.is_none()
            }
            was => was.is_some(),
        }
    }

    /// As `begin_write`, of a page of a region; `None` if it is not of one.
    pub(super) fn begin_swap_out(&mut self, frame: FrameNo) -> Option<BeginWrite> {
        let (region, page) = self.region_of(frame)?;
        if !self.hold_out(&region, page, frame) {
            return Some(BeginWrite::Busy);
        }
        if region.pages.is_lazy(page) {
            let mut frames = vec![frame];
            self.table.forget(&mut frames);
            if !frames.is_empty() {
                self.engine.settle(&region, page, At::Absent);
                return Some(BeginWrite::Useless);
            }
        }
        let begun = self.table.begin_write(frame);
        let to = match begun {
            BeginWrite::Begun => At::Writing,
            _ => At::Cached,
        };
        self.engine.settle(&region, page, to);
        Some(begun)
    }
}
