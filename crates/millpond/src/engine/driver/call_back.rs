//! Calls pages back from mappings: for a reader, a thread that changes them, a scan, or at the end of the mapping.
//!
//! ```text
//!   a twin ─► stays for a reader; else its copy in the mapping goes
//!   alone  ─► copied to the frame: a twin; no memory for that: gone, the device has it
//!   open   ─► moved to the frame, unless a device writes into it (`unmap.rs`)
//! ```

use super::unmap::Held;
use super::{Doubles, Engine, Unmap};
use crate::device::Awaited;
use crate::files::FileInner;
use crate::frames::wait::SLOW_AFTER;
use crate::memory::At;
use crate::memory::mapped::MappedFile;
use crate::sys::arena::exchange::Copy;
use crate::sys::clock::Patience;
use millpond_core::event::Event;
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// The number of pages called back at a time: as many as one system call drops.
const BATCH: u64 = 32;

/// How often a page into which a device writes is called back before it is taken as it is.
const TRIES: u32 = 1000;

/// How often a waiting thread calls the page back without sleeping: by then most transfers have ended.
const AT_ONCE: u32 = 20;

/// The shortest and the longest sleep of such a thread before it looks again, because nothing announces the end of the
/// transfer. Missing the end costs no more than a part of the time waited so far.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(1);

const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Calls pages back from mappings.
#[derive(Clone, Copy)]
pub(crate) struct CallBack<'a> {
    engine: &'a Engine,
}

impl<'a> CallBack<'a> {
    pub(crate) fn of(engine: &'a Engine) -> CallBack<'a> {
        CallBack { engine }
    }

    fn hold_mapped(self, mapped: &Arc<MappedFile>, page: u64) -> Option<Held> {
        let engine = self.engine;
        mapped.space.pages.take(page, &[At::Mapped])?;
        Some(Held {
            mapped: mapped.clone(),
            page,
            frame: engine.frame_of(&mapped.space, page),
        })
    }

    /// Copies the page to its frame, which makes it a twin. `false`: there is no memory for the copy, or the program has had
    /// the kernel drop the mapping's page. Takes memory, so the caller must not have the core lock.
    fn make_twin(self, held: &Held) -> bool {
        let engine = self.engine;
        if held.is_double() {
            return true;
        }
        let is_twin = engine.regions().exchange.copy_out(&held.in_hand());
        if is_twin {
            held.note(true);
            engine.table.map_shared(held.frame);
        }
        is_twin
    }

    /// Gives up the only copy of the page, which we hold: it is read again when needed. `false`: not now, because a device
    /// reads the frame. The caller must not have the core lock.
    pub(super) fn lose_copy(self, mapped: &MappedFile, page: u64, frame: FrameNo) -> bool {
        let engine = self.engine;
        let mut core = engine.core();
        if engine.table.word(frame).is_writeback() {
            return false;
        }
        engine.table.locked(&mut core.token).vacate(frame);
        mapped.file.writeback_rules.forget(PageIndex(page));
        let space = &mapped.space;
        engine
            .regions()
            .exchange
            .discard(&space.memory, page..page + 1, &[frame]);
        let (file, pages) = (mapped.file.id, &[(PageIndex(page), frame)][..]);
        core.step(Event::Discarded { file, pages });
        true
    }

    /// As [`CallBack::call_back`] of one page, for a thread that waits for it. Also waits for a device that reads the frame
    /// or writes into the mapping.
    pub(crate) fn call_one_back(self, file: &FileInner, page: u64, to_change: bool) {
        let engine = self.engine;
        let Some(mapped) = engine.mapped_of(file) else {
            return;
        };
        let key = PageKey::new(file.id, PageIndex(page));
        let (mut patience, mut slept, mut known) = (Patience::new(), Duration::ZERO, None);
        for n in 0_u32.. {
            let is_stuck = self.call_mapped_back(&mapped, page..page + 1, to_change);
            let frame = engine.table.frame_of(key);
            let Some(frame) = frame.filter(|&frame| engine.table.word(frame).is_open()) else {
                return;
            };
            engine.table.wait_written(frame, key);
            if !is_stuck || engine.call_flags.check().is_err() {
                return;
            }
            if n < AT_ONCE {
                continue;
            }
            patience.slept(slept);
            let waited = patience.waited();
            if waited >= SLOW_AFTER {
                let awaited = Awaited::Transfer { page };
                known.get_or_insert_with(|| engine.device.waits(&file.path, awaited, waited));
            }
            slept = (waited / 4).clamp(PAUSE_MIN, PAUSE_MAX);
            sleep(slept);
        }
    }

    /// Brings these pages to the file's frames, for a thread that reads them; or for one that changes them, and then they
    /// leave the mapping. Pages that other threads have in hand stay as they are. The caller must not have the core lock.
    pub(crate) fn call_back(self, file: &FileInner, pages: Range<u64>, to_change: bool) {
        let engine = self.engine;
        if let Some(mapped) = engine.mapped_of(file) {
            self.call_mapped_back(&mapped, pages, to_change);
        }
    }

    /// As [`CallBack::call_back`]. Returns whether a device writes into one of the pages, which therefore can't be called
    /// back.
    pub(super) fn call_mapped_back(
        self,
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

    /// Returns whether some pages stay because devices write into them.
    fn let_go(self, held: &mut Vec<Held>, to_change: bool) -> bool {
        let engine = self.engine;
        let (open, rest): (Vec<_>, Vec<_>) = held.drain(..).partition(Held::is_open);
        let shut = Unmap::of(engine).shut(open);
        Unmap::of(engine).settle_held(&shut.out, At::Absent);
        Unmap::of(engine).settle_held(&shut.stuck, At::Mapped);
        let (twins, alone): (Vec<_>, Vec<_>) = rest.into_iter().partition(|page| self.make_twin(page));
        match to_change {
            true => {
                Unmap::of(engine).unmap_twins(&twins);
                Unmap::of(engine).settle_held(&twins, At::Absent);
            }
            false => {
                Unmap::of(engine).settle_held(&twins, At::Mapped);
                for page in &twins {
                    self.enqueue_mapped(&page.mapped, page.page, true);
                }
            }
        }
        // Pages that can't become twins are clean: the device has them.
        for page in alone.iter().chain(&shut.gone) {
            let is_lost = self.lose_copy(&page.mapped, page.page, page.frame);
            let to = if is_lost { At::Absent } else { At::Mapped };
            engine.regions().settle(page.space(), page.page, to);
        }
        if !shut.stuck.is_empty() {
            yield_now();
        }
        !shut.stuck.is_empty()
    }

    /// Queues a page of a mapping that is a twin. The pages whose turn it is now give up one of their memories.
    pub(super) fn enqueue_mapped(self, mapped: &MappedFile, page: u64, is_new: bool) {
        let engine = self.engine;
        let key = PageKey::new(mapped.file.id, PageIndex(page));
        let due = engine.regions().doubles.enqueue(key, is_new);
        Doubles::of(engine).part(due, is_new);
    }

    /// Makes the twins of mapped files among these give up one memory: new ones the mapping's, where uses are not seen;
    /// others the frame's. A twin whose frame is in use keeps both as long as a new one does: a thread that has pinned it
    /// may be about to touch it, and would fault again and again. Returns the pages that are not of mapped files.
    pub(super) fn part_mapped(self, mut due: Vec<PageKey>, are_new: bool) -> Vec<PageKey> {
        let engine = self.engine;
        let (mut go, mut stay, mut open, mut later) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        due.retain(|key| {
            let Some(mapped) = engine.regions().mapped.of(key.file()) else {
                return true;
            };
            let page = key.index().0;
            if page < mapped.space.pages.len() {
                match self.hold_mapped(&mapped, page) {
                    Some(held) if !held.is_double() => Unmap::of(engine).settle_held(&[held], At::Mapped),
                    Some(held) if held.is_open() => open.push(held),
                    Some(held) if !are_new && engine.table.map_alone(held.frame) => stay.push(held),
                    Some(held) if are_new => go.push(held),
                    Some(held) => later.push(held),
                    None if mapped.space.pages.at(page) == At::Absent => {}
                    None => engine.regions().doubles.enqueue_again(*key),
                }
            }
            false
        });
        self.part_open(open);
        Unmap::of(engine).unmap_twins(&go);
        Unmap::of(engine).settle_held(&go, At::Absent);
        if !stay.is_empty() {
            let copies = stay.iter().map(|page| Copy::InFrame(page.in_hand()));
            engine.regions().exchange.drop_copies(copies);
            stay.iter().for_each(|page| page.note(false));
            Unmap::of(engine).settle_held(&stay, At::Mapped);
        }
        Unmap::of(engine).settle_held(&later, At::Mapped);
        for page in later {
            self.enqueue_mapped(&page.mapped, page.page, true);
        }
        due
    }

    /// Frees the frames' memory of open pages, unless a device reads it.
    fn part_open(self, open: Vec<Held>) {
        let engine = self.engine;
        let is_written = |page: &Held| engine.table.word(page.frame).is_writeback();
        let (later, open): (Vec<_>, Vec<_>) = open.into_iter().partition(is_written);
        Unmap::of(engine).drop_old(open.iter());
        Unmap::of(engine).settle_held(&open, At::Mapped);
        Unmap::of(engine).settle_held(&later, At::Mapped);
        for page in later {
            let key = PageKey::new(page.mapped.file.id, PageIndex(page.page));
            engine.regions().doubles.enqueue_again(key);
        }
    }

    /// Makes the next use of these pages visible. They are of one file and in order. `false`: the file is not mapped.
    pub(super) fn sample_mapped(self, keys: &[PageKey]) -> bool {
        let engine = self.engine;
        let Some(mapped) = engine.regions().mapped.of(keys[0].file()) else {
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

    /// Ends the mapping: from now on no page comes, and afterwards none is left.
    pub(crate) fn close_mapped(self, mapped: &Arc<MappedFile>) {
        let engine = self.engine;
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
                        // A device reads the frame. No other write of the page begins while we hold it.
                        let is_written = engine.table.word(frame).is_writeback();
                        let is_out = !is_written && held.is_open() && self.tear_out(&held);
                        Unmap::of(engine).settle_held(&[held], if is_out { At::Absent } else { At::Mapped });
                        if is_written {
                            engine
                                .table
                                .wait_written(frame, PageKey::new(mapped.file.id, PageIndex(at)));
                        } else if !is_out {
                            engine.warn_no_memory(at);
                            sleep(PAUSE_MIN);
                        }
                    }
                }
                At::Poisoned => engine.regions().unmark(mapped, at),
                At::Busy => yield_now(),
                _ => at += 1,
            }
        }
        mapped.space.tables.all_gone(&engine.regions().tables);
    }

    /// Takes out a page that stays open for long while the mapping ends: what a device writes there from now on is lost.
    /// Returns whether the page is out; it is not if there is no memory for that. No device may be reading the frame.
    pub(super) fn tear_out(self, page: &Held) -> bool {
        let engine = self.engine;
        Unmap::of(engine).drop_old(std::iter::once(page));
        let is_out = engine.regions().exchange.copy_away(&page.in_hand());
        if is_out {
            Unmap::of(engine).is_shut(page);
        }
        is_out
    }

    /// Waits until the page is not open. It stays closed while it [may not be opened](FileInner::may_open).
    pub(crate) fn shut_page(self, file: &FileInner, page: u64) {
        let engine = self.engine;
        if engine.mapped_of(file).is_none() {
            return;
        }
        let key = PageKey::new(file.id, PageIndex(page));
        // Also a page that a thread is about to open.
        let may_be_open = || {
            let frame = engine.table.frame_of(key);
            frame.is_some_and(|frame| engine.table.word(frame).is_mapped_alone())
        };
        while may_be_open() && engine.call_flags.check().is_ok() {
            self.call_one_back(file, page, true);
        }
    }

    /// Removes marks after the file has become longer: its new pages can be touched.
    pub(crate) fn mapped_grew(self, file: &FileInner) {
        let engine = self.engine;
        let Some(mapped) = engine.mapped_of(file) else {
            return;
        };
        let pages = file.len().div_ceil(engine.page_size.bytes());
        let marked: Vec<u64> = mapped.marked.lock().range(..pages).copied().collect();
        for page in marked {
            engine.regions().unmark(&mapped, page);
            // A thread that marked it just then had it in hand, and has released it or will.
            while mapped.marked.lock().contains(&page)
                && matches!(mapped.space.pages.at(page), At::Busy | At::Poisoned)
            {
                yield_now();
                engine.regions().unmark(&mapped, page);
            }
        }
    }
}
