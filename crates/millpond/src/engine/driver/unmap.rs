//! Pages leave their regions and mappings, with or without the core lock.
//!
//! ```text
//!   double, write-protected   its copy there is dropped, with others in one call    ─► Out
//!   double, written           the frame's old copy is dropped, then it is moved     ─┬► Out
//!   written, or of a region   moved to its frame, neighbours in one call            ─┴► Stuck: a device reads or writes it
//!   read of a file, not double                                                      ─► Alone: only the mapping and the device
//! ```
//!
//! Each page is taken in hand first: only the thread that took it may change its state there, and a thread that touches it
//! meanwhile waits. A page of a region that is out is `Cached`, until it is evicted. Of a page of a file that is out, its
//! mapping knows nothing: it is `Absent` there.

use super::Engine;
use crate::frames::table::LockedTable;
use crate::memory::{At, Residence, Space, SpaceInner};
use crate::sys::arena::Arena;
use crate::sys::arena::exchange::{Copy, InHand, Stuck};
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};

/// The most pages that one system call moves out.
pub(super) const RUN_MAX: usize = 64;

/// What has become of a page that is to leave its region or mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is still there.
    Mapped,
    /// It has left, and is in its frame.
    Out,
    /// It can't leave at the moment: a device writes into it, or reads its frame.
    Stuck,
    /// The page of a file has no memory in its frame, and must get some or be given up: it is clean, or the program has had the
    /// kernel drop it.
    Alone,
}

/// A page that a region or mapping has, and that a thread has in hand.
pub(super) struct HeldPage {
    pub(super) space: Space,
    pub(super) page: u64,
    pub(super) frame: FrameNo,
    pub(super) fate: Fate,
}

impl HeldPage {
    /// Takes the page in hand, unless it is not there, or another thread has it.
    pub(super) fn take(engine: &Engine, space: &Space, page: u64) -> Option<HeldPage> {
        space.inner().pages.take(page, &[At::Mapped])?;
        let frame = engine.frame_of(space.inner(), page);
        Some(HeldPage::new(space.clone(), page, frame, Fate::Mapped))
    }

    /// A page that the thread has taken in hand.
    pub(super) fn new(space: Space, page: u64, frame: FrameNo, fate: Fate) -> HeldPage {
        HeldPage {
            space,
            page,
            frame,
            fate,
        }
    }

    pub(super) fn inner(&self) -> &SpaceInner {
        self.space.inner()
    }

    pub(super) fn key(&self) -> PageKey {
        PageKey::new(self.inner().id, PageIndex(self.page))
    }

    pub(super) fn in_hand(&self) -> InHand<'_> {
        InHand {
            memory: &self.inner().memory,
            page: self.page,
            frame: self.frame,
        }
    }

    pub(super) fn is_of_file(&self) -> bool {
        matches!(self.space, Space::File(_))
    }

    pub(super) fn residence(&self) -> Residence {
        self.inner().pages.residence(self.page)
    }

    pub(super) fn note(&self, residence: Residence) {
        self.inner().pages.note_residence(self.page, residence);
    }

    /// Returns whether threads may write the page there.
    pub(super) fn is_open(&self) -> bool {
        !self.residence().is_protected
    }

    /// Returns which memory is given up when the page leaves, if it has two.
    fn copy_to_drop(&self) -> Option<Copy<'_>> {
        let residence = self.residence();
        let is_kept = self.is_of_file() && mutation::is(Mutation::MappedCopyIsKept);
        match (
            self.fate == Fate::Mapped && residence.is_double,
            residence.is_protected,
        ) {
            (true, true) if !is_kept => Some(Copy::InRegion(self.in_hand())),
            (true, false) => Some(Copy::InFrame(self.in_hand())),
            _ => None,
        }
    }

    /// Lets go of the page.
    pub(super) fn settle(&self, engine: &Engine, to: At) {
        engine.spaces().settle(self.inner(), self.page, to);
    }

    /// Lets go of the page, wherever it is now. One that is alone stays.
    pub(super) fn let_go(&self, engine: &Engine) {
        let to = match (self.fate, &self.space) {
            (Fate::Out, Space::Region(_)) => At::Cached,
            (Fate::Out, Space::File(_)) => At::Absent,
            _ => At::Mapped,
        };
        self.settle(engine, to);
    }

    fn follows(&self, before: &HeldPage) -> bool {
        self.inner().id == before.inner().id && self.page == before.page + 1
    }
}

/// Returns the pages of a run, `RUN_MAX` at most. The last one is repeated to fill the array.
fn in_hands(run: &[HeldPage]) -> [InHand<'_>; RUN_MAX] {
    std::array::from_fn(|n| run[n.min(run.len() - 1)].in_hand())
}

/// Takes pages out of regions and mappings.
#[derive(Clone, Copy)]
pub(crate) struct Unmap<'a> {
    engine: &'a Engine,
}

impl<'a> Unmap<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Unmap<'a> {
        Unmap { engine }
    }

    /// Takes those of the pages out that are [`Fate::Mapped`], and notes what becomes of each. All stay in hand.
    pub(super) fn unmap(self, held: &mut [HeldPage]) {
        let engine = self.engine;
        if held.iter().all(|page| page.fate != Fate::Mapped) {
            return;
        }
        held.sort_unstable_by_key(|page| (page.inner().id.0, page.page));
        for page in held.iter_mut().filter(|page| page.fate == Fate::Mapped) {
            if page.is_open() && engine.table.word(page.frame).is_writeback() {
                page.fate = Fate::Stuck;
            }
        }
        let copies = held.iter().filter_map(HeldPage::copy_to_drop);
        engine.spaces().exchange.drop_copies(copies);
        for page in held.iter_mut().filter(|page| page.fate == Fate::Mapped) {
            let residence = page.residence();
            match (residence.is_protected, residence.is_double) {
                (true, true) => {
                    if page.is_of_file() {
                        engine.table.unmap(page.frame);
                    }
                    page.fate = Fate::Out;
                }
                (true, false) if page.is_of_file() => page.fate = Fate::Alone,
                // If it stays, it is still write-protected, but the program may have had the kernel drop it.
                _ => {
                    page.note(residence.single());
                    page.inner().pages.note_changed(page.page);
                }
            }
        }
        let is_run = |a: &HeldPage, b: &HeldPage| [a.fate, b.fate] == [Fate::Mapped; 2] && b.follows(a);
        for run in held
            .chunk_by_mut(is_run)
            .filter(|run| run[0].fate == Fate::Mapped)
        {
            run.chunks_mut(RUN_MAX).for_each(|run| self.move_out(run));
        }
    }

    /// Moves pages of a run, which are only in their region or mapping, to their frames.
    fn move_out(self, run: &mut [HeldPage]) {
        let engine = self.engine;
        let mut done = 0;
        while done < run.len() {
            let left = &in_hands(&run[done..])[..run.len() - done];
            let (moved, stuck) = engine.spaces().exchange.move_out(left);
            for page in &mut run[done..done + moved] {
                self.moved(page);
            }
            done += moved;
            if let Some(stuck) = stuck {
                run[done].fate = match stuck {
                    Stuck::Pinned => Fate::Stuck,
                    Stuck::Gone => Fate::Alone,
                };
                done += 1;
            }
        }
    }

    /// Ends the move of a page to its frame, and zeros what threads have stored behind the end of the file.
    pub(super) fn moved(self, page: &mut HeldPage) {
        let engine = self.engine;
        page.fate = Fate::Out;
        let Space::File(mapped) = &page.space else {
            return;
        };
        // The length is read after the page has left, so it includes any extension known to a thread that stored there.
        let (len, start) = (mapped.file.len(), engine.offset(PageIndex(page.page)));
        let inside = len.saturating_sub(start);
        if inside < engine.page_size.bytes() && !mutation::is(Mutation::MappedTailIsKept) {
            let exchange = &engine.spaces().exchange;
            exchange.zero_behind(&page.in_hand(), inside as usize);
        }
        engine.table.shut(page.frame);
    }

    /// Gives pages that are about to leave, and have no place in the arena, places that follow one another.
    pub(super) fn put_together(self, held: &[HeldPage]) {
        let runs = held
            .chunk_by(|a, b| b.follows(a))
            .flat_map(|run| run.chunks(RUN_MAX));
        for run in runs {
            let exchange = &self.engine.spaces().exchange;
            exchange.put_together(&in_hands(run)[..run.len()]);
        }
    }

    /// Frees the frames' memory of these pages, if there is any; they stay where they are.
    pub(super) fn drop_frames(self, held: &[HeldPage]) {
        let doubles = held.iter().filter(|page| page.residence().is_double);
        let copies = doubles.clone().map(|page| Copy::InFrame(page.in_hand()));
        self.engine.spaces().exchange.drop_copies(copies);
        doubles.for_each(|page| page.note(page.residence().single()));
    }

    /// Takes pages out of memory that are only in their mappings, and there are clean or gone.
    pub(super) fn vacate(self, table: &mut LockedTable<'_, Arena>, held: &[HeldPage]) {
        let alone = held.iter().filter(|page| page.fate == Fate::Alone);
        if alone.clone().next().is_none() {
            return;
        }
        alone.clone().for_each(|page| table.vacate(page.frame));
        let exchange = &self.engine.spaces().exchange;
        exchange.discard_each(alone.map(HeldPage::in_hand));
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
        let found = pages
            .iter()
            .filter_map(|&(key, frame)| self.hold_found(key, frame));
        let mut held: Vec<_> = found.collect();
        if held.is_empty() {
            return Vec::new();
        }
        self.unmap(&mut held);
        for page in &mut held {
            if dirty_too && page.fate == Fate::Stuck && !engine.table.word(page.frame).is_writeback() {
                page.fate = Fate::Alone;
            }
        }
        self.vacate(table, &held);
        let mut lost = Vec::new();
        for page in held {
            match page.fate {
                Fate::Alone => {
                    lost.push(page.frame);
                    page.settle(engine, At::Absent);
                }
                _ => page.let_go(engine),
            }
        }
        lost
    }

    /// Takes in hand the page of a file that is in this frame, if a mapping has it.
    pub(super) fn hold_found(self, key: PageKey, frame: FrameNo) -> Option<HeldPage> {
        let engine = self.engine;
        if !engine.table.word(frame).is_mapped() {
            return None;
        }
        let mapped = engine.spaces.as_ref()?.mapped.of(key.file())?;
        let page = key.index().0;
        mapped.space.pages.take(page, &[At::Mapped])?;
        Some(HeldPage::new(Space::File(mapped), page, frame, Fate::Mapped))
    }
}
