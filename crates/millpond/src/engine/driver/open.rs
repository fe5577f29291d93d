//! Pages of mapped files that are written: opened by the first write, shut when the frame is to have them.
//!
//! ```text
//!   a write of a protected page ─► room for a dirty page? ─► in hand ─► EXCLUSIVE, DIRTY ─► Dirtied ─► open
//!                                     no: the thread waits                                             │ written, without us
//!   the flusher, a reader, a scan ─► in hand ─► the frame's old memory goes ─► MOVE to the frame ─► out, dirty
//! ```
//!
//! An open page is like one that a thread has locked for changing, for as long as the mapping has it. It leaves the mapping by
//! `UFFDIO_MOVE` only, which the kernel refuses while a device may write into the page: so no byte is lost that a thread or
//! a device has put there, and what the flusher writes is a page that nobody changes.

use super::leave::{RUN_MAX, in_hands};
use super::mapped::Try;
use super::unmap::Held;
use super::writes::Frames;
use super::{Dirtying, Engine, MappedFault};
use crate::device::Warning;
use crate::files::FileInner;
use crate::memory::mapped::MappedFile;
use crate::memory::{At, Residence};
use crate::sys::arena::exchange::Stuck;
use crate::sys::signals::end_if_told;
use millpond_core::frame::FrameTable;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How soon a thread that may not write a page now looks again: next to nothing beside the seconds until the next try of a
/// disk that is full.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Pages behind one that is to be written that leave the mapping with it: what one system call moves.
const TOGETHER: u64 = 32;

/// What has become of open pages that were to leave their mappings, all still in hand.
pub(super) struct Shut {
    /// They did.
    pub(super) out: Vec<Held>,
    /// They can't at the moment: a device writes into them, or reads what was in their frames.
    pub(super) stuck: Vec<Held>,
    /// The program has had the kernel drop them.
    pub(super) gone: Vec<Held>,
}

impl Engine {
    /// Whether a page of the file may be opened now. `may_wait`: waits for that a while, as the calling thread is the one that
    /// writes it.
    pub(super) fn may_open(&self, mapped: &MappedFile, may_wait: bool) -> bool {
        let file = &mapped.file;
        self.tell_of_stores(mapped);
        if !may_wait {
            return self.may_dirty(file).unwrap_or(false);
        }
        let seen = self.dirtier_events.count();
        let accepted = self.accept(file, Dirtying::Asked, 1);
        let may = accepted.and_then(|_| self.throttle(file)).is_ok();
        if !may {
            end_if_told();
            // It is told by nothing but its wait: a store has no error. A sync has.
            self.dirtier_events.wait(seen, LOOK_AGAIN);
        }
        may
    }

    /// Warns if stores wait because too much of the file can't be written, and was not said yet.
    fn tell_of_stores(&self, mapped: &MappedFile) {
        let refused = self.check_accepts(&mapped.file);
        let waits = &mapped.stores_wait;
        if waits.load(Ordering::Relaxed) == refused.is_err()
            || waits.swap(refused.is_err(), Ordering::Relaxed)
        {
            return;
        }
        if let Err(why) = refused {
            let (path, why) = (mapped.file.path.clone(), why.to_string());
            self.device.warn_soon(Warning::StoresWait { path, why });
        }
    }

    /// The word of a page that we hold says that threads may write it. `false`: not now.
    pub(super) fn open_word(&self, mapped: &MappedFile, page: u64, frame: FrameNo) -> bool {
        // After no other thread can use it: a thread that punches, or makes the file longer, stores that first and then looks
        // for the page.
        let opened = self.table.open(frame, || mapped.file.may_open(page));
        if opened == Some(true) && !mutation::is(Mutation::OpenedPageIsUnknown) {
            self.dirtied(mapped.file.id, PageIndex(page), &[frame]);
        }
        opened.is_some()
    }

    /// A thread writes a write-protected page, which we hold.
    pub(super) fn open_page(&self, mapped: &MappedFile, page: u64, may_wait: bool) -> Try {
        let space = &mapped.space;
        let frame = self.frame_of(space, page);
        let Residence { is_double, .. } = space.pages.residence(page);
        if !self.open_word(mapped, page, frame) {
            self.settle(space, page, At::Mapped);
            if !may_wait {
                return Try::Over(MappedFault::Later);
            }
            let key = PageKey::new(mapped.file.id, PageIndex(page));
            self.watched(&mapped.file, page, |slow| {
                self.table.wait_unpinned(frame, key, slow);
            });
            if !mapped.file.may_open(page) {
                mapped.file.wait_openable(page);
            }
            return Try::Again;
        }
        self.note_open(mapped, page, is_double);
        // If the kernel can't now the thread comes again.
        self.regions().exchange.open(&space.memory, page);
        self.settle(space, page, At::Mapped);
        if is_double {
            self.enqueue_mapped(mapped, page, false);
        }
        Try::Over(MappedFault::Served)
    }

    fn note_open(&self, mapped: &MappedFile, page: u64, is_double: bool) {
        let is_protected = false;
        mapped.space.pages.note_residence(
            page,
            Residence {
                is_double,
                is_protected,
            },
        );
    }

    /// Open pages that we hold leave their mappings: they are in their frames then, and nowhere else.
    pub(super) fn shut(&self, open: Vec<Held>) -> Shut {
        let is_written = |page: &Held| self.table.word(page.frame).is_writeback();
        let (stuck, mut open): (Vec<_>, Vec<_>) = open.into_iter().partition(is_written);
        let (out, gone) = (Vec::with_capacity(open.len()), Vec::new());
        let mut shut = Shut { out, stuck, gone };
        self.drop_old(open.iter());
        open.sort_unstable_by_key(|page| (page.mapped.file.id.0, page.page));
        let mut why_not = vec![None; open.len()];
        let mut at = 0;
        let follows = |a: &Held, b: &Held| a.mapped.file.id == b.mapped.file.id && b.page == a.page + 1;
        for run in open.chunk_by(follows).flat_map(|run| run.chunks(RUN_MAX)) {
            let hands = &in_hands(run, Held::in_hand)[..run.len()];
            let mut done = 0;
            while done < run.len() {
                let (moved, why) = self.regions().exchange.move_out(&hands[done..]);
                done += moved;
                if why.is_some() {
                    why_not[at + done] = why;
                    done += 1;
                }
            }
            at += run.len();
        }
        for (page, why_not) in open.into_iter().zip(why_not) {
            match why_not {
                None => {
                    self.is_shut(&page);
                    shut.out.push(page);
                }
                Some(Stuck::Pinned) => shut.stuck.push(page),
                Some(Stuck::Gone) => shut.gone.push(page),
            }
        }
        shut
    }

    /// The memory that these pages have in their frames, if any, is old: it goes.
    pub(super) fn drop_old<'a>(&self, open: impl Iterator<Item = &'a Held> + Clone) {
        let doubles = open.filter(|page| page.is_double());
        if doubles.clone().next().is_some() {
            let copies = doubles
                .clone()
                .map(|page| crate::sys::arena::exchange::Copy::InFrame(page.in_hand()));
            self.regions().exchange.drop_copies(copies);
            doubles.for_each(|page| self.note_open(&page.mapped, page.page, false));
        }
    }

    /// The page is in its frame. What a thread has stored behind the end of the file is not the file's.
    fn is_shut(&self, page: &Held) {
        // Read after the page has left: a store by a thread that knows of a longer file is before that.
        let (len, start) = (page.mapped.file.len(), self.offset(PageIndex(page.page)));
        let inside = len.saturating_sub(start);
        if inside < self.page_size.bytes() && !mutation::is(Mutation::MappedTailIsKept) {
            self.regions()
                .exchange
                .zero_behind(&page.in_hand(), inside as usize);
        }
        self.table.shut(page.frame);
    }

    /// The page is not open for a moment, and stays so if it [may not be opened](FileInner::may_open).
    pub(crate) fn shut_page(&self, file: &FileInner, page: u64) {
        if self.mapped_of(file).is_none() {
            return;
        }
        let key = PageKey::new(file.id, PageIndex(page));
        // Also such as a thread is about to open.
        let may_be_open = || {
            let frame = self.table.frame_of(key);
            frame.is_some_and(|frame| self.table.word(frame).is_mapped_alone())
        };
        while may_be_open() && self.call_flags.check().is_ok() {
            self.call_one_back(file, page, true);
        }
    }

    /// A page that is open and stays so for long, as the mapping ends: what a device puts there from now on is lost. Whether
    /// it is out: not if there is no memory for that. No device reads what is in its frame.
    pub(super) fn tear_out(&self, page: &Held) -> bool {
        self.drop_old(std::iter::once(page));
        let is_out = self.regions().exchange.copy_away(&page.in_hand());
        if is_out {
            self.is_shut(page);
        }
        is_out
    }
}

impl Frames<'_> {
    /// The page is to be written: it leaves its mapping if it is open there, with those behind it that are. `false`: it can't
    /// now.
    pub(super) fn shut_to_write(&mut self, frame: FrameNo) -> bool {
        let engine = self.engine;
        if !engine.table.word(frame).is_open() {
            return true;
        }
        let first = self.table.key(frame);
        let mut held = Vec::with_capacity(TOGETHER as usize);
        for n in 0..TOGETHER {
            let key = PageKey::new(first.file(), first.index().after(n));
            let Some(next) = self.table.lookup(key) else { break };
            if !engine.table.word(next).is_open() {
                break;
            }
            let Some(page) = engine.hold_found(key, next) else {
                break;
            };
            held.push(page);
        }
        let (open, rest): (Vec<_>, Vec<_>) = held.into_iter().partition(Held::is_open);
        let shut = engine.shut(open);
        engine.settle_held(&shut.out, At::Absent);
        // They are called back after this step, and found to be gone then.
        let gone = shut.gone.iter().map(|page| self.table.key(page.frame));
        self.pages.sampled.extend(gone);
        for stay in [&rest, &shut.stuck, &shut.gone] {
            engine.settle_held(stay, At::Mapped);
        }
        !engine.table.word(frame).is_open()
    }
}
