//! Pages of regions that their program gives up, or will need.

use super::unmap::{Fate, HeldPage, RUN_MAX};
use super::{Engine, Unmap};
use crate::error::Result;
use crate::memory::{At, Space, SpaceInner};
use millpond_core::event::{Event, Intent};
use millpond_core::frame::FrameTable;
use millpond_core::units::{PageIndex, PageKey};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The number of pages requested at a time for [`RegionAdvice::WillNeed`](crate::RegionAdvice::WillNeed): 1 MiB.
const AHEAD_BATCH: u64 = 256;

/// The number of pages that a discard takes before others get the core lock.
const FORGET_BATCH: u64 = 1024;

/// Carries out a program's advice about pages of a region.
#[derive(Clone, Copy)]
pub(crate) struct Advised<'a> {
    engine: &'a Engine,
    region: &'a Arc<SpaceInner>,
}

impl<'a> Advised<'a> {
    pub(crate) fn of(engine: &'a Engine, region: &'a Arc<SpaceInner>) -> Advised<'a> {
        Advised { engine, region }
    }

    /// Closes the region, which no thread will use any more: no page comes from now on.
    pub(crate) fn close_region(self) {
        let Advised { engine, region } = self;
        let _core = engine.core();
        region.closed.store(true, Ordering::Relaxed);
    }

    /// Forgets pages of the region: they read as zeros from now on. Waits for pages that are being written.
    pub(crate) fn region_forget(self, pages: Range<u64>) -> Result<()> {
        let engine = self.engine;
        let mut at = pages.start;
        while at < pages.end {
            engine.call_flags.check()?;
            let seen = engine.waits.frames.events.count();
            let done = self.forget_some(at..pages.end.min(at + FORGET_BATCH));
            if done == at {
                // The end of a write or a read wakes this thread, too.
                engine.waits.frames.events.wait(seen, Duration::from_millis(1));
            }
            at = done;
        }
        Ok(())
    }

    /// Makes the content of these pages disposable until they are touched. Pages that are only in their slots are forgotten;
    /// pages in memory leave without a write when it is needed. Pages that another thread has in hand stay as they are.
    pub(crate) fn region_free(self, pages: Range<u64>) -> Result<()> {
        let engine = self.engine;
        for at in pages.clone().step_by(RUN_MAX) {
            engine.call_flags.check()?;
            self.free_some(at..pages.end.min(at + RUN_MAX as u64));
        }
        Ok(())
    }

    fn free_some(self, pages: Range<u64>) {
        let Advised { engine, region } = self;
        // Only a thread with the core lock can take a page that is nowhere.
        let mut core = engine.core();
        for page in pages {
            match region.pages.take(page, &[At::Mapped, At::Cached, At::Absent]) {
                Some(At::Absent) => {
                    let (file, pages) = (region.id, page..page + 1);
                    core.step(Event::Forgotten { file, pages });
                    engine.spaces().settle(region, page, At::Absent);
                }
                Some(was) => {
                    region.pages.note_lazy(page);
                    let key = PageKey::new(region.id, PageIndex(page));
                    let frame = engine.table.locked(&mut core.token).lookup(key);
                    let frame = frame.unwrap_or_else(|| panic!("{key:?} was {was:?} and has no frame"));
                    let fate = if was == At::Mapped {
                        Fate::Mapped
                    } else {
                        Fate::Out
                    };
                    // So that a touch is seen.
                    let mut held = HeldPage::new(Space::Region(region.clone()), page, frame, fate);
                    Unmap::of(engine).unmap(std::slice::from_mut(&mut held));
                    held.let_go(engine);
                }
                None => {}
            }
        }
    }

    /// Forgets pages, up to the first one that another thread has in hand. Returns the end of the forgotten ones.
    fn forget_some(self, pages: Range<u64>) -> u64 {
        let Advised { engine, region } = self;
        let mut core = engine.core();
        let (mut held, mut unfilled) = (Vec::new(), Vec::new());
        let mut end = pages.start;
        while end < pages.end {
            let states = [At::Mapped, At::Cached, At::Poisoned, At::Absent];
            let Some(was) = region.pages.take(end, &states) else {
                break;
            };
            if matches!(was, At::Mapped | At::Cached) {
                let key = PageKey::new(region.id, PageIndex(end));
                let frame = engine.table.locked(&mut core.token).lookup(key);
                let frame = frame.unwrap_or_else(|| panic!("{key:?} was {was:?} and has no frame"));
                held.push((PageIndex(end), frame));
                unfilled.extend((was == At::Mapped).then_some(frame));
            }
            end += 1;
        }
        let mut frames: Vec<_> = held.iter().map(|&(_, frame)| frame).collect();
        engine.table.locked(&mut core.token).forget(&mut frames);
        assert_eq!(frames.len(), held.len(), "pages of a region in other hands");
        let done = pages.start..end;
        engine
            .spaces()
            .exchange
            .discard(&region.memory, done.clone(), &unfilled);
        region.tables.gone_with(&done, &engine.spaces().tables);
        let file = region.id;
        if !held.is_empty() {
            core.step(Event::Discarded { file, pages: &held });
        }
        if !done.is_empty() {
            let pages = done.clone();
            core.step(Event::Forgotten { file, pages });
        }
        done.for_each(|page| engine.spaces().settle(region, page, At::Absent));
        end
    }

    /// Reads pages of the region from their slots in the background, as far as there is memory for them.
    pub(crate) fn region_ahead(self, pages: Range<u64>) -> Result<()> {
        let Advised { engine, region } = self;
        let mut at = pages.start;
        while at < pages.end {
            engine.call_flags.check()?;
            let (count, answer);
            {
                let mut core = engine.core();
                let is_away = |page: &u64| {
                    region.pages.at(*page) == At::Absent && core.manager.has_slot(region.id, PageIndex(*page))
                };
                let most = pages.end.min(at + AHEAD_BATCH);
                count = (at..most).take_while(is_away).count() as u64;
                if count == 0 {
                    at += 1;
                    continue;
                }
                let event = Event::Fault {
                    file: region.id,
                    first: PageIndex(at),
                    count: count as u32,
                    intent: Intent::Prefetch,
                };
                answer = core.step(event);
            }
            if answer.ahead < count {
                break;
            }
            at += count;
        }
        Ok(())
    }
}
