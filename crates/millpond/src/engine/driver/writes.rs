//! Decides which dirty pages may be written now, and keeps those unchanged that must not change meanwhile.
//!
//! ```text
//!   the core: begin_write ──► durable enough? ──► marked and pinned in one step ──► durable? ─► written
//!                                  │ no: asks the log, the page is held               │ no: as it was
//!                                  ▼
//!                         the log has come so far ──► Released: the core may ask again
//!   pinned: a thread that wants to change the page waits
//!     Copy   until the page was copied, after the core lock was let go; the device gets the copy
//!     Wait   until the write is over; the device gets the page
//! ```
//!
//! A page that is changed all the time may always be ahead of its log. If the log has reached the record that was asked for,
//! and the page has moved on, the page is pinned without a write until the log catches up once more, so that it can be
//! written at all. This needs a log that can be asked, so that it does not wait for a thread that changes the page.
//!
//! The core does not ask for a held page again before its release, so a waiting page costs one check each time its log
//! reaches the record that was asked for ([`Held`](crate::files::order::Held) lists them by record).
//!
//! The order is checked twice. Between the first check and its mark, a page can be changed and get a later order. Once it is
//! pinned it can't, so the second check concerns the bytes that will be written.

use super::mempool::MARKED;
use super::outbox::Copying;
use super::unmap::HeldPage;
use super::{Core, CoreGuard, Engine};
use crate::files::order::{Held, Log};
use crate::files::{FileInner, StablePages};
use crate::frames::table::{LockedTable, SharedPin, Table};
use crate::sys::arena::Arena;
use crate::sys::copies::Slot;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::io::Reason;
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keeps a page unchanged while it is being written.
pub(super) type WritePin = SharedPin<Arc<Table<Arena>>>;

/// The engine's frames as the core sees them: the table, and the files' rules for writing their pages.
pub(super) struct Frames<'a> {
    pub(super) table: LockedTable<'a, Arena>,
    pub(super) engine: &'a Engine,
    pub(super) files: &'a [Option<Arc<FileInner>>],
    pub(super) pages: &'a mut StepPages,
    pub(super) log_blocked: &'a mut LogBlocked,
    /// Logs that must become durable up to a record.
    pub(super) asks: &'a mut Vec<(Arc<Log>, u64)>,
}

/// Pages that the current step of the core has touched, by the work that the engine still has to do. Between two steps only
/// the lists' memory is left: cleaning memory must not allocate.
pub(super) struct StepPages {
    /// Pages whose writes have begun, of files that keep them whole.
    begun: VecDeque<Begun>,
    /// Pages of regions that turned out to differ from their slots.
    pub(super) changed: Vec<FrameNo>,
    /// Pages of regions whose accesses the core asked for: the next one must be seen.
    pub(super) sampled: Vec<PageKey>,
    /// Pages of regions that are to be written, with their frames.
    pub(super) written: Vec<(PageKey, FrameNo)>,
    /// Pages that leave regions and mappings.
    pub(super) held: Vec<HeldPage>,
    /// The frames that the core has asked to evict.
    pub(super) asked: Vec<FrameNo>,
    /// The frames of a write to swap that has ended.
    pub(super) ended: Vec<FrameNo>,
}

impl StepPages {
    pub(super) fn new() -> StepPages {
        StepPages {
            begun: VecDeque::new(),
            changed: Vec::new(),
            sampled: Vec::with_capacity(MARKED),
            written: Vec::with_capacity(MARKED),
            held: Vec::new(),
            asked: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The page whose write has begun, usually the first.
    fn take_begun(&mut self, frame: FrameNo) -> Begun {
        let at = self.begun.iter().position(|page| page.frame == frame);
        let page = at.and_then(|at| self.begun.remove(at));
        page.unwrap_or_else(|| panic!("{frame:?} is written, and its write has not begun"))
    }
}

/// Pages that can't be written before a log is durable up to some record.
#[derive(Default)]
pub(super) struct LogBlocked {
    /// Files with such pages.
    pub(super) files: Vec<FileId>,
    /// Those of the pages that must not change until then.
    pinned: Vec<PinnedForLog>,
}

/// A page that is pinned until its log has caught up with it.
struct PinnedForLog {
    pin: WritePin,
    since: Instant,
}

/// How long a page is pinned for its log: some flushes of a log and no more, since the log may wait for a thread that wants
/// to change the page. The pin ends at a tick, which comes each 100 ms while anything is dirty.
const PINNED_MAX: Duration = Duration::from_millis(100);

/// The most pages pinned at a time: few are changed so often.
const PINNED_PAGES_MAX: usize = 64;

/// A page whose write has begun.
struct Begun {
    frame: FrameNo,
    pin: WritePin,
    slot: Option<Slot>,
}

impl FrameTable for Frames<'_> {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.table.key(frame)
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.table.lookup(key)
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        if self.engine.spaces.is_some() {
            self.note_sampled(frame);
        }
        self.table.test_and_clear_accessed(frame)
    }

    fn tracks_accesses(&self, frame: FrameNo) -> bool {
        self.engine.spaces.is_none() || !self.hides_uses(frame)
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        match self.engine.spaces {
            Some(_) => self.evict_resident(frames),
            None => self.table.evict(frames),
        }
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        if let Some(begun) = self.begin_swap_out(frame) {
            return begun;
        }
        let key = self.table.key(frame);
        let file = self.files.get(key.file().0 as usize).and_then(Option::as_ref);
        if let Some(pages @ 1..) = file.map(|file| file.hole.keeps(key.index().0)) {
            return BeginWrite::BusyRun(pages);
        }
        if !self.shut_to_write(frame) {
            return BeginWrite::Busy;
        }
        match file {
            Some(file) if !file.writeback_rules.is_plain() => self.begin_kept(frame, key.index(), file),
            _ => self.table.begin_write(frame),
        }
    }
}

impl Frames<'_> {
    /// As `begin_write`, for a page that must not change meanwhile.
    fn begin_kept(&mut self, frame: FrameNo, page: PageIndex, file: &FileInner) -> BeginWrite {
        if let Some(held) = &file.writeback_rules.held
            && held.awaits(page)
        {
            if held.has_moved_on(page) {
                self.pin_for_log(frame);
            }
            return self.hold(page, file.id, held);
        }
        let slot = match file.writeback_rules.stable {
            StablePages::Copy => self.engine.copies.get().and_then(|copies| copies.take()),
            _ => None,
        };
        if slot.is_none() && file.writeback_rules.check.is_some() {
            // A check needs a copy. One comes free when a write ends.
            return BeginWrite::Busy;
        }
        self.begin_pinned(frame, page, file, slot)
    }

    /// Checks the order a second time and begins the write.
    fn begin_pinned(
        &mut self,
        frame: FrameNo,
        page: PageIndex,
        file: &FileInner,
        slot: Option<Slot>,
    ) -> BeginWrite {
        let holder = self.engine.table.clone();
        let Some(pin) = self.table.begin_write_pinned(frame, holder) else {
            return BeginWrite::Busy;
        };
        if let Some(held) = &file.writeback_rules.held
            && held.awaits(page)
        {
            self.engine.table.fail_write(frame);
            return self.hold(page, file.id, held);
        }
        file.writeback_rules.forget(page);
        self.log_blocked
            .pinned
            .retain(|pinned| pinned.pin.frame() != frame);
        self.pages.begun.push_back(Begun { frame, pin, slot });
        BeginWrite::Begun
    }

    /// Keeps a page whose order rises faster than its log follows unchanged until the log has caught up, or for
    /// [`PINNED_MAX`].
    fn pin_for_log(&mut self, frame: FrameNo) {
        let pinned = &mut self.log_blocked.pinned;
        let is_pinned = pinned.iter().any(|pinned| pinned.pin.frame() == frame);
        if is_pinned || pinned.len() == PINNED_PAGES_MAX {
            return;
        }
        let holder = self.engine.table.clone();
        if let Some(pin) = self.table.begin_write_pinned(frame, holder) {
            self.engine.table.fail_write(frame);
            let since = Instant::now();
            pinned.push(PinnedForLog { pin, since });
        }
    }

    /// Makes the page wait for its log, which is asked for the page's present order.
    fn hold(&mut self, page: PageIndex, file: FileId, held: &Held) -> BeginWrite {
        let Some((n, is_only)) = held.list(page) else {
            return BeginWrite::Busy;
        };
        if is_only && !self.log_blocked.files.contains(&file) {
            self.log_blocked.files.push(file);
        }
        match self.asks.iter_mut().find(|(log, _)| Arc::ptr_eq(log, &held.log)) {
            Some((_, most)) => *most = n.max(*most),
            None => self.asks.push((held.log.clone(), n)),
        }
        BeginWrite::LogBlocked
    }
}

impl CoreGuard<'_> {
    /// Returns the copies to make before a write of pinned pages, or the pins if there is not enough memory for all copies.
    pub(super) fn copy_later(
        &mut self,
        file: &Arc<FileInner>,
        (token, reason): (u64, Reason),
        first: PageIndex,
        frames: &[FrameNo],
    ) -> Result<Copying, Vec<WritePin>> {
        let pages = &mut self.pages;
        let begun: Vec<Begun> = frames.iter().map(|&frame| pages.take_begun(frame)).collect();
        if begun.iter().any(|page| page.slot.is_none()) {
            return Err(begun.into_iter().map(|page| page.pin).collect());
        }
        let left = file.len().saturating_sub(self.engine.offset(first));
        Ok(Copying {
            file: file.clone(),
            token,
            reason,
            first,
            bytes: left.min(frames.len() as u64 * self.engine.page_size.bytes()) as usize,
            pages: begun
                .into_iter()
                .filter_map(|page| Some((page.pin, page.slot?)))
                .collect(),
        })
    }

    /// Unpins pages that have been pinned for their log for too long.
    pub(super) fn unpin_late(&mut self) {
        self.log_blocked
            .pinned
            .retain(|pinned| pinned.since.elapsed() < PINNED_MAX);
    }

    /// Asks the logs again for the records that pages wait for: a log may have failed since.
    pub(super) fn ask_again(&mut self) {
        let core = &*self.held;
        let asks = core.log_blocked.files.iter().filter_map(|&id| listed(core, id));
        self.outbox.asks.extend(asks);
    }
}

pub(super) fn open_file(core: &Core, id: FileId) -> Option<Arc<FileInner>> {
    core.files.get(id.0 as usize)?.clone()
}

/// Returns the log of a file, and the last of its records that a held page waits for.
pub(super) fn listed(core: &Core, id: FileId) -> Option<(Arc<Log>, u64)> {
    let file = open_file(core, id)?;
    let held = file.writeback_rules.held.as_ref()?;
    Some((held.log.clone(), held.last_listed()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogOrder, OpenOptions, PageCache};
    use millpond_core::units::{FileId, PageKey};

    /// The first check passes, then the page gets a later order: a race that no other test meets often enough.
    #[test]
    fn a_page_whose_order_rises_after_the_first_look_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(1 << 20).build().unwrap();
        let log = LogOrder::new();
        let options = OpenOptions::new().create(true).log(&log);
        let file = cache.open(folder.path().join("pages"), options).unwrap();
        file.set_len(4096).unwrap();
        file.page_mut(0).unwrap().set_order(7).unwrap();
        let engine = &*file.cache.engine;
        let begin = || {
            let mut core = engine.core();
            let Core {
                token,
                files,
                pages,
                log_blocked,
                ..
            } = &mut *core;
            let mut asks = Vec::new();
            let mut frames = Frames {
                table: engine.table.locked(token),
                engine,
                files,
                pages,
                log_blocked,
                asks: &mut asks,
            };
            let page = PageIndex(0);
            let frame = frames.lookup(PageKey::new(FileId(0), page)).unwrap();
            let has_begun = frames.begin_pinned(frame, page, &file.inner, None) == BeginWrite::Begun;
            let word = engine.table.word(frame);
            if has_begun {
                drop(pages.begun.pop_back());
                engine.table.fail_write(frame);
            }
            (has_begun, word.is_dirty(), word.pins(), asks.len())
        };
        assert_eq!(
            begin(),
            (false, true, 0, 1),
            "dirty as before, and the log is asked"
        );
        log.advance(7);
        assert_eq!(begin(), (true, false, 1, 0));
    }
}
