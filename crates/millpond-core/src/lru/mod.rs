//! Which page goes next.
//!
//! Pages in memory are on lists; a scan takes victims from the cold end and sees, when it meets a page, how often
//! the page was used since it was met last. A hit therefore never comes here: it leaves a count in the frame's
//! word, and the scan harvests it through [`FrameTable::test_and_clear_accessed`].
//!
//! A page on its way in and out again:
//! 1. [`Lru::refault`]: it is missing. Its shadow, if it left one, says how much too early it was evicted. Asked
//!    before room is made for it, because making room would age the shadow.
//! 2. [`Lru::isolate`] until there is room: batches of victims, which the caller evicts ([`Lru::evicted`]) or, if
//!    they are dirty, pinned or changed, puts back ([`Lru::put_back`]).
//! 3. [`Lru::insert`]: onto a list, by what its shadow said.
//! 4. Hits, of which the core is not told; the scan meets it, moves it or takes it.
//!
//! `linux` and `millpond` hold the rules, `lists` the pages in memory, `workingset` the shadows of those that left.
//! Metadata is 28 bytes a frame: 8 of links, 4 of memory, 16 of shadow. Every operation on one page takes constant
//! time and allocates nothing; only [`Lru::new`], [`Lru::resize`] and [`Lru::set_replacement`] do more.

mod cost;
mod linux;
mod lists;
mod millpond;
#[cfg(test)]
mod model_tests;
mod no_reuse;
mod options;
mod refault_rate;
mod sampling_batch;
#[cfg(test)]
mod tests;
mod workingset;

pub use cost::RefaultCosts;
pub use lists::List;
pub use options::{Detection, InactiveRatio, LinuxOptions, MillpondOptions, Promotion, RANGES, Replacement};

use crate::frame::FrameTable;
use crate::units::{FileId, FrameNo, PageCount, PageKey};
use alloc::vec::Vec;
use cost::Cost;
use lists::{Pages, Past};
use refault_rate::RefaultRates;
use workingset::Workingset;

/// The scan's lowest effort: at priority `p` a pass looks at `size >> p` pages of a list (`DEF_PRIORITY` of Linux).
pub const PRIORITY_LOWEST_EFFORT: u32 = 12;

/// The pages of one cache, and the rule by which they are replaced.
#[derive(Clone, Debug)]
pub struct Lru {
    replacement: Replacement,
    memory: PageCount,
    pages: Pages,
    workingset: Workingset,
    refault_rates: RefaultRates,
    cost: Cost,
    linux: linux::State,
    millpond: millpond::State,
    statistics: Statistics,
}

/// What is known of a page that was missing. From [`Lru::refault`], for [`Lru::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use = "the shadow was taken: `insert` needs what it said"]
pub struct Refault {
    distance: Option<PageCount>,
    recent: bool,
    workingset: bool,
    /// Memory that was never touched before: it is not missed, it begins.
    begins: bool,
}

impl Refault {
    /// Nothing: the page was never evicted, or so long ago that it is forgotten.
    pub const NEW: Refault = Refault {
        distance: None,
        recent: false,
        workingset: false,
        begins: false,
    };

    /// The same of memory that was never touched before.
    pub(crate) fn of_new_memory(self) -> Refault {
        Refault { begins: true, ..self }
    }

    /// How many pages more memory would have had to hold to keep the page, if it left a shadow.
    pub fn distance(&self) -> Option<PageCount> {
        self.distance
    }

    /// Whether the refault is so soon that the active list should make room for it.
    pub fn is_recent(&self) -> bool {
        self.recent
    }
}

/// What one batch of a scan did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// Pages looked at at the cold end of the inactive list, victims included: `pgscan` of the kernel.
    pub scanned: u64,
    /// Pages looked at at the cold end of the active list: `pgrefill`.
    pub refilled: u64,
    /// Of `scanned`, pages that moved to the active list.
    pub activated: u64,
    /// Of `refilled`, pages that moved to the inactive list.
    pub deactivated: u64,
    /// Pages that got another lap on the list they were on.
    pub rotated: u64,
}

/// Where an isolated page goes that is not evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutBack {
    /// Another trip along the inactive list: it is dirty, or could not be looked at.
    WarmInactive,
    /// The next victim again.
    ColdInactive,
    /// It is in use.
    Active,
}

/// Counters since the cache was made, with the kernel's names where the kernel has them. In pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Pages that moved from the inactive list to the active one.
    pub pgactivate: u64,
    /// Pages that moved from the active list to the inactive one.
    pub pgdeactivate: u64,
    /// Pages looked at on the active list.
    pub pgrefill: u64,
    /// Pages moved to the cold end when their write had ended: [`Lru::rotate_to_cold`].
    pub pgrotated: u64,
    /// Missing pages that had left a shadow.
    pub workingset_refault_file: u64,
    /// Of those, pages that went to the active list because they were refaulted soon.
    pub workingset_activate_file: u64,
    /// Of those, pages that had been active when they were evicted.
    pub workingset_restore_file: u64,
    /// Missing pages without a shadow that bimodal insertion put on the active list. Not a kernel counter.
    pub bimodal_activate_file: u64,
    /// Pages of no-reuse files, admitted for the correlated-reference window only. Not a kernel counter.
    pub no_reuse_file: u64,
    /// Would-be victims that went round once more because pages of their kind, of files or of regions, cost more to refault.
    /// Not a kernel counter.
    pub scan_balance_rotated: u64,
}

impl Lru {
    /// No pages, in a cache of `frames` frames numbered from 0. Allocates 28 bytes a frame.
    ///
    /// # Panics
    /// If a number of `replacement` is out of range ([`Replacement::check`] tells before).
    pub fn new(replacement: Replacement, frames: PageCount) -> Lru {
        assert_in_range(&replacement);
        let count = frame_count(frames);
        Lru {
            millpond: millpond::State::new(&replacement, frames),
            replacement,
            memory: frames,
            pages: Pages::new(count),
            workingset: Workingset::new(count),
            refault_rates: RefaultRates::default(),
            cost: Cost::default(),
            linux: linux::State::default(),
            statistics: Statistics::default(),
        }
    }

    /// Memory is `frames` pages from now on. Pages and most shadows stay; the caller that made memory smaller evicts what is
    /// too much. Frame numbers that were valid stay so. Cost: proportional to the number of frames, as
    /// the table of shadows is built anew: 30 to 50 ns a frame on a busy machine.
    pub fn resize(&mut self, frames: PageCount) {
        let count = frame_count(frames);
        self.millpond.resized(self.memory, frames);
        self.memory = frames;
        self.pages.grow(count);
        self.workingset.resize(count);
    }

    /// Pages are replaced by another rule from now on. They stay in memory and keep their lists, as do shadows; what the
    /// old rule had learnt is forgotten, unless the new one is the same. Cost: constant, but for the pages in their window that
    /// a rule without one takes over (at most 10 % of memory).
    ///
    /// # Panics
    /// If a number of `replacement` is out of range ([`Replacement::check`] tells before).
    pub fn set_replacement(&mut self, replacement: Replacement) {
        assert_in_range(&replacement);
        if replacement == self.replacement {
            return;
        }
        if let Replacement::Linux(_) = replacement {
            for list in [List::NoReuse, List::Window] {
                while let Some(frame) = self.pages.cold(list) {
                    self.pages.move_to_warm(frame, list, List::Inactive);
                }
            }
        }
        self.replacement = replacement;
        self.linux = linux::State::default();
        self.millpond = millpond::State::new(&replacement, self.memory);
        self.cost = Cost::default();
    }

    /// The present rule.
    pub fn replacement(&self) -> &Replacement {
        &self.replacement
    }

    /// Several pages are about to be given to [`Lru::refault`] or [`Lru::evicted`]: fetches what that will look at, for
    /// all of them at a time. Changes nothing but how long it takes.
    pub fn fetch(&self, keys: impl Iterator<Item = PageKey>) {
        self.workingset.fetch(keys);
    }

    /// A page is missing: takes its shadow. To be called before room is made for the page, once, and the answer goes
    /// to [`Lru::insert`]. One or two lookups in the table of shadows.
    pub fn refault(&mut self, key: PageKey) -> Refault {
        let Some(distance) = self.workingset.take(key) else {
            return Refault::NEW;
        };
        self.statistics.workingset_refault_file += 1;
        let recent = match self.replacement {
            Replacement::Linux(options) => self.linux_refault(&options, &distance),
            Replacement::Millpond(options) => self.millpond_refault(&options, &distance, key.file()),
        };
        if recent {
            self.refault_rates.refaulted(key.file());
        }
        Refault {
            distance: Some(PageCount(distance.pages.into())),
            recent,
            workingset: distance.workingset,
            begins: false,
        }
    }

    /// The page `key` comes into memory. `first_use`: it is brought in by the read or write that touches it, not ahead of it;
    /// that use must not be in the frame's word, where uses are counted from here on.
    ///
    /// # Panics
    /// If the frame already holds a page, or is not one of this cache.
    pub fn insert(
        &mut self,
        frame: FrameNo,
        key: PageKey,
        refault: Refault,
        first_use: bool,
        frames: &mut impl FrameTable,
    ) {
        match self.replacement {
            Replacement::Linux(_) => self.linux_insert(frame, refault, first_use),
            Replacement::Millpond(options) => {
                self.millpond_insert(&options, (frame, key), refault, first_use, frames);
            }
        }
    }

    /// A file has this number from now on. Makes room for what is remembered of files.
    pub fn opened(&mut self, file: FileId) {
        self.refault_rates.opened(file);
    }

    /// The file is no more, and its number may be another's.
    pub fn closed(&mut self, file: FileId) {
        self.refault_rates.closed(file);
    }

    /// How many pages a pass at `priority` may look at for victims: the caller repeats [`Lru::isolate`] until
    /// `scanned` adds up to this, then takes the next lower priority, down to 0. Linux counts inactive pages; Millpond,
    /// whose inactive list may be short, all.
    pub fn quota(&self, priority: u32) -> PageCount {
        PageCount(match self.replacement {
            Replacement::Linux(_) => offered(self.inactive().0, priority),
            Replacement::Millpond(_) => offered(self.inactive().0 + self.active().0, priority),
        })
    }

    /// One batch of a scan. Looks at no more than `batch` pages of a list, nor more than its quota, and takes
    /// those that may go off their list, isolated: they are appended to `victims`, in the order in which they should
    /// go, and each must be given back through [`Lru::evicted`], [`Lru::put_back`] or [`Lru::remove`]. Pages that were
    /// used move where they belong. `victims` needs room for `batch` more, or it allocates.
    ///
    /// A batch with no victim is no failure: it has moved something, unless all of `scanned` and `refilled` is zero;
    /// then only a lower priority helps, and at priority 0 there is nothing left on any list.
    pub fn isolate(
        &mut self,
        priority: u32,
        batch: usize,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned {
        let batch = batch as u64;
        let scanned = match self.replacement {
            Replacement::Linux(options) => self.linux_isolate(&options, priority, batch, frames, victims),
            Replacement::Millpond(options) => {
                self.millpond_isolate(&options, priority, batch, frames, victims)
            }
        };
        self.statistics.pgactivate += scanned.activated;
        self.statistics.pgdeactivate += scanned.deactivated;
        self.statistics.pgrefill += scanned.refilled;
        scanned
    }

    /// An isolated page stays in memory.
    ///
    /// # Panics
    /// If the page is not isolated.
    pub fn put_back(&mut self, frame: FrameNo, put_back: PutBack) {
        match put_back {
            PutBack::WarmInactive => self.pages.put_back(frame, List::Inactive, false),
            PutBack::ColdInactive => self.pages.put_back(frame, List::Inactive, true),
            PutBack::Active => {
                self.pages.put_back(frame, List::Active, false);
                self.statistics.pgactivate += 1;
                if let Replacement::Linux(_) = self.replacement {
                    self.workingset.age_by_activation();
                }
            }
        }
    }

    /// An isolated page has left memory: `key` leaves its shadow, unless it would have to push out a younger one.
    ///
    /// # Panics
    /// If the page is not isolated.
    pub fn evicted(&mut self, frame: FrameNo, key: PageKey) {
        self.pages.forget_isolated(frame);
        let workingset = self.pages.page(frame).past == Past::Demoted;
        let before = matches!(
            self.replacement,
            Replacement::Linux(LinuxOptions {
                detection: Detection::Linux5_9,
                ..
            })
        );
        self.workingset.evicted(key, workingset, before);
        self.refault_rates.evicted(key.file(), self.memory);
    }

    /// A page was truncated, discarded or given up, from any list or while isolated. It leaves no shadow.
    ///
    /// # Panics
    /// If the frame holds no page.
    pub fn remove(&mut self, frame: FrameNo) {
        self.pages.forget(frame);
    }

    /// The write of a page that was to go when it is clean has ended: it becomes the next victim, also from the active
    /// list, where the scan put it so as not to meet it again meanwhile (Linux 7.0, `folio_rotate_reclaimable` and the
    /// activation in `shrink_folio_list`). Answers whether it was moved; it is not while isolated.
    pub fn rotate_to_cold(&mut self, frame: FrameNo) -> bool {
        match self.pages.list_of(frame) {
            Some(list) => {
                self.pages.move_to_cold(frame, list, List::Inactive);
                self.statistics.pgrotated += 1;
                true
            }
            None => false,
        }
    }

    /// A hit, told at once. Only for Linux with [`Promotion::Immediate`], in the simulator; by any other rule hits are
    /// harvested by the scan and this does nothing.
    pub fn mark_accessed(&mut self, frame: FrameNo) {
        if let Replacement::Linux(options) = self.replacement
            && options.promotion == Promotion::Immediate
        {
            self.linux_mark_accessed(frame);
        }
    }

    /// Pages on the active list.
    pub fn active(&self) -> PageCount {
        PageCount(self.pages.len(List::Active))
    }

    /// Pages on the inactive list, those in their window included.
    pub fn inactive(&self) -> PageCount {
        PageCount(
            [List::Inactive, List::Window, List::NoReuse]
                .map(|list| self.pages.len(list))
                .iter()
                .sum(),
        )
    }

    /// Pages that [`Lru::isolate`] took and were not given back yet.
    pub fn isolated(&self) -> PageCount {
        self.pages.isolated()
    }

    /// Pages that were evicted and are remembered.
    pub fn shadows(&self) -> PageCount {
        PageCount(self.workingset.len())
    }

    /// How long Millpond's rule wants the inactive list to be at present; `None` by another rule.
    pub fn inactive_target(&self) -> Option<PageCount> {
        match self.replacement {
            Replacement::Linux(_) => None,
            Replacement::Millpond(_) => Some(self.millpond.inactive_target()),
        }
    }

    /// The list that holds `frame`; `None` if it is isolated or holds no page.
    pub fn list_of(&self, frame: FrameNo) -> Option<List> {
        self.pages.list_of(frame)
    }

    /// The pages of a list, the next victim first.
    pub fn iter_from_cold(&self, list: List) -> impl Iterator<Item = FrameNo> + '_ {
        self.pages.iter_from_cold(list)
    }

    /// Counters since the cache was made.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Bytes that lists, pages' memory and shadows take.
    pub fn metadata_bytes(&self) -> u64 {
        self.pages.metadata_bytes() + self.workingset.metadata_bytes()
    }

    /// From now on no page enters the active list by bimodal insertion, so that pages leave in the order in which they came.
    #[cfg(test)]
    pub(crate) fn admit_none(&mut self) {
        self.millpond.share = 0;
    }

    /// Re-derives all counters and checks every list and shadow. Cost: proportional to memory.
    ///
    /// # Panics
    /// If something does not agree.
    pub fn validate(&self) {
        self.pages.validate();
        self.workingset.validate();
        self.millpond.validate(self.memory);
        if let Replacement::Linux(_) = self.replacement {
            for list in [List::Window, List::NoReuse] {
                assert_eq!(self.pages.len(list), 0, "Linux has no {list:?} list");
            }
        }
    }
}

/// What a pass at `priority` may look at of a list of `len` pages.
#[inline]
fn offered(len: u64, priority: u32) -> u64 {
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
