//! Replacement as Linux does it (`mm/vmscan.c`, `mm/swap.c`, `mm/workingset.c`), file pages.
//!
//! ```text
//!   new ─► inactive ── cold end: used twice? ── no ─► victim
//!             ▲                      │ yes
//!             │ inactive too short   ▼
//!             └────── cold end ── active ◄── refaulted within the active list's length
//! ```
//!
//! The first use of a page sets its referenced bit, the second makes it active. Uses of an active page do not protect
//! it: at the cold end it is deactivated in any case. It keeps its referenced bit, so one more use brings it back. A
//! refaulted page becomes active immediately if the active list is at least as long as its distance, because it may be
//! used more often than the pages there. To find out, each such activation lets the next scan shrink the active list
//! even if the ratio of the lists is satisfied.
//!
//! With [`Promotion::Lazy`] uses are counted in the frame's word, and the scan acts on them when it meets the page: the
//! same transitions, later. The differences: a page that its second use would have moved is still on the inactive list
//! when others are counted, and it enters the active list in scan order.

use super::lists::{List, Past};
use super::rule::{LruVec, Rule};
use super::workingset::Distance;
use super::{Refault, Scanned, share_at};
use crate::frame::FrameTable;
use crate::range::OutOfRange;
use crate::units::{FileId, FrameNo, PageCount, PageKey, PageSize, isqrt};
use alloc::vec::Vec;

/// Linux's rule, in several versions.
///
/// The default is the version that Kim 2020 built on, Linux 5.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinuxOptions {
    /// When a second use moves a page to the active list. Default [`Promotion::Lazy`].
    pub promotion: Promotion,
    /// How long the active list may be relative to the inactive one. Default [`InactiveRatio::SquareRoot`] with 4 KiB
    /// pages.
    pub inactive_ratio: InactiveRatio,
    /// How a refault soon after eviction is recognized. Default [`Detection::Linux4_19`].
    pub detection: Detection,
    /// Whether an activation by refault lets the next scan batch shrink the active list even if the ratio is satisfied
    /// (the comparison of refault counters in `inactive_list_is_low`, later `may_deactivate`). Default true.
    pub refaults_deactivate: bool,
}

impl Default for LinuxOptions {
    fn default() -> Self {
        LinuxOptions {
            promotion: Promotion::Lazy,
            inactive_ratio: InactiveRatio::SquareRoot(PageSize::KIB_4),
            detection: Detection::Linux4_19,
            refaults_deactivate: true,
        }
    }
}

/// When a second use of an inactive page moves it to the active list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promotion {
    /// When the scan meets the page. Hits only leave a count, so they touch no list and take no lock.
    Lazy,
    /// Immediately, as in `mark_page_accessed`: the driver calls [`super::Lru::mark_accessed`] on every hit, which
    /// moves the page and advances the age of evicted pages.
    Immediate,
}

/// The longest active list for a given inactive one. It is shrunk while `inactive * ratio < active`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InactiveRatio {
    /// Ratio 1 at any size: file pages up to about Linux 4.6.
    Equal,
    /// Ratio `isqrt(10 * GiB)` for the two lists together, 1 below 1 GiB: since about Linux 4.7 (`inactive_is_low`).
    /// Needs the page size to convert pages to GiB.
    SquareRoot(PageSize),
}

/// How the shadow of an evicted page shows that its refault came too soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detection {
    /// Not at all: Linux before 3.15, and hence Gorman 2011.
    Off,
    /// Linux 4.19 to 5.5 (`workingset_eviction`): the shadow holds the age after its own eviction was counted. A page
    /// is activated if its distance is at most the length of the active list.
    Linux4_19,
    /// Linux 5.9 and later: the shadow holds the age before its own eviction was counted, so distances are one longer.
    /// The length they are compared with also counts lists of anonymous pages, if there are any.
    Linux5_9,
}

/// The rule, and what it remembers besides the lists.
#[derive(Clone, Debug)]
pub(super) struct Linux {
    options: LinuxOptions,
    /// A page was refaulted and activated since the last scan. Linux compares the counter of such activations with
    /// its value at the end of the last run of reclaim; a batch of the scan stands for a run here.
    challenged: bool,
}

impl Rule for Linux {
    type Options = LinuxOptions;

    const UNUSED_LISTS: &[List] = &[List::NoReuse, List::Window];

    fn new(options: LinuxOptions, _: PageCount) -> Linux {
        let challenged = false;
        Linux { options, challenged }
    }

    fn check(_: &LinuxOptions) -> Result<(), OutOfRange> {
        Ok(())
    }

    /// If the page should be active, that ages the shadows, at this moment.
    fn refault(&mut self, lruvec: &mut LruVec, distance: &Distance, _: FileId) -> bool {
        let reach = match self.options.detection {
            Detection::Off => return false,
            Detection::Linux4_19 => lruvec.active().0,
            // While swap has room also both lists of anonymous pages: there are none here.
            Detection::Linux5_9 => lruvec.active().0,
        };
        let recent = u64::from(distance.pages) <= reach;
        if recent {
            lruvec.workingset.age_by_activation();
            self.challenged = true;
            lruvec.statistics.workingset_activate_file += 1;
            lruvec.statistics.workingset_restore_file += u64::from(distance.workingset);
        }
        recent
    }

    fn insert(
        &mut self,
        lruvec: &mut LruVec,
        (frame, _): (FrameNo, PageKey),
        refault: Refault,
        first_use: bool,
        _: &mut impl FrameTable,
    ) {
        let list = if refault.recent {
            List::Active
        } else {
            List::Inactive
        };
        lruvec.pages.admit(frame, list, first_use, 0);
    }

    /// Active first, if there is too little inactive, then inactive. `shrink_lruvec` has it the other way round, which
    /// comes to the same from the second batch on; this way one page out for one in gives the figures of Kim 2020's toy.
    fn isolate(
        &mut self,
        lruvec: &mut LruVec,
        priority: u32,
        batch: u64,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned {
        let mut scanned = Scanned::default();
        let (inactive, active) = (lruvec.inactive().0, lruvec.active().0);
        if self.inactive_is_low(lruvec) {
            for _ in 0..share_at(priority, active).min(batch) {
                shrink_active(lruvec, frames, &mut scanned);
            }
        }
        for _ in 0..share_at(priority, inactive).min(batch) {
            shrink_inactive(lruvec, frames, victims, &mut scanned);
        }
        scanned
    }

    /// The inactive ones.
    fn offered(&self, lruvec: &LruVec) -> u64 {
        lruvec.inactive().0
    }

    fn activated(&mut self, lruvec: &mut LruVec) {
        lruvec.workingset.age_by_activation();
    }

    fn ages_before_eviction(&self) -> bool {
        self.options.detection == Detection::Linux5_9
    }

    /// `mark_page_accessed`.
    fn mark_accessed(&mut self, lruvec: &mut LruVec, frame: FrameNo) {
        if self.options.promotion != Promotion::Immediate {
            return;
        }
        let list = lruvec.pages.list_of(frame);
        let page = lruvec.pages.page(frame);
        if page.touched && list == Some(List::Inactive) {
            page.touched = false;
            lruvec.pages.move_to_warm(frame, List::Inactive, List::Active);
            lruvec.workingset.age_by_activation();
            lruvec.statistics.pgactivate += 1;
        } else {
            page.touched = true;
        }
    }
}

impl Linux {
    /// `inactive_list_is_low`. Of each challenge it knows once.
    fn inactive_is_low(&mut self, lruvec: &LruVec) -> bool {
        let (inactive, active) = (lruvec.inactive().0, lruvec.active().0);
        let challenged = core::mem::take(&mut self.challenged);
        let ratio = inactive_ratio(self.options.inactive_ratio, inactive + active);
        (self.options.refaults_deactivate && challenged) || inactive * ratio < active
    }
}

/// `page_check_references` and `shrink_page_list`, as far as the lists go.
fn shrink_inactive(
    lruvec: &mut LruVec,
    frames: &mut impl FrameTable,
    victims: &mut Vec<FrameNo>,
    scanned: &mut Scanned,
) {
    let Some(frame) = lruvec.pages.cold(List::Inactive) else {
        return;
    };
    scanned.scanned += 1;
    let page = lruvec.pages.page(frame);
    let uses = page.usage_count + frames.test_and_clear_accessed(frame) + u8::from(page.touched);
    page.usage_count = 0;
    // The first use is the referenced bit, the second the activation, a third the bit again.
    page.touched = uses > 2;
    if uses >= 2 {
        lruvec.pages.move_to_warm(frame, List::Inactive, List::Active);
        lruvec.workingset.age_by_activation();
        scanned.activated += 1;
    } else {
        lruvec.pages.isolate(frame, List::Inactive);
        victims.push(frame);
    }
}

/// `shrink_active_list`: deactivates whatever is at the cold end.
fn shrink_active(lruvec: &mut LruVec, frames: &mut impl FrameTable, scanned: &mut Scanned) {
    let Some(frame) = lruvec.pages.cold(List::Active) else {
        return;
    };
    scanned.refilled += 1;
    scanned.deactivated += 1;
    let page = lruvec.pages.page(frame);
    page.touched |= page.usage_count + frames.test_and_clear_accessed(frame) > 0;
    page.usage_count = 0;
    page.past = Past::Demoted;
    lruvec.pages.move_to_warm(frame, List::Active, List::Inactive);
}

/// How many times longer than the inactive list the active one may be, for `pages` of both together.
fn inactive_ratio(ratio: InactiveRatio, pages: u64) -> u64 {
    match ratio {
        InactiveRatio::Equal => 1,
        InactiveRatio::SquareRoot(page_size) => {
            let gib = pages >> (30 - page_size.shift());
            if gib > 0 { isqrt(10 * gib) } else { 1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_square_root_ratio_follows_the_kernels_table() {
        let ratio_of_gib = |gib: u64| inactive_ratio(InactiveRatio::SquareRoot(PageSize::KIB_4), gib << 18);
        let sizes = [0, 1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512, 1024, 10240];
        let table = [1, 3, 4, 6, 8, 10, 12, 17, 25, 31, 35, 50, 71, 101, 320];
        assert_eq!(sizes.map(ratio_of_gib), table);
        assert_eq!(
            inactive_ratio(InactiveRatio::SquareRoot(PageSize::KIB_64), 1 << 18),
            12
        );
        assert_eq!(inactive_ratio(InactiveRatio::Equal, 1 << 30), 1);
    }
}
