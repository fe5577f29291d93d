//! Takes pages of a file out of memory: all if the file is closed or cut, clean ones if others may have changed the file, and
//! failed ones if it can't be written.

use super::hold::DISCARD_BATCH;
use super::{CallBack, Engine, Holders, Unmap};
use crate::error::Result;
use crate::files::{FileInner, Making};
use crate::frames::own::{self, Waits};
use millpond_core::event::Event;
use millpond_core::frame::FrameTable;
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::collections::BTreeSet;
use std::ops::Range;

/// Takes pages of a file out of memory.
#[derive(Clone, Copy)]
pub(crate) struct Discards<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> Discards<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> Discards<'a> {
        Discards { engine, file }
    }

    /// Takes `pages` out of memory, dirty or not, after waiting for the threads that use them. None of them comes into memory
    /// meanwhile, because the file is closed, or already shorter ([`Reach`](super::Reach)), or the device has given up that
    /// part.
    pub(crate) fn discard(self, pages: Range<u64>) -> Result<()> {
        self.discard_in(pages, None)
    }

    /// As [`Discards::discard`], for a hole, which is narrowed to the pages still waited for.
    pub(crate) fn discard_in(self, pages: Range<u64>, hole: Option<&Making<'_>>) -> Result<()> {
        let Discards { engine, file } = self;
        // First the unused ones: a thread that uses one may wait for memory.
        let mut left = Vec::new();
        Holders::of(engine, file).each_held(pages, |held| {
            engine.call_flags.check()?;
            self.take_out(held, true);
            left.append(held);
            Ok(())
        })?;
        if let Some(hole) = hole {
            hole.narrow(left.iter().map(|(key, _)| key.index().0));
        }
        for held in left.chunks(DISCARD_BATCH as usize) {
            let mut held = held.to_vec();
            loop {
                engine.call_flags.check()?;
                self.take_out(&mut held, true);
                let Some(&(key, frame)) = held.first() else {
                    break;
                };
                Holders::of(engine, file).wait_unused(frame, key.index().0);
            }
        }
        Ok(())
    }

    /// As [`Discards::discard`], except for pages of which the calling thread has guards. Returns the first of these.
    pub(crate) fn discard_but_own(self, pages: Range<u64>) -> Result<Option<u64>> {
        let Discards { engine, file } = self;
        let (mut at, mut first) = (pages.start, None);
        while at < pages.end {
            let own = own::first_held(&engine.table, file.id, at..pages.end);
            let to = own.map_or(pages.end, |page| page.0);
            self.discard(at..to)?;
            first = first.or(own.map(|page| page.0));
            at = to + 1;
        }
        Ok(first)
    }

    /// Takes the clean ones of the pages out of memory, after waiting for the threads that read or write them. Returns the
    /// number of dirty ones that are left.
    pub(crate) fn drop_clean(self, pages: Range<u64>) -> Result<u64> {
        let Discards { engine, file } = self;
        let mut left = 0;
        Holders::of(engine, file).each_held(pages, |held| {
            loop {
                engine.call_flags.check()?;
                self.take_out(held, false);
                let all = held.len();
                held.retain(|&(_, frame)| !engine.table.word(frame).is_dirty());
                left += (all - held.len()) as u64;
                let Some(&(key, frame)) = held.first() else {
                    return Ok(());
                };
                let page = key.index().0;
                Holders::of(engine, file).check_guards(page..page + 1, Waits::ForAll)?;
                Holders::of(engine, file).wait_unused(frame, page);
            }
        })?;
        Ok(left)
    }

    /// Returns those of the pages that are dirty, or being written.
    pub(crate) fn changed(self, pages: Range<u64>) -> Result<BTreeSet<u64>> {
        let Discards { engine, file } = self;
        let mut changed = BTreeSet::new();
        Holders::of(engine, file).each_held(pages, |held| {
            let of_them = held.iter().filter(|&&(_, frame)| {
                let word = engine.table.word(frame);
                word.is_dirty() || word.is_writeback()
            });
            changed.extend(of_them.map(|(key, _)| key.index().0));
            Ok(())
        })?;
        Ok(changed)
    }

    /// Waits for reads of these pages that have begun. Returns whether none of the pages is dirty then.
    pub(crate) fn settled(self, pages: Range<u64>) -> Result<bool> {
        let Discards { engine, file } = self;
        Holders::of(engine, file).each_held(pages.clone(), |held| {
            for &(key, frame) in held.iter() {
                engine.table.wait_loading(frame, key);
            }
            engine.call_flags.check()
        })?;
        Ok(!self.is_changed(pages)?)
    }

    /// Returns whether one of the pages is dirty, or being written.
    pub(crate) fn is_changed(self, pages: Range<u64>) -> Result<bool> {
        Ok(!self.changed(pages)?.is_empty())
    }

    /// Takes the unused pages of `held` out of memory. `held` keeps the pages that are still there, and their frames.
    fn take_out(self, held: &mut Vec<(PageKey, FrameNo)>, dirty_too: bool) {
        let Discards { engine, file } = self;
        let mut core = engine.core();
        let mut table = engine.table.locked(&mut core.token);
        held.retain_mut(|(key, frame)| {
            let now = table.lookup(*key);
            *frame = now.unwrap_or(*frame);
            now.is_some()
        });
        let lost = Unmap::of(engine).unmap_found(&mut table, held, dirty_too);
        let frames = held.iter().map(|&(_, frame)| frame);
        let mut gone: Vec<FrameNo> = frames.filter(|frame| !lost.contains(frame)).collect();
        if dirty_too {
            table.forget(&mut gone);
        } else {
            table.evict(&mut gone);
        }
        let mut gone = gone.into_iter().peekable();
        let mut discarded = Vec::with_capacity(gone.len());
        held.retain(|&(key, frame)| {
            let is_gone = gone.next_if_eq(&frame).is_some() || lost.contains(&frame);
            if is_gone {
                file.writeback_rules.forget(key.index());
                discarded.push((key.index(), frame));
            }
            !is_gone
        });
        if !discarded.is_empty() {
            let (file, pages) = (file.id, &*discarded);
            core.step(Event::Discarded { file, pages });
        }
    }

    /// Gives up the unwritable pages of the file, after waiting for the threads that use them. Pages that are written
    /// meanwhile are kept. Returns the number given up.
    pub(crate) fn discard_failed(self) -> Result<u64> {
        let Discards { engine, file } = self;
        let mut left: Vec<PageIndex> = engine.core().manager.failed_pages(file.id).collect();
        let waits_for =
            |page: &PageIndex| Holders::of(engine, file).check_guards(page.0..page.0 + 1, Waits::ForAll);
        left.iter().try_for_each(waits_for)?;
        let mut given_up = 0;
        while !left.is_empty() {
            engine.call_flags.check()?;
            let busy = {
                let mut core = engine.core();
                let batch = left.split_off(left.len().saturating_sub(DISCARD_BATCH as usize));
                let still_failed = |page: &PageIndex| core.manager.has_failed(file.id, *page);
                let batch: Vec<_> = batch.into_iter().filter(still_failed).collect();
                let mut table = engine.table.locked(&mut core.token);
                let frame_of = |page| {
                    table
                        .lookup(PageKey::new(file.id, page))
                        .map(|frame| (page, frame))
                };
                let all: Vec<_> = batch.into_iter().filter_map(frame_of).collect();
                let mut gone: Vec<FrameNo> = all.iter().map(|&(_, frame)| frame).collect();
                table.forget(&mut gone);
                let mut forgotten = gone.iter().copied().peekable();
                let (pages, busy): (Vec<_>, Vec<_>) = all
                    .into_iter()
                    .partition(|&(_, frame)| forgotten.next_if_eq(&frame).is_some());
                given_up += pages.len() as u64;
                pages
                    .iter()
                    .for_each(|&(page, _)| file.writeback_rules.forget(page));
                if !pages.is_empty() {
                    let event = Event::Discarded {
                        file: file.id,
                        pages: &pages,
                    };
                    core.step(event);
                }
                busy
            };
            left.extend(busy.iter().map(|&(page, _)| page));
            if let Some(&(page, frame)) = busy.first() {
                Holders::of(engine, file).wait_unused(frame, page.0);
                // It may be open: data that a device puts there must not be lost.
                CallBack::of(engine).call_one_back(file, page.0, true);
            }
        }
        Ok(given_up)
    }
}
