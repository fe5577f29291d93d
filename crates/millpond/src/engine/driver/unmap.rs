//! Pages of mapped files leave their mappings, with or without the core lock.
//!
//! ```text
//!   twin ─► the mapping's copy is dropped, with others in one call ─► out
//!   in   ─► called back (`call_back.rs`): copied to the frame ─► twin ─► …
//!                └─ no memory for that, or it is to leave memory ─► gone, the device has it
//!   open ─► moved to the frame ─► out
//! ```
//!
//! Each page is taken in hand first: only the thread that took it may change its state in the mapping, and a thread that
//! touches it meanwhile waits.

use super::Engine;
use super::leave::{RUN_MAX, in_hands};
use super::writes::Frames;
use crate::frames::table::LockedTable;
use crate::memory::mapped::MappedFile;
use crate::memory::{At, RegionInner, Residence, Tables};
use crate::sys::arena::Arena;
use crate::sys::arena::exchange::{Copy, InHand, Stuck};
use millpond_core::frame::FrameTable;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::sync::Arc;

/// The most pages that leave the mapping together when the first is to be written: what one system call moves.
const TOGETHER: u64 = 32;

/// A page that a mapping has, and a thread has in hand.
pub(super) struct Held {
    pub(super) mapped: Arc<MappedFile>,
    pub(super) page: u64,
    pub(super) frame: FrameNo,
}

/// What became of open pages that should leave their mappings. All are still in hand.
pub(super) struct Shut {
    /// These have left.
    pub(super) out: Vec<Held>,
    /// These can't leave at the moment: a device writes into them, or reads their frames.
    pub(super) stuck: Vec<Held>,
    /// The program has had the kernel drop these.
    pub(super) gone: Vec<Held>,
}

impl Held {
    pub(super) fn in_hand(&self) -> InHand<'_> {
        InHand {
            memory: &self.mapped.space.memory,
            page: self.page,
            frame: self.frame,
        }
    }

    pub(super) fn space(&self) -> &RegionInner {
        &self.mapped.space
    }

    pub(super) fn is_double(&self) -> bool {
        self.space().pages.residence(self.page).is_double
    }

    /// Returns whether threads may write the page in the mapping.
    pub(super) fn is_open(&self) -> bool {
        !self.space().pages.residence(self.page).is_protected
    }

    pub(super) fn note(&self, is_double: bool) {
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

/// Takes pages out of mappings.
#[derive(Clone, Copy)]
pub(crate) struct Unmap<'a> {
    engine: &'a Engine,
}

impl<'a> Unmap<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Unmap<'a> {
        Unmap { engine }
    }

    pub(super) fn note_open(self, mapped: &MappedFile, page: u64, is_double: bool) {
        let is_protected = false;
        mapped.space.pages.note_residence(
            page,
            Residence {
                is_double,
                is_protected,
            },
        );
    }

    /// Moves open pages that we hold from their mappings to their frames; they are nowhere else then.
    pub(super) fn shut(self, open: Vec<Held>) -> Shut {
        let engine = self.engine;
        let is_written = |page: &Held| engine.table.word(page.frame).is_writeback();
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
                let (moved, why) = engine.regions().exchange.move_out(&hands[done..]);
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

    /// Frees the frames' memory of these pages, if there is any: its content is old.
    pub(super) fn drop_old(self, open: impl Iterator<Item = &'a Held> + Clone) {
        let engine = self.engine;
        let doubles = open.filter(|page| page.is_double());
        if doubles.clone().next().is_some() {
            let copies = doubles.clone().map(|page| Copy::InFrame(page.in_hand()));
            engine.regions().exchange.drop_copies(copies);
            doubles.for_each(|page| self.note_open(&page.mapped, page.page, false));
        }
    }

    /// Ends the move of a page to its frame, and zeros what threads have stored behind the end of the file.
    pub(super) fn is_shut(self, page: &Held) {
        let engine = self.engine;
        // The length is read after the page has left, so it includes any extension known to a thread that stored there.
        let (len, start) = (page.mapped.file.len(), engine.offset(PageIndex(page.page)));
        let inside = len.saturating_sub(start);
        if inside < engine.page_size.bytes() && !mutation::is(Mutation::MappedTailIsKept) {
            engine
                .regions()
                .exchange
                .zero_behind(&page.in_hand(), inside as usize);
        }
        engine.table.shut(page.frame);
    }

    /// Drops the mappings' copies of twins.
    pub(super) fn unmap_twins(self, twins: &[Held]) {
        let engine = self.engine;
        if twins.is_empty() {
            return;
        }
        let copies = twins.iter().map(|page| Copy::InRegion(page.in_hand()));
        if !mutation::is(Mutation::MappedCopyIsKept) {
            engine.regions().exchange.drop_copies(copies);
        }
        twins.iter().for_each(|page| engine.table.unmap(page.frame));
    }

    /// Takes pages out of memory that are only in their mappings, and there are clean or gone.
    pub(super) fn vacate_held(self, table: &mut LockedTable<'_, Arena>, held: &[Held]) {
        let engine = self.engine;
        held.iter().for_each(|page| table.vacate(page.frame));
        let exchange = &engine.regions().exchange;
        exchange.discard_each(held.iter().map(Held::in_hand));
    }

    pub(super) fn settle_held(self, held: &[Held], to: At) {
        let engine = self.engine;
        held.iter()
            .for_each(|page| engine.regions().settle(page.space(), page.page, to));
    }

    /// Takes pages of a file, which are to leave memory, out of its mapping, except those that other threads have in hand.
    /// Returns the frames of the pages that are given up and already out of the table; with `dirty_too` also those into
    /// which a device writes. The caller has the core lock.
    pub(super) fn unmap_found(
        self,
        table: &mut LockedTable<'_, Arena>,
        pages: &[(PageKey, FrameNo)],
        dirty_too: bool,
    ) -> Vec<FrameNo> {
        let engine = self.engine;
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
            let goes = |page: &Held| dirty_too && !engine.table.word(page.frame).is_writeback();
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

    pub(super) fn hold_found(self, key: PageKey, frame: FrameNo) -> Option<Held> {
        let engine = self.engine;
        if !engine.table.word(frame).is_mapped() {
            return None;
        }
        let (mapped, page) = (engine.regions.as_ref()?.mapped.of(key.file())?, key.index().0);
        mapped.space.pages.take(page, &[At::Mapped])?;
        Some(Held { mapped, page, frame })
    }
}

impl Frames<'_> {
    /// Takes a page that is to be written out of its mapping, if it is open there, together with open pages behind it.
    /// `false`: it can't leave now.
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
            let Some(page) = Unmap::of(engine).hold_found(key, next) else {
                break;
            };
            held.push(page);
        }
        let (open, rest): (Vec<_>, Vec<_>) = held.into_iter().partition(Held::is_open);
        let shut = Unmap::of(engine).shut(open);
        Unmap::of(engine).settle_held(&shut.out, At::Absent);
        // These are called back after this step, which then finds them gone.
        let gone = shut.gone.iter().map(|page| self.table.key(page.frame));
        self.pages.sampled.extend(gone);
        for stay in [&rest, &shut.stuck, &shut.gone] {
            Unmap::of(engine).settle_held(stay, At::Mapped);
        }
        !engine.table.word(frame).is_open()
    }

    /// As the table's `evict`, for caches with mapped files.
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
            self.engine.regions().settle(page.space(), page.page, At::Absent);
            self.engine
                .regions()
                .free_table(page.space(), Tables::of(page.page));
        }
    }

    /// Takes those of the victims that are mapped out of their mappings, unless they were used since the core asked.
    /// Returns the pages in hand, and the frames of those that left the table with that.
    fn unmap_victims(&mut self, frames: &[FrameNo]) -> (Vec<Held>, Vec<FrameNo>) {
        let engine = self.engine;
        let mut held = Vec::new();
        for &frame in frames {
            let word = engine.table.word(frame);
            if word.is_mapped() && !word.is_dirty() && !engine.table.was_used(frame) {
                held.extend(Unmap::of(engine).hold_found(self.table.key(frame), frame));
            }
        }
        if held.is_empty() {
            return (Vec::new(), Vec::new());
        }
        // Pages that are only in their mappings get no memory in their frames: they would lose it at once.
        let (mut held, alone): (Vec<_>, Vec<_>) = held.into_iter().partition(Held::is_double);
        Unmap::of(engine).unmap_twins(&held);
        Unmap::of(engine).vacate_held(&mut self.table, &alone);
        let gone = alone.iter().map(|page| page.frame).collect();
        held.extend(alone);
        (held, gone)
    }
}
