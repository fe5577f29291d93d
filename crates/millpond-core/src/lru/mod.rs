//! Which page to evict next.
//!
//! Pages in memory are on lists. A scan takes victims from the cold end and sees how often each page was used since it
//! was last scanned. A hit never enters this module: it leaves a count in the frame's word, which the scan collects
//! through [`FrameTable::test_and_clear_accessed`].
//!
//! The life of a page here:
//! 1. [`Lru::refault`]: the page is missing. Its shadow, if it left one, tells how much too early it was evicted. Call
//!    this before making room for the page, because making room ages the shadow.
//! 2. [`Lru::isolate`] until there is room: it takes batches of victims. The caller evicts each one ([`Lru::evicted`])
//!    or, if it is dirty, pinned or changed, puts it back ([`Lru::put_back`]).
//! 3. [`Lru::insert`]: the page goes onto a list chosen by its shadow.
//! 4. Hits, which the core does not see. The scan meets the page, and moves or takes it.
//!
//! `linux` and `millpond` hold the rules, `rule` says what a rule is, `rules` which there are; `lists` has the pages in memory,
//! `workingset` the shadows of evicted pages.
//! Metadata is 28 bytes a frame: 8 of links, 4 of memory, 16 of shadow. Every operation on one page takes constant time
//! and allocates nothing. Only [`Lru::new`], [`Lru::resize`] and [`Lru::set_replacement`] cost more.

mod linux;
mod lists;
mod millpond;
#[cfg(test)]
mod model_tests;
mod refault_rate;
mod rule;
mod rules;
#[cfg(test)]
mod tests;
mod workingset;

pub use linux::{Detection, InactiveRatio, LinuxOptions, Promotion};
pub use lists::List;
pub use millpond::{MillpondOptions, RANGES};
pub use rule::RefaultCosts;
pub use rules::Replacement;

use crate::frame::FrameTable;
use crate::page::PageKind;
use crate::units::{FileId, FrameNo, Nanos, PageCount, PageKey};
use alloc::vec::Vec;
use lists::Pages;
use refault_rate::RefaultRates;
use rule::{LruVec, Rule};
use rules::{Configured, with_rule};
use workingset::Workingset;

/// The scan's lowest effort. At priority `p` a pass looks at `size >> p` pages of a list (Linux's `DEF_PRIORITY`).
pub const PRIORITY_LOWEST_EFFORT: u32 = 12;

/// The pages of one cache and their replacement rule.
#[derive(Clone, Debug)]
pub struct Lru {
    replacement: Replacement,
    lruvec: LruVec,
    rule: Configured,
}

/// What is known about a missing page. Returned by [`Lru::refault`], passed to [`Lru::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use = "the shadow was taken: `insert` needs what it said"]
pub struct Refault {
    distance: Option<PageCount>,
    recent: bool,
    workingset: bool,
    /// Memory that was never touched: its first touch is not a miss.
    begins: bool,
}

impl Refault {
    /// Nothing is known: the page was never evicted, or its shadow is gone.
    pub const NEW: Refault = Refault {
        distance: None,
        recent: false,
        workingset: false,
        begins: false,
    };

    /// The same for memory that was never touched before.
    pub(crate) fn of_new_memory(self) -> Refault {
        Refault { begins: true, ..self }
    }

    /// How many more pages memory would have needed to keep the page, if it left a shadow.
    pub fn distance(&self) -> Option<PageCount> {
        self.distance
    }

    /// Whether the refault came so soon that the active list should make room for it.
    pub fn is_recent(&self) -> bool {
        self.recent
    }
}

/// What one scan batch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// Pages scanned at the cold end of the inactive list, victims included: the kernel's `pgscan`.
    pub scanned: u64,
    /// Pages scanned at the cold end of the active list: `pgrefill`.
    pub refilled: u64,
    /// Pages among `scanned` that moved to the active list.
    pub activated: u64,
    /// Pages among `refilled` that moved to the inactive list.
    pub deactivated: u64,
    /// Pages that got another lap on their list.
    pub rotated: u64,
}

/// Where to put back an isolated page that is not evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutBack {
    /// At the warm end of the inactive list: it is dirty, or could not be examined.
    WarmInactive,
    /// At the cold end of the inactive list, as the next victim.
    ColdInactive,
    /// On the active list: it is in use.
    Active,
}

crate::stats::counters! {
    /// Counters in pages since the cache was created, named as in the kernel where it has them.
    pub struct Statistics {
        /// Pages that moved from the inactive to the active list.
        linux pgactivate,
        /// Pages that moved from the active to the inactive list.
        linux pgdeactivate,
        /// Pages scanned on the active list.
        linux pgrefill,
        /// Pages moved to the cold end after their write ended.
        linux pgrotated,
        /// Missing pages, of files and regions, that had left a shadow.
        linux workingset_refault_file,
        /// Of those, pages that came back soon enough to become active.
        linux workingset_activate_file,
        /// Of those, pages that had been active.
        linux workingset_restore_file,
        /// Missing pages without a shadow that bimodal insertion put on the active list.
        own bimodal_activate_file,
        /// Pages of no-reuse files, admitted for the correlated-reference window only.
        own no_reuse_file,
        /// Would-be victims that stayed for a lap because pages of their kind (file or region) cost more to refault.
        own scan_balance_rotated,
    }
    by reason {}
    not shown {}
}

impl Lru {
    /// Creates an empty LRU for `frames` frames, numbered from 0. Allocates 28 bytes a frame.
    ///
    /// # Panics
    /// If a number in `replacement` is out of range. [`Replacement::check`] tests that.
    pub fn new(replacement: Replacement, frames: PageCount) -> Lru {
        assert_in_range(&replacement);
        let count = frame_count(frames);
        Lru {
            replacement,
            lruvec: LruVec {
                memory: frames,
                pages: Pages::new(count),
                workingset: Workingset::new(count),
                refault_rates: RefaultRates::default(),
                statistics: Statistics::default(),
            },
            rule: Configured::new(replacement, frames),
        }
    }

    /// Changes the memory size to `frames` pages. Pages and most shadows stay. A caller that shrinks memory evicts the
    /// excess. Frame numbers stay valid. Cost: proportional to the number of frames, because the shadow table is
    /// rebuilt: 30 to 50 ns a frame on a busy machine.
    pub fn resize(&mut self, frames: PageCount) {
        let count = frame_count(frames);
        with_rule!(&mut self.rule, rule => rule.resized(self.lruvec.memory, frames));
        self.lruvec.memory = frames;
        self.lruvec.pages.grow(count);
        self.lruvec.workingset.resize(count);
    }

    /// Switches to another replacement rule. Pages stay in memory on their lists, and shadows stay. What the old rule
    /// had learned is lost, unless the new rule is the same. Cost: constant, except that a rule without a window has to
    /// take over the pages in their window (at most 10 % of memory).
    ///
    /// # Panics
    /// If a number in `replacement` is out of range. [`Replacement::check`] tests that.
    pub fn set_replacement(&mut self, replacement: Replacement) {
        assert_in_range(&replacement);
        if replacement == self.replacement {
            return;
        }
        self.replacement = replacement;
        self.rule = Configured::new(replacement, self.lruvec.memory);
        for &list in self.rule.unused_lists() {
            while let Some(frame) = self.lruvec.pages.cold(list) {
                self.lruvec.pages.move_to_warm(frame, list, List::Inactive);
            }
        }
    }

    /// The current rule.
    pub fn replacement(&self) -> &Replacement {
        &self.replacement
    }

    /// Prefetches, for all `keys` at once, what [`Lru::refault`] or [`Lru::evicted`] will look up. Only a speed-up: it
    /// changes no result.
    pub fn fetch(&self, keys: impl Iterator<Item = PageKey>) {
        self.lruvec.workingset.fetch(keys);
    }

    /// Takes the shadow of a missing page. Call it once, before making room for the page, and pass the result to
    /// [`Lru::insert`]. One or two lookups in the shadow table.
    pub fn refault(&mut self, key: PageKey) -> Refault {
        let lruvec = &mut self.lruvec;
        let Some(distance) = lruvec.workingset.take(key) else {
            return Refault::NEW;
        };
        lruvec.statistics.workingset_refault_file += 1;
        let recent = with_rule!(&mut self.rule, rule => rule.refault(lruvec, &distance, key.file()));
        if recent {
            lruvec.refault_rates.refaulted(key.file());
        }
        Refault {
            distance: Some(PageCount(distance.pages.into())),
            recent,
            workingset: distance.workingset,
            begins: false,
        }
    }

    /// As [`Lru::refault`], of a page that a background task reads: that says nothing of what is used again.
    pub fn no_refault(&mut self, key: PageKey) -> Refault {
        let _ = self.lruvec.workingset.take(key);
        Refault::NEW
    }

    /// Page `key` enters memory. `first_use`: the read or write that touches it brings it in, as opposed to read-ahead.
    /// That use must not be in the frame's word, which counts only later uses.
    ///
    /// # Panics
    /// If the frame already holds a page, or is not in this cache.
    pub fn insert(
        &mut self,
        frame: FrameNo,
        key: PageKey,
        refault: Refault,
        first_use: bool,
        frames: &mut impl FrameTable,
    ) {
        let (lruvec, page) = (&mut self.lruvec, (frame, key));
        with_rule!(&mut self.rule, rule => rule.insert(lruvec, page, refault, first_use, frames));
    }

    /// Finds out whether `file` is a no-reuse file, and begins to sort out its pages if that is news. Its pages that a caller
    /// wants, and that are no recent refaults, are to be inserted by [`Lru::insert_no_reuse`]. Linux's rule knows no such
    /// files.
    pub fn detect_no_reuse(&mut self, file: FileId) -> bool {
        with_rule!(&mut self.rule, rule => rule.detect_no_reuse(&mut self.lruvec, file))
    }

    /// [`Lru::insert`] of a page of a [no-reuse file](Lru::detect_no_reuse).
    ///
    /// # Panics
    /// As [`Lru::insert`].
    pub fn insert_no_reuse(&mut self, frame: FrameNo, key: PageKey, frames: &mut impl FrameTable) {
        let (lruvec, page) = (&mut self.lruvec, (frame, key));
        with_rule!(&mut self.rule, rule => rule.insert_no_reuse(lruvec, page, frames));
    }

    /// [`Lru::insert`] of a page that a background task reads.
    ///
    /// # Panics
    /// As [`Lru::insert`].
    pub fn insert_background(&mut self, frame: FrameNo, key: PageKey, frames: &mut impl FrameTable) {
        let (lruvec, page) = (&mut self.lruvec, (frame, key));
        with_rule!(&mut self.rule, rule => rule.insert_background(lruvec, page, frames));
    }

    /// Whether reclaim is at pages of no-reuse files that came in before that was found.
    pub fn is_sorting_out_no_reuse(&self) -> bool {
        with_rule!(&self.rule, rule => rule.is_sorting_out_no_reuse())
    }

    /// A caller has waited this long for a read of a page of this kind.
    pub fn read_took(&mut self, kind: PageKind, took: Nanos) {
        with_rule!(&mut self.rule, rule => rule.read_took(kind, took));
    }

    /// The current refault costs, and which kind of page they favor.
    pub fn refault_costs(&self) -> RefaultCosts {
        with_rule!(&self.rule, rule => rule.refault_costs())
    }

    /// A file takes this number. Allocates what is remembered about files.
    pub fn opened(&mut self, file: FileId) {
        self.lruvec.refault_rates.opened(file);
    }

    /// The file is closed. Another file may take its number.
    pub fn closed(&mut self, file: FileId) {
        self.lruvec.refault_rates.closed(file);
    }

    /// How many pages a pass at `priority` may scan for victims. The caller repeats [`Lru::isolate`] until `scanned`
    /// adds up to this, then takes the next lower priority, down to 0. Linux counts inactive pages. Millpond, whose
    /// inactive list may be short, counts all pages.
    pub fn quota(&self, priority: u32) -> PageCount {
        let offered = with_rule!(&self.rule, rule => rule.offered(&self.lruvec));
        PageCount(share_at(priority, offered))
    }

    /// Scans one batch: at most `batch` pages of a list, and no more than its quota. Victims are taken off their list
    /// (isolated) and appended to `victims` in eviction order. The caller must give back each one through
    /// [`Lru::evicted`], [`Lru::put_back`] or [`Lru::remove`]. Used pages move to where they belong. Without spare
    /// capacity for `batch` entries `victims` allocates.
    ///
    /// A batch without victims is not a failure: it has moved something unless both `scanned` and `refilled` are zero.
    /// In that case only a lower priority helps, and at priority 0 no list has a page left.
    pub fn isolate(
        &mut self,
        priority: u32,
        batch: usize,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned {
        let (lruvec, batch) = (&mut self.lruvec, batch as u64);
        let scanned =
            with_rule!(&mut self.rule, rule => rule.isolate(lruvec, priority, batch, frames, victims));
        lruvec.statistics.pgactivate += scanned.activated;
        lruvec.statistics.pgdeactivate += scanned.deactivated;
        lruvec.statistics.pgrefill += scanned.refilled;
        scanned
    }

    /// An isolated page stays in memory.
    ///
    /// # Panics
    /// If the page is not isolated.
    pub fn put_back(&mut self, frame: FrameNo, put_back: PutBack) {
        let lruvec = &mut self.lruvec;
        match put_back {
            PutBack::WarmInactive => lruvec.pages.put_back(frame, List::Inactive, false),
            PutBack::ColdInactive => lruvec.pages.put_back(frame, List::Inactive, true),
            PutBack::Active => {
                lruvec.pages.put_back(frame, List::Active, false);
                lruvec.statistics.pgactivate += 1;
                with_rule!(&mut self.rule, rule => rule.activated(lruvec));
            }
        }
    }

    /// An isolated page has left memory. `key` leaves a shadow, unless that would displace a younger one.
    ///
    /// # Panics
    /// If the page is not isolated.
    pub fn evicted(&mut self, frame: FrameNo, key: PageKey) {
        let ages_before = with_rule!(&self.rule, rule => rule.ages_before_eviction());
        self.lruvec.evicted(frame, key, ages_before);
    }

    /// A page was truncated, discarded or given up, while on any list or isolated. It leaves no shadow.
    ///
    /// # Panics
    /// If the frame holds no page.
    pub fn remove(&mut self, frame: FrameNo) {
        self.lruvec.pages.forget(frame);
    }

    /// The write of a page to be evicted once clean has ended: the page becomes the next victim. It may be on the
    /// active list, where the scan put it to avoid meeting it again in the meantime (Linux 7.0,
    /// `folio_rotate_reclaimable` and the activation in `shrink_folio_list`). Returns whether it moved; an isolated
    /// page does not.
    pub fn rotate_to_cold(&mut self, frame: FrameNo) -> bool {
        match self.lruvec.pages.list_of(frame) {
            Some(list) => {
                self.lruvec.pages.move_to_cold(frame, list, List::Inactive);
                self.lruvec.statistics.pgrotated += 1;
                true
            }
            None => false,
        }
    }

    /// Reports a hit immediately. Only for Linux with [`Promotion::Immediate`], in the simulator. Under any other rule
    /// the scan collects hits, and this does nothing.
    pub fn mark_accessed(&mut self, frame: FrameNo) {
        with_rule!(&mut self.rule, rule => rule.mark_accessed(&mut self.lruvec, frame));
    }

    /// Pages on the active list.
    pub fn active(&self) -> PageCount {
        self.lruvec.active()
    }

    /// Pages on the inactive list, including those in their window.
    pub fn inactive(&self) -> PageCount {
        self.lruvec.inactive()
    }

    /// Pages that [`Lru::isolate`] took and were not given back yet.
    pub fn isolated(&self) -> PageCount {
        self.lruvec.pages.isolated()
    }

    /// Pages that were evicted and are remembered.
    pub fn shadows(&self) -> PageCount {
        PageCount(self.lruvec.workingset.len())
    }

    /// The target length of the inactive list under Millpond's rule; `None` under any other.
    pub fn inactive_target(&self) -> Option<PageCount> {
        with_rule!(&self.rule, rule => rule.inactive_target())
    }

    /// The list holding `frame`; `None` if it is isolated or holds no page.
    pub fn list_of(&self, frame: FrameNo) -> Option<List> {
        self.lruvec.pages.list_of(frame)
    }

    /// The pages of a list, next victim first.
    pub fn iter_from_cold(&self, list: List) -> impl Iterator<Item = FrameNo> + '_ {
        self.lruvec.pages.iter_from_cold(list)
    }

    /// Counters since the cache was created.
    pub fn statistics(&self) -> &Statistics {
        &self.lruvec.statistics
    }

    /// Bytes used by lists, per-page memory and shadows.
    pub fn metadata_bytes(&self) -> u64 {
        self.lruvec.pages.metadata_bytes() + self.lruvec.workingset.metadata_bytes()
    }

    /// Recomputes all counters and checks every list and shadow. Cost: proportional to memory.
    ///
    /// # Panics
    /// If anything is inconsistent.
    pub fn validate(&self) {
        self.lruvec.pages.validate();
        self.lruvec.workingset.validate();
        with_rule!(&self.rule, rule => rule.validate(&self.lruvec));
        for &list in self.rule.unused_lists() {
            assert_eq!(self.lruvec.pages.len(list), 0, "the rule has no {list:?} list");
        }
    }
}

#[cfg(test)]
impl Lru {
    /// Turns off bimodal insertion, so that pages leave in the order in which they came.
    pub(crate) fn admit_none(&mut self) {
        self.millpond_mut().bimodal.share = 0;
    }

    /// Memory for fewer pages than there are frames, so that a page's name can be that of its frame.
    fn set_memory(&mut self, memory: PageCount) {
        with_rule!(&mut self.rule, rule => rule.resized(self.lruvec.memory, memory));
        self.lruvec.memory = memory;
    }

    fn millpond(&self) -> &millpond::Millpond {
        match &self.rule {
            Configured::Millpond(rule) => rule,
            rule => panic!("the rule is {rule:?}"),
        }
    }

    fn millpond_mut(&mut self) -> &mut millpond::Millpond {
        match &mut self.rule {
            Configured::Millpond(rule) => rule,
            rule => panic!("the rule is {rule:?}"),
        }
    }
}

/// The number of pages that a pass at `priority` may scan on a list of `len` pages.
#[inline]
fn share_at(priority: u32, len: u64) -> u64 {
    debug_assert!(
        priority <= PRIORITY_LOWEST_EFFORT,
        "priority {priority}, lowest effort is {PRIORITY_LOWEST_EFFORT}"
    );
    len >> priority
}

fn assert_in_range(replacement: &Replacement) {
    if let Err(error) = replacement.check() {
        panic!("{error}");
    }
}

fn frame_count(frames: PageCount) -> usize {
    assert!(
        frames.0 < u64::from(u32::MAX),
        "{frames:?} do not fit 32-bit frame numbers"
    );
    frames.0 as usize
}
