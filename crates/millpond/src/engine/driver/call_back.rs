//! Calls pages back: from regions and mappings for a scan, so that their next use is seen; from mappings also for a reader, a
//! thread that changes them, or at the end of the mapping.
//!
//! ```text
//!   write-protected, alone  ─► copied to the frame: double; no memory for that, of a file: gone, the device has it
//!   double                  ─► stays for a reader; else it leaves (`unmap.rs`)
//!   written                 ─► leaves
//! ```

use super::mempool::Marked;
use super::unmap::{Fate, HeldPage};
use super::{Doubles, Engine, Unmap};
use crate::device::Awaited;
use crate::files::FileInner;
use crate::frames::wait::SLOW_AFTER;
use crate::memory::mapped::MappedFile;
use crate::memory::{At, Space};
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

/// Calls pages back from regions and mappings.
#[derive(Clone, Copy)]
pub(crate) struct CallBack<'a> {
    engine: &'a Engine,
}

impl<'a> CallBack<'a> {
    pub(crate) fn of(engine: &'a Engine) -> CallBack<'a> {
        CallBack { engine }
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
            .spaces()
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
        let (space, mut held, mut is_stuck) = (Space::File(mapped.clone()), Vec::new(), false);
        for at in pages.clone().step_by(BATCH as usize) {
            let batch = at..pages.end.min(at + BATCH);
            held.extend(
                batch
                    .clone()
                    .filter_map(|page| HeldPage::take(self.engine, &space, page)),
            );
            is_stuck |= self.unmap(&mut held, to_change);
            if batch
                .into_iter()
                .any(|page| mapped.space.pages.at(page) == At::Busy)
            {
                yield_now();
            }
        }
        is_stuck
    }

    /// Takes these pages of one region or file, which are in order, out of it; for a reader those that can't stay. Lets go of
    /// all. Returns whether some stay because devices write into them.
    fn unmap(self, held: &mut Vec<HeldPage>, to_change: bool) -> bool {
        let engine = self.engine;
        Unmap::of(engine).put_together(held);
        held.iter().for_each(|page| Doubles::of(engine).make_double(page));
        let can_stay = |page: &mut HeldPage| !to_change && !page.is_open() && page.residence().is_double;
        let stay: Vec<_> = held.extract_if(.., can_stay).collect();
        stay.iter().for_each(|page| page.let_go(engine));
        Unmap::of(engine).unmap(held);
        let is_stuck = held.iter().any(|page| page.fate == Fate::Stuck);
        let is_alone = |page: &&HeldPage| page.fate == Fate::Alone;
        let others = held.iter().filter(|page| !is_alone(page));
        others.for_each(|page| page.let_go(engine));
        for page in held.iter().filter(is_alone) {
            let is_lost = page
                .space
                .mapped()
                .is_some_and(|mapped| self.lose_copy(mapped, page.page, page.frame));
            page.settle(engine, if is_lost { At::Absent } else { At::Mapped });
        }
        held.clear();
        for page in stay {
            Doubles::of(engine).enqueue(page.inner(), page.page, true);
        }
        if is_stuck {
            yield_now();
        }
        is_stuck
    }

    /// Makes the next use visible of pages that a scan has met, as soon as there is a batch.
    pub(super) fn sample_marked(self, marked: &mut Marked) {
        let engine = self.engine;
        let Marked { sampled, held, .. } = marked;
        if sampled.is_empty() {
            return;
        }
        engine.spaces().doubles.enqueue_sampled(sampled);
        sampled.sort_unstable_by_key(|key| key.to_bits());
        for keys in sampled.chunk_by(|a, b| a.file() == b.file()) {
            let Some(space) = engine.spaces().space(keys[0].file()) else {
                continue;
            };
            // They may be of an earlier region or file with the same number.
            let pages = keys.iter().map(|key| key.index().0);
            let pages = pages.filter(|&page| page < space.inner().pages.len());
            held.extend(pages.filter_map(|page| HeldPage::take(engine, &space, page)));
            self.unmap(held, true);
        }
        sampled.clear();
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
                    let space = Space::File(mapped.clone());
                    if let Some(mut held) = HeldPage::take(engine, &space, at) {
                        let (frame, key) = (held.frame, held.key());
                        // A device reads the frame. No other write of the page begins while we hold it.
                        let is_written = engine.table.word(frame).is_writeback();
                        let is_out = !is_written && held.is_open() && self.tear_out(&mut held);
                        held.let_go(engine);
                        if is_written {
                            engine.table.wait_written(frame, key);
                        } else if !is_out {
                            engine.warn_no_memory(at);
                            sleep(PAUSE_MIN);
                        }
                    }
                }
                At::Poisoned => engine.spaces().unmark(mapped, at),
                At::Busy => yield_now(),
                _ => at += 1,
            }
        }
        mapped.space.tables.all_gone(&engine.spaces().tables);
    }

    /// Takes out a page that stays open for long while the mapping ends: what a device writes there from now on is lost.
    /// Returns whether the page is out; it is not if there is no memory for that. No device may be reading the frame.
    fn tear_out(self, page: &mut HeldPage) -> bool {
        let engine = self.engine;
        Unmap::of(engine).drop_frames(std::slice::from_ref(page));
        let is_out = engine.spaces().exchange.copy_away(&page.in_hand());
        if is_out {
            Unmap::of(engine).moved(page);
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
            engine.spaces().unmark(&mapped, page);
            // A thread that marked it just then had it in hand, and has released it or will.
            while mapped.marked.lock().contains(&page)
                && matches!(mapped.space.pages.at(page), At::Busy | At::Poisoned)
            {
                yield_now();
                engine.spaces().unmark(&mapped, page);
            }
        }
    }
}
