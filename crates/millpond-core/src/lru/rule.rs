//! The interface between the lists and a replacement rule.
//!
//! ```text
//!   Lru ── an event ──► Rule ── moves pages ──► LruVec: lists, shadows, refault rates
//! ```
//!
//! A new rule is one file with its parameters and an implementation of [`Rule`], one row in `rules`, and its test.

use super::lists::{List, Pages, Past};
use super::refault_rate::RefaultRates;
use super::workingset::{Distance, Workingset};
use super::{Refault, Scanned, Statistics};
use crate::frame::FrameTable;
use crate::page::PageKind;
use crate::range::OutOfRange;
use crate::units::{FileId, FrameNo, Nanos, PageCount, PageKey};
use alloc::vec::Vec;

/// What all rules work on (Linux's `struct lruvec`): the pages in memory on their lists, and what is known of others.
#[derive(Clone, Debug)]
pub(super) struct LruVec {
    pub(super) memory: PageCount,
    pub(super) pages: Pages,
    pub(super) workingset: Workingset,
    pub(super) refault_rates: RefaultRates,
    pub(super) statistics: Statistics,
}

impl LruVec {
    /// Pages on the active list.
    pub(super) fn active(&self) -> PageCount {
        PageCount(self.pages.len(List::Active))
    }

    /// Pages on the inactive list, including those in their window.
    pub(super) fn inactive(&self) -> PageCount {
        PageCount(
            [List::Inactive, List::Window, List::NoReuse]
                .map(|list| self.pages.len(list))
                .iter()
                .sum(),
        )
    }

    /// What was opened as a file is one; everything else is a region.
    pub(super) fn kind(&self, file: FileId) -> PageKind {
        if self.refault_rates.is_file(file) {
            PageKind::File
        } else {
            PageKind::Anonymous
        }
    }

    /// An isolated page has left memory, and leaves a shadow.
    pub(super) fn evicted(&mut self, frame: FrameNo, key: PageKey, ages_before: bool) {
        self.pages.forget_isolated(frame);
        let was_active = self.pages.page(frame).past == Past::Demoted;
        self.workingset.evicted(key, was_active, ages_before);
        self.refault_rates.evicted(key.file(), self.memory);
    }
}

/// A replacement rule: which list a page goes to, and which page leaves. The methods are those of [`Lru`](super::Lru) of
/// the same name; those with a body are for rules that need them.
pub(super) trait Rule {
    /// Its parameters.
    type Options;

    /// The lists that it has no pages on. Those that are there go to [`List::Inactive`] when it takes over.
    const UNUSED_LISTS: &[List];

    /// The rule for so much memory. It has learned nothing yet.
    fn new(options: Self::Options, memory: PageCount) -> Self;

    /// # Errors
    /// [`OutOfRange`] for the first option out of range.
    fn check(options: &Self::Options) -> Result<(), OutOfRange>;

    /// A page that left a shadow was missed. Whether so soon that it belongs on the active list.
    fn refault(&mut self, lruvec: &mut LruVec, distance: &Distance, file: FileId) -> bool;

    /// Puts a page that enters memory onto a list.
    fn insert(
        &mut self,
        lruvec: &mut LruVec,
        page: (FrameNo, PageKey),
        refault: Refault,
        first_use: bool,
        frames: &mut impl FrameTable,
    );

    /// Scans one batch, and isolates victims.
    fn isolate(
        &mut self,
        lruvec: &mut LruVec,
        priority: u32,
        batch: u64,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned;

    /// How many pages a pass of the highest effort may scan for victims.
    fn offered(&self, lruvec: &LruVec) -> u64;

    /// Memory has another size.
    fn resized(&mut self, _before: PageCount, _now: PageCount) {}

    /// An isolated page went back onto the active list.
    fn activated(&mut self, _lruvec: &mut LruVec) {}

    /// Whether a shadow holds the age before its own eviction was counted.
    fn ages_before_eviction(&self) -> bool {
        false
    }

    /// A page was used, if the driver says so at once.
    fn mark_accessed(&mut self, _lruvec: &mut LruVec, _frame: FrameNo) {}

    /// Whether the file's pages are to be inserted by `insert_no_reuse`.
    fn detect_no_reuse(&mut self, _lruvec: &mut LruVec, _file: FileId) -> bool {
        false
    }

    /// Puts a page of such a file, which a caller wants, onto a list.
    fn insert_no_reuse(
        &mut self,
        lruvec: &mut LruVec,
        page: (FrameNo, PageKey),
        frames: &mut impl FrameTable,
    ) {
        self.insert(lruvec, page, Refault::NEW, true, frames);
    }

    /// Puts a page that a background task reads onto a list.
    fn insert_background(
        &mut self,
        lruvec: &mut LruVec,
        page: (FrameNo, PageKey),
        frames: &mut impl FrameTable,
    ) {
        self.insert(lruvec, page, Refault::NEW, false, frames);
    }

    fn is_sorting_out_no_reuse(&self) -> bool {
        false
    }

    fn read_took(&mut self, _kind: PageKind, _took: Nanos) {}

    fn refault_costs(&self) -> RefaultCosts {
        RefaultCosts::default()
    }

    /// The inactive list's length aimed at.
    fn inactive_target(&self) -> Option<PageCount> {
        None
    }

    /// # Panics
    /// If what it remembers is inconsistent.
    fn validate(&self, _lruvec: &LruVec) {}
}

/// The current refault cost of each kind, and which kind it favors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RefaultCosts {
    /// Mean latency of file reads that a caller waited for, over about the last 32. Zero before the first.
    pub file: Nanos,
    /// The same for reads of regions, from swap.
    pub region: Nanos,
    /// The scan balance: this many of 1000 would-be victims of regions stay for a lap; if negative, of files.
    pub scan_balance_per_mille: i32,
}
