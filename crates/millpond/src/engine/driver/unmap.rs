//! Pages of mapped files that leave their mapping: parted, sampled, evicted, called back.
//!
//! ```text
//!   twin ─► the mapping's copy is dropped, with others in one call ─► out
//!   in   ─► copied to the frame ─► twin ─► …
//!                └─ no memory for that: evicted with both ─► gone
//!   open ─► moved to the frame ─► out                          (`open.rs`)
//! ```
//!
//! All are held one by one: their states in the mapping are theirs alone who took them, and a thread that touches one
//! meanwhile waits.

use super::writes::Frames;
use super::{AfterUnlock, Engine};
use crate::files::FileInner;
use crate::frames::table::LockedTable;
use crate::memory::mapped::MappedFile;
use crate::memory::{At, RegionInner, Residence, Tables};
use crate::sys::arena::Arena;
use crate::sys::arena::exchange::{Copy, InHand};
use millpond_core::event::Event;
use millpond_core::frame::FrameTable;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::yield_now;

/// Pages that are called back at a time: as many as are dropped with one system call.
const BATCH: u64 = 32;

/// How often a page is called back into which a device writes, before it is taken as it is.
pub(super) const TRIES: u32 = 1000;

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
    /// drop the mapping's.
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

    /// Pages leave their mappings. `held` keeps those that did, still in hand; gives the others, which have no twin and get
    /// none.
    fn unmap_held(&self, held: &mut Vec<Held>) -> Vec<Held> {
        let (open, rest) = held.drain(..).partition(Held::is_open);
        *held = rest;
        let (out, mut stuck) = self.shut(open);
        for at in (0..held.len()).rev() {
            if !self.make_twin(&held[at]) {
                stuck.push(held.swap_remove(at));
            }
        }
        if !held.is_empty() {
            let copies = held.iter().map(|page| Copy::InRegion(page.in_hand()));
            if !mutation::is(Mutation::MappedCopyIsKept) {
                self.regions().exchange.drop_copies(copies);
            }
            held.iter().for_each(|page| self.table.unmap(page.frame));
        }
        held.extend(out);
        stuck
    }

    pub(super) fn settle_held(&self, held: &[Held], to: At) {
        held.iter()
            .for_each(|page| self.settle(page.space(), page.page, to));
    }

    /// The only copy of the page, which we hold, is given up: it is read again when it is wanted. `false`: not now, for a
    /// device reads what is in its frame. The caller must not have the core lock.
    pub(super) fn lose_copy(&self, mapped: &MappedFile, page: u64, frame: FrameNo) -> bool {
        let mut later = AfterUnlock::default();
        {
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
            self.step(&mut core, Event::Discarded { file, pages }, &mut later);
        }
        self.finish(&mut later);
        true
    }

    /// As [`Engine::call_back`] of one page, for a thread that waits for it: also until a device that reads what was in its
    /// frame has done so.
    pub(crate) fn call_one_back(&self, file: &FileInner, page: u64, to_change: bool) {
        self.call_back(file, page..page + 1, to_change);
        let key = PageKey::new(file.id, PageIndex(page));
        if let Some(frame) = self.table.frame_of(key)
            && self.table.word(frame).is_open()
        {
            self.table.wait_written(frame, key);
        }
    }

    /// The file's frames have these pages, for a thread that reads them, or to change them: then the mapping has them no
    /// more. Those that other threads have in hand are left as they are. The caller must not have the core lock.
    pub(crate) fn call_back(&self, file: &FileInner, pages: Range<u64>, to_change: bool) {
        if let Some(mapped) = self.mapped_of(file) {
            self.call_mapped_back(&mapped, pages, to_change);
        }
    }

    fn call_mapped_back(&self, mapped: &Arc<MappedFile>, pages: Range<u64>, to_change: bool) {
        let pages = pages.start..pages.end.min(mapped.space.pages.len());
        let mut held = Vec::new();
        for at in pages.clone().step_by(BATCH as usize) {
            let batch = at..pages.end.min(at + BATCH);
            held.extend(batch.clone().filter_map(|page| self.hold_mapped(mapped, page)));
            self.let_go(&mut held, to_change);
            if batch
                .into_iter()
                .any(|page| mapped.space.pages.at(page) == At::Busy)
            {
                yield_now();
            }
        }
    }

    fn let_go(&self, held: &mut Vec<Held>, to_change: bool) {
        let mut stuck;
        match to_change {
            true => {
                stuck = self.unmap_held(held);
                self.settle_held(held, At::Absent);
            }
            false => {
                let (open, rest) = held.drain(..).partition(Held::is_open);
                *held = rest;
                let out;
                (out, stuck) = self.shut(open);
                self.settle_held(&out, At::Absent);
                for page in held.drain(..) {
                    match self.make_twin(&page) {
                        true => {
                            self.settle(page.space(), page.page, At::Mapped);
                            self.enqueue_mapped(&page.mapped, page.page, true);
                        }
                        false => stuck.push(page),
                    }
                }
            }
        }
        held.clear();
        for page in stuck {
            let mut to = At::Mapped;
            if !self.regions().exchange.has(&page.space().memory, page.page)
                && self.lose_copy(&page.mapped, page.page, page.frame)
            {
                to = At::Absent;
            }
            self.settle(page.space(), page.page, to);
            yield_now();
        }
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
        // All of them are twins.
        let _none = self.unmap_held(&mut go);
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
                        let is_out = held.is_open() && self.tear_out(&held);
                        self.settle_held(&[held], if is_out { At::Absent } else { At::Mapped });
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
            let stuck = self.unmap_held(&mut held);
            let is_lost =
                |page: &Held| dirty_too && page.is_open() && !self.table.word(page.frame).is_writeback();
            let (lost, stuck): (Vec<_>, Vec<_>) = stuck.into_iter().partition(is_lost);
            for page in &lost {
                table.vacate(page.frame);
                let pages = page.page..page.page + 1;
                let exchange = &self.regions().exchange;
                exchange.discard(&page.space().memory, pages, &[page.frame]);
            }
            gone.extend(lost.iter().map(|page| page.frame));
            self.settle_held(&held, At::Absent);
            self.settle_held(&lost, At::Absent);
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
        let mut gone = Vec::new();
        for page in engine.unmap_held(&mut held) {
            self.table.vacate(page.frame);
            let (memory, frames) = (&page.space().memory, [page.frame]);
            let exchange = &engine.regions().exchange;
            exchange.discard(memory, page.page..page.page + 1, &frames);
            gone.push(page.frame);
            held.push(page);
        }
        (held, gone)
    }
}
