//! Waits for threads that have a page in hand. The watchdog knows of long waits. A thread's wait for itself is refused.

use super::call_back::PAUSE_MIN;
use super::{CallBack, Engine};
use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::frames::own::{self, Held, Waits};
use crate::observe::explain::{self, Wait};
use millpond_core::frame::FrameTable;
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

/// How long a call waits for an owned guard that its own thread made: longer than another thread needs for a page, shorter
/// than a user would take for a hang.
const OWNED_PATIENCE: Duration = Duration::from_secs(2);

/// The number of pages, or frames, that a discard looks at before others get the core lock: about 0.2 ms.
pub(super) const DISCARD_BATCH: u64 = 1024;

/// The threads that have pages of a file in hand, for a call that wants these.
#[derive(Clone, Copy)]
pub(crate) struct Holders<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> Holders<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> Holders<'a> {
        Holders { engine, file }
    }

    /// Waits until no thread uses the page, which is in `frame`, as
    /// [`Table::wait_unused`](crate::frames::table::Table::wait_unused). For a device that writes into it in a mapping, it waits
    /// only a moment.
    pub(crate) fn wait_unused(self, frame: FrameNo, page: u64) {
        let Holders { engine, file } = self;
        let key = PageKey::new(file.id, PageIndex(page));
        engine.watched(file, page, |slow| engine.table.wait_unused(frame, key, slow));
        if engine.table.word(frame).is_mapped()
            && let Some(mapped) = engine.mapped_of(file)
            && CallBack::of(engine).call_mapped_back(&mapped, page..page + 1, true)
        {
            sleep(PAUSE_MIN);
        }
    }

    /// Called before a wait for guards of these pages.
    ///
    /// # Errors
    /// [`Error::OwnGuard`] if the calling thread has such a guard: at once, or after [`OWNED_PATIENCE`] if it may have handed
    /// it on.
    #[inline]
    pub(crate) fn check_guards(self, pages: Range<u64>, waits: Waits) -> Result<()> {
        let Holders { engine, file } = self;
        match own::held(&engine.table, file.id, pages.clone(), waits) {
            None => Ok(()),
            Some(held) => self.wait_for_own(pages, waits, held),
        }
    }

    #[cold]
    fn wait_for_own(self, pages: Range<u64>, waits: Waits, held: Held) -> Result<()> {
        let Holders { engine, file } = self;
        let (mut held, mut waited, mut pause) = (held, Duration::ZERO, PAUSE_MIN);
        while held.kind.is_owned && waited < OWNED_PATIENCE {
            engine.call_flags.check()?;
            explain::timed(Wait::Busy, || sleep(pause));
            // Counts the requested sleep: a process that was stopped has not waited.
            waited += pause;
            pause = (waited / 4).max(PAUSE_MIN);
            match own::held(&engine.table, file.id, pages.clone(), waits) {
                None => return Ok(()),
                Some(still) => held = still,
            }
        }
        Err(Error::OwnGuard {
            path: file.path.clone(),
            page: held.page.0,
        })
    }

    /// Visits those of `pages` that are in memory, in batches. Looks at each page or at each frame, whichever are fewer, and
    /// releases the core lock between batches.
    pub(super) fn each_held(
        self,
        pages: Range<u64>,
        mut each: impl FnMut(&mut Vec<(PageKey, FrameNo)>) -> Result<()>,
    ) -> Result<()> {
        let Holders { engine, file } = self;
        let page_count = pages.end.saturating_sub(pages.start);
        let by_page = page_count <= u64::from(engine.table.locked(&mut engine.core().token).frames());
        let mut at = 0;
        loop {
            let mut held: Vec<_> = {
                let mut core = engine.core();
                let table = engine.table.locked(&mut core.token);
                let end = if by_page {
                    page_count
                } else {
                    table.frames().into()
                };
                if at >= end {
                    return Ok(());
                }
                let found = |n: u64| {
                    if by_page {
                        let key = PageKey::new(file.id, PageIndex(pages.start + n));
                        return table.lookup(key).map(|frame| (key, frame));
                    }
                    let (frame, key) = (FrameNo(n as u32), table.key(FrameNo(n as u32)));
                    let is_ours =
                        key != PageKey::NONE && key.file() == file.id && pages.contains(&key.index().0);
                    (is_ours && table.lookup(key) == Some(frame)).then_some((key, frame))
                };
                (at..end.min(at + DISCARD_BATCH)).filter_map(found).collect()
            };
            each(&mut held)?;
            at += DISCARD_BATCH;
        }
    }

    /// Returns a page of the file that a thread is changing now, if there is one.
    pub(super) fn page_in_change(self) -> Option<u64> {
        let Holders { engine, file } = self;
        let mut found = None;
        let pages = file.len().div_ceil(engine.page_size.bytes());
        let look = self.each_held(0..pages, |held| {
            let mut pages = held.iter();
            let in_change = pages.find(|&&(_, frame)| engine.table.word(frame).is_exclusive());
            found = found.or(in_change.map(|(key, _)| key.index().0));
            Ok(())
        });
        look.ok().and(found)
    }

    /// Returns whether all of the file is written, except unwritable pages and those that a thread is changing now.
    pub(super) fn has_written_all_but_changed(self) -> Result<bool> {
        let Holders { engine, file } = self;
        let pages = file.len().div_ceil(engine.page_size.bytes());
        let mut is_so = true;
        self.each_held(0..pages, |held| {
            is_so &= held.iter().all(|&(key, frame)| {
                let word = engine.table.word(frame);
                let is_left = || {
                    word.is_exclusive()
                        || word.is_open()
                        || engine.core().manager.has_failed(file.id, key.index())
                };
                !word.is_writeback() && (!word.is_dirty() || is_left())
            });
            Ok(())
        })?;
        Ok(is_so)
    }

    /// Returns whether all of the file is written, except pages of a mapping into which a device writes.
    pub(super) fn is_stuck_in_mapping(self) -> Result<bool> {
        let Holders { engine, file } = self;
        let is_mapped = engine.mapped_of(file).is_some();
        Ok(is_mapped && self.page_in_change().is_none() && self.has_written_all_but_changed()?)
    }
}
