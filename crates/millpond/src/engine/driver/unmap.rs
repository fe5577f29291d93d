//! Pages of mapped files that leave their mapping: parted, sampled, evicted, called back.
//!
//! ```text
//!   twin ─► the mapping's copy is dropped, with others in one call ─► out
//!   in   ─► called back: copied to the frame ─► twin ─► …
//!                └─ no memory for that, or it is to leave memory ─► gone, the device has it
//!   open ─► moved to the frame ─► out                          (`open.rs`)
//! ```
//!
//! All are held one by one: their states in the mapping are theirs alone who took them, and a thread that touches one
//! meanwhile waits.

use super::Engine;
use super::writes::Frames;
use crate::device::Awaited;
use crate::files::FileInner;
use crate::frames::table::LockedTable;
use crate::frames::wait::SLOW_AFTER;
use crate::memory::mapped::MappedFile;
use crate::memory::{At, RegionInner, Residence, Tables};
use crate::sys::arena::Arena;
use crate::sys::arena::exchange::{Copy, InHand};
use crate::sys::clock::Patience;
use millpond_core::event::Event;
use millpond_core::frame::FrameTable;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// Pages that are called back at a time: as many as are dropped with one system call.
const BATCH: u64 = 32;

/// How often a page is called back into which a device writes, before it is taken as it is.
const TRIES: u32 = 1000;

/// How often it is called back at once by a thread that waits for it: most transfers are over then.
const AT_ONCE: u32 = 20;

/// How long such a thread sleeps at least, and at most, before it looks again: the end of a transfer is not told. A missed one
/// costs no more than a part of the time waited so far.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A page of a mapping that a thread has in hand, and that the mapping has.
pub(super) struct Held {
    pub(super) mapped: Arc<MappedFile>,
    pub(super) page: u64,
    pub(super) frame: FrameNo,
}

impl Held {
    pub(super) fn in_hand(&self) -> InHand<'_> {
        InHand {
            memory: &self.mapped.space.memory,
            page: self.page,
            frame: self.frame,
        }
    }

    fn space(&self) -> &RegionInner {
        &self.mapped.space
    }

    pub(super) fn is_double(&self) -> bool {
        self.space().pages.residence(self.page).is_double
    }

    /// Whether threads may write it in the mapping.
    pub(super) fn is_open(&self) -> bool {
        !self.space().pages.residence(self.page).is_protected
    }

    fn note(&self, is_double: bool) {
        let is_protected = true;
        self.space().pages.note_residence(
            self.page,
            Residence {
                is_double,
                is_protected,
            },
        );
    }
}

impl Engine {
    fn hold_mapped(&self, mapped: &Arc<MappedFile>, page: u64) -> Option<Held> {
        mapped.space.pages.take(page, &[At::Mapped])?;
        Some(Held {
            mapped: mapped.clone(),
            page,
            frame: self.frame_of(&mapped.space, page),
        })
    }

    /// The frame has the page as well, from now on. `false`: there is no memory for it, or the program has had the kernel
    /// drop the mapping's. It takes memory, so it is not called under the core lock.
    fn make_twin(&self, held: &Held) -> bool {
        if held.is_double() {
            return true;
        }
        let is_twin = self.regions().exchange.copy_out(&held.in_hand());
        if is_twin {
            held.note(true);
            self.table.map_shared(held.frame);
        }
        is_twin
    }

    /// Twins leave their mappings.
    fn unmap_twins(&self, twins: &[Held]) {
        if twins.is_empty() {
            return;
        }
        let copies = twins.iter().map(|page| Copy::InRegion(page.in_hand()));
        if !mutation::is(Mutation::MappedCopyIsKept) {
            self.regions().exchange.drop_copies(copies);
        }
        twins.iter().for_each(|page| self.table.unmap(page.frame));
    }

    /// Pages that are in their mappings only, and clean or gone there, leave memory.
    fn vacate_held(&self, table: &mut LockedTable<'_, Arena>, held: &[Held]) {
        held.iter().for_each(|page| table.vacate(page.frame));
        let exchange = &self.regions().exchange;
        exchange.discard_each(held.iter().map(Held::in_hand));
    }

    pub(super) fn settle_held(&self, held: &[Held], to: At) {
        held.iter()
            .for_each(|page| self.settle(page.space(), page.page, to));
    }

    /// The only copy of the page, which we hold, is given up: it is read again when it is wanted. `false`: not now, for a
    /// device reads what is in its frame. The caller must not have the core lock.
    pub(super) fn lose_copy(&self, mapped: &MappedFile, page: u64, frame: FrameNo) -> bool {
        let mut core = self.core();
        if self.table.word(frame).is_writeback() {
            return false;
        }
        self.table.locked(&mut core.token).vacate(frame);
        mapped.file.writeback_rules.forget(PageIndex(page));
        let space = &mapped.space;
        self.regions()
            .exchange
            .discard(&space.memory, page..page + 1, &[frame]);
        let (file, pages) = (mapped.file.id, &[(PageIndex(page), frame)][..]);
        core.step(Event::Discarded { file, pages });
        true
    }

    /// As [`Engine::call_back`] of one page, for a thread that waits for it: also until a device that reads what was in its
    /// frame, or writes into the mapping, has done so.
    pub(crate) fn call_one_back(&self, file: &FileInner, page: u64, to_change: bool) {
        let Some(mapped) = self.mapped_of(file) else {
            return;
        };
        let key = PageKey::new(file.id, PageIndex(page));
        let (mut patience, mut slept, mut known) = (Patience::new(), Duration::ZERO, None);
        for n in 0_u32.. {
            let is_stuck = self.call_mapped_back(&mapped, page..page + 1, to_change);
            let frame = self.table.frame_of(key);
            let Some(frame) = frame.filter(|&frame| self.table.word(frame).is_open()) else {
                return;
            };
            self.table.wait_written(frame, key);
            if !is_stuck || self.call_flags.check().is_err() {
                return;
            }
            if n < AT_ONCE {
                continue;
            }
            patience.slept(slept);
            let waited = patience.waited();
            if waited >= SLOW_AFTER {
                let awaited = Awaited::Transfer { page };
                known.get_or_insert_with(|| self.device.waits(&file.path, awaited, waited));
            }
            slept = (waited / 4).clamp(PAUSE_MIN, PAUSE_MAX);
            sleep(slept);
        }
    }

    /// The file's frames have these pages, for a thread that reads them, or to change them: then the mapping has them no
    /// more. Those that other threads have in hand are left as they are. The caller must not have the core lock.
    pub(crate) fn call_back(&self, file: &FileInner, pages: Range<u64>, to_change: bool) {
        if let Some(mapped) = self.mapped_of(file) {
            self.call_mapped_back(&mapped, pages, to_change);
        }
    }

    /// Whether a device writes into one of them, so that it can't be called back.
    pub(super) fn call_mapped_back(
        &self,
        mapped: &Arc<MappedFile>,
        pages: Range<u64>,
        to_change: bool,
    ) -> bool {
        let pages = pages.start..pages.end.min(mapped.space.pages.len());
        let (mut held, mut is_stuck) = (Vec::new(), false);
        for at in pages.clone().step_by(BATCH as usize) {
            let batch = at..pages.end.min(at + BATCH);
            held.extend(batch.clone().filter_map(|page| self.hold_mapped(mapped, page)));
            is_stuck |= self.let_go(&mut held, to_change);
            if batch
                .into_iter()
                .any(|page| mapped.space.pages.at(page) == At::Busy)
            {
                yield_now();
            }
        }
        is_stuck
    }

    /// Whether some stay, because devices write into them.
    fn let_go(&self, held: &mut Vec<Held>, to_change: bool) -> bool {
        let (open, rest): (Vec<_>, Vec<_>) = held.drain(..).partition(Held::is_open);
        let shut = self.shut(open);
        self.settle_held(&shut.out, At::Absent);
        self.settle_held(&shut.stuck, At::Mapped);
        let (twins, alone): (Vec<_>, Vec<_>) = rest.into_iter().partition(|page| self.make_twin(page));
        match to_change {
            true => {
                self.unmap_twins(&twins);
                self.settle_held(&twins, At::Absent);
            }
            false => {
                self.settle_held(&twins, At::Mapped);
                for page in &twins {
                    self.enqueue_mapped(&page.mapped, page.page, true);
                }
            }
        }
        // Those that can't be twins are clean: the device has them.
        for page in alone.iter().chain(&shut.gone) {
            let is_lost = self.lose_copy(&page.mapped, page.page, page.frame);
            let to = if is_lost { At::Absent } else { At::Mapped };
            self.settle(page.space(), page.page, to);
        }
        if !shut.stuck.is_empty() {
            yield_now();
        }
        !shut.stuck.is_empty()
    }

    /// A page of a mapping is a twin, or was made one. The pages whose turn it is now give up one of their memories.
    pub(super) fn enqueue_mapped(&self, mapped: &MappedFile, page: u64, is_new: bool) {
        let key = PageKey::new(mapped.file.id, PageIndex(page));
        let due = self.regions().doubles.enqueue(key, is_new);
        self.part(due, is_new);
    }

    /// Twins of mapped files among these give up one memory: new ones the mapping's, where their uses are not seen, others the
    /// frame's. One whose frame is in use keeps both for as long as a new one: a thread that has pinned it may be about to
    /// touch it, and would fault again and again. Gives those that are not of mapped files.
    pub(super) fn part_mapped(&self, mut due: Vec<PageKey>, are_new: bool) -> Vec<PageKey> {
        let (mut go, mut stay, mut open, mut later) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        due.retain(|key| {
            let Some(mapped) = self.regions().mapped.of(key.file()) else {
                return true;
            };
            let page = key.index().0;
            if page < mapped.space.pages.len() {
                match self.hold_mapped(&mapped, page) {
                    Some(held) if !held.is_double() => self.settle_held(&[held], At::Mapped),
                    Some(held) if held.is_open() => open.push(held),
                    Some(held) if !are_new && self.table.map_alone(held.frame) => stay.push(held),
                    Some(held) if are_new => go.push(held),
                    Some(held) => later.push(held),
                    None if mapped.space.pages.at(page) == At::Absent => {}
                    None => self.regions().doubles.enqueue_again(*key),
                }
            }
            false
        });
        self.part_open(open);
        self.unmap_twins(&go);
        self.settle_held(&go, At::Absent);
        if !stay.is_empty() {
            let copies = stay.iter().map(|page| Copy::InFrame(page.in_hand()));
            self.regions().exchange.drop_copies(copies);
            stay.iter().for_each(|page| page.note(false));
            self.settle_held(&stay, At::Mapped);
        }
        self.settle_held(&later, At::Mapped);
        for page in later {
            self.enqueue_mapped(&page.mapped, page.page, true);
        }
        due
    }

    /// Open pages give up what their frames have, unless a device reads that.
    fn part_open(&self, open: Vec<Held>) {
        let is_written = |page: &Held| self.table.word(page.frame).is_writeback();
        let (later, open): (Vec<_>, Vec<_>) = open.into_iter().partition(is_written);
        self.drop_old(open.iter());
        self.settle_held(&open, At::Mapped);
        self.settle_held(&later, At::Mapped);
        for page in later {
            let key = PageKey::new(page.mapped.file.id, PageIndex(page.page));
            self.regions().doubles.enqueue_again(key);
        }
    }

    /// The next use of these pages of one file, in order, is to be seen. `false`: the file is not mapped.
    pub(super) fn sample_mapped(&self, keys: &[PageKey]) -> bool {
        let Some(mapped) = self.regions().mapped.of(keys[0].file()) else {
            return false;
        };
        for keys in keys.chunks(BATCH as usize) {
            let pages = keys.iter().map(|key| key.index().0);
            let pages = pages.filter(|&page| page < mapped.space.pages.len());
            let mut held: Vec<_> = pages.filter_map(|page| self.hold_mapped(&mapped, page)).collect();
            self.let_go(&mut held, true);
        }
        true
    }

    /// The mapping is at its end: no page comes from now on, and none is there afterwards.
    pub(crate) fn close_mapped(&self, mapped: &Arc<MappedFile>) {
        let pages = &mapped.space.pages;
        mapped.space.closed.store(true, Ordering::Relaxed);
        // Faults that began before.
        drop(mapped.serving.write());
        let (mut at, mut tries) = (0, 0);
        while at < pages.len() {
            match pages.at(at) {
                At::Mapped if tries < TRIES => {
                    self.call_mapped_back(mapped, at..at + BATCH, true);
                    tries = if pages.at(at) == At::Mapped { tries + 1 } else { 0 };
                }
                At::Mapped => {
                    tries = 0;
                    if let Some(held) = self.hold_mapped(mapped, at) {
                        let frame = held.frame;
                        // A device reads what was in its frame. No other write of it begins while it is held.
                        let is_written = self.table.word(frame).is_writeback();
                        let is_out = !is_written && held.is_open() && self.tear_out(&held);
                        self.settle_held(&[held], if is_out { At::Absent } else { At::Mapped });
                        if is_written {
                            self.table
                                .wait_written(frame, PageKey::new(mapped.file.id, PageIndex(at)));
                        } else if !is_out {
                            self.warn_no_memory(at);
                            sleep(PAUSE_MIN);
                        }
                    }
                }
                At::Poisoned => self.unmark(mapped, at),
                At::Busy => yield_now(),
                _ => at += 1,
            }
        }
        mapped.space.tables.all_gone(&self.regions().tables);
    }

    /// Pages of a file that are to leave memory leave its mapping, but for those that other threads have in hand. Gives the
    /// frames of those that are given up, `dirty_too`, while a device writes into them: they are out of the table. The caller has
    /// the core lock.
    pub(super) fn unmap_found(
        &self,
        table: &mut LockedTable<'_, Arena>,
        pages: &[(PageKey, FrameNo)],
        dirty_too: bool,
    ) -> Vec<FrameNo> {
        let mut held: Vec<_> = pages
            .iter()
            .filter_map(|&(key, frame)| self.hold_found(key, frame))
            .collect();
        let mut gone = Vec::new();
        if !held.is_empty() {
            let (open, rest): (Vec<_>, Vec<_>) = held.drain(..).partition(Held::is_open);
            let (twins, mut lost): (Vec<_>, Vec<_>) = rest.into_iter().partition(Held::is_double);
            self.unmap_twins(&twins);
            let shut = self.shut(open);
            lost.extend(shut.gone);
            let goes = |page: &Held| dirty_too && !self.table.word(page.frame).is_writeback();
            let (torn, stuck): (Vec<_>, Vec<_>) = shut.stuck.into_iter().partition(goes);
            lost.extend(torn);
            self.vacate_held(table, &lost);
            gone.extend(lost.iter().map(|page| page.frame));
            for out in [&twins, &shut.out, &lost] {
                self.settle_held(out, At::Absent);
            }
            self.settle_held(&stuck, At::Mapped);
        }
        gone
    }

    pub(super) fn hold_found(&self, key: PageKey, frame: FrameNo) -> Option<Held> {
        if !self.table.word(frame).is_mapped() {
            return None;
        }
        let (mapped, page) = (self.regions.as_ref()?.mapped.of(key.file())?, key.index().0);
        mapped.space.pages.take(page, &[At::Mapped])?;
        Some(Held { mapped, page, frame })
    }
}

impl Frames<'_> {
    /// Whether uses of the page are not seen, because it is in its region or in a mapping of its file.
    pub(super) fn hides_uses(&self, frame: FrameNo) -> bool {
        self.engine.table.word(frame).is_mapped() || self.is_in_region(frame)
    }

    /// As the table's `evict`, where files may be mapped.
    pub(super) fn evict_mapped(&mut self, frames: &mut Vec<FrameNo>) {
        let (victims, gone) = self.unmap_victims(frames);
        let asked = (!gone.is_empty()).then(|| frames.clone());
        frames.retain(|frame| !gone.contains(frame));
        self.table.evict(frames);
        if let Some(mut asked) = asked {
            asked.retain(|frame| gone.contains(frame) || frames.contains(frame));
            *frames = asked;
        }
        for page in &victims {
            self.engine.settle(page.space(), page.page, At::Absent);
            self.engine.free_table(page.space(), Tables::of(page.page));
        }
    }

    /// Of pages that are to be evicted those that are mapped leave their mappings, unless they were used since the core
    /// asked. Gives those that went with it, and are out of the table.
    fn unmap_victims(&mut self, frames: &[FrameNo]) -> (Vec<Held>, Vec<FrameNo>) {
        let engine = self.engine;
        let mut held = Vec::new();
        for &frame in frames {
            let word = engine.table.word(frame);
            if word.is_mapped() && !word.is_dirty() && !engine.table.was_used(frame) {
                held.extend(engine.hold_found(self.table.key(frame), frame));
            }
        }
        if held.is_empty() {
            return (Vec::new(), Vec::new());
        }
        // Those in their mappings only get no memory in their frames: it would be for nothing.
        let (mut held, alone): (Vec<_>, Vec<_>) = held.into_iter().partition(Held::is_double);
        engine.unmap_twins(&held);
        engine.vacate_held(&mut self.table, &alone);
        let gone = alone.iter().map(|page| page.frame).collect();
        held.extend(alone);
        (held, gone)
    }
}
