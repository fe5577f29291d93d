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
use super::options::{Detection, InactiveRatio, LinuxOptions};
use super::workingset::Distance;
use super::{Lru, Refault, Scanned, offered};
use crate::frame::FrameTable;
use crate::units::{FrameNo, isqrt};
use alloc::vec::Vec;

/// What the rule remembers besides the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct State {
    /// A page was refaulted and activated since the last scan. Linux compares the counter of such activations with
    /// its value at the end of the last run of reclaim; a batch of the scan stands for a run here.
    challenged: bool,
}

impl Lru {
    /// Whether the refaulted page should be active. If so, that ages the shadows, at this moment.
    pub(super) fn linux_refault(&mut self, options: &LinuxOptions, distance: &Distance) -> bool {
        let reach = match options.detection {
            Detection::Off => return false,
            Detection::Linux4_19 => self.active().0,
            // While swap has room also both lists of anonymous pages: there are none here.
            Detection::Linux5_9 => self.active().0,
        };
        let recent = u64::from(distance.pages) <= reach;
        if recent {
            self.workingset.age_by_activation();
            self.linux.challenged = true;
            self.statistics.workingset_activate_file += 1;
            self.statistics.workingset_restore_file += u64::from(distance.workingset);
        }
        recent
    }

    pub(super) fn linux_insert(&mut self, frame: FrameNo, refault: Refault, first_use: bool) {
        let list = if refault.recent {
            List::Active
        } else {
            List::Inactive
        };
        self.pages.admit(frame, list, first_use, 0);
    }

    /// Active first, if there is too little inactive, then inactive. `shrink_lruvec` has it the other way round, which
    /// comes to the same from the second batch on; this way one page out for one in gives the figures of Kim 2020's toy.
    pub(super) fn linux_isolate(
        &mut self,
        options: &LinuxOptions,
        priority: u32,
        batch: u64,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
    ) -> Scanned {
        let mut scanned = Scanned::default();
        let (inactive, active) = (self.inactive().0, self.active().0);
        if self.linux_inactive_is_low(options) {
            for _ in 0..offered(active, priority).min(batch) {
                self.linux_shrink_active(frames, &mut scanned);
            }
        }
        for _ in 0..offered(inactive, priority).min(batch) {
            self.linux_shrink_inactive(frames, victims, &mut scanned);
        }
        scanned
    }

    /// `page_check_references` and `shrink_page_list`, as far as the lists go.
    fn linux_shrink_inactive(
        &mut self,
        frames: &mut impl FrameTable,
        victims: &mut Vec<FrameNo>,
        scanned: &mut Scanned,
    ) {
        let Some(frame) = self.pages.cold(List::Inactive) else {
            return;
        };
        scanned.scanned += 1;
        let page = self.pages.page(frame);
        let uses = page.usage_count + frames.test_and_clear_accessed(frame) + u8::from(page.touched);
        page.usage_count = 0;
        // The first use is the referenced bit, the second the activation, a third the bit again.
        page.touched = uses > 2;
        if uses >= 2 {
            self.pages.move_to_warm(frame, List::Inactive, List::Active);
            self.workingset.age_by_activation();
            scanned.activated += 1;
        } else {
            self.pages.isolate(frame, List::Inactive);
            victims.push(frame);
        }
    }

    /// `shrink_active_list`: deactivates whatever is at the cold end.
    fn linux_shrink_active(&mut self, frames: &mut impl FrameTable, scanned: &mut Scanned) {
        let Some(frame) = self.pages.cold(List::Active) else {
            return;
        };
        scanned.refilled += 1;
        scanned.deactivated += 1;
        let page = self.pages.page(frame);
        page.touched |= page.usage_count + frames.test_and_clear_accessed(frame) > 0;
        page.usage_count = 0;
        page.past = Past::Demoted;
        self.pages.move_to_warm(frame, List::Active, List::Inactive);
    }

    /// `inactive_list_is_low`. Of each challenge it knows once.
    fn linux_inactive_is_low(&mut self, options: &LinuxOptions) -> bool {
        let (inactive, active) = (self.inactive().0, self.active().0);
        let challenged = core::mem::take(&mut self.linux.challenged);
        let ratio = inactive_ratio(options.inactive_ratio, inactive + active);
        (options.refaults_deactivate && challenged) || inactive * ratio < active
    }

    /// `mark_page_accessed`.
    pub(super) fn linux_mark_accessed(&mut self, frame: FrameNo) {
        let list = self.pages.list_of(frame);
        let page = self.pages.page(frame);
        if page.touched && list == Some(List::Inactive) {
            page.touched = false;
            self.pages.move_to_warm(frame, List::Inactive, List::Active);
            self.workingset.age_by_activation();
            self.statistics.pgactivate += 1;
        } else {
            page.touched = true;
        }
    }
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
    use crate::units::PageSize;

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
