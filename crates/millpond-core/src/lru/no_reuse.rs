//! Pages of no-reuse files (`refault_rate`) leave before all others: rule 6 of `millpond`.
//!
//! ```text
//!   a page of such a file ─► its window ─► inactive, cold end: the next victim
//!   what of the file is there when that is found ─► met at the cold end, as all are; pages of others go round once more
//! ```
//!
//! 1. This applies only to pages that a caller reads and that are not recent refaults. Their window is as long as that
//!    of other pages. Uses during it are one burst, and are dropped.
//! 2. Bimodal insertion draws only the least share of them, so that the active list does not fill with a file that is
//!    not used again.
//! 3. Once in the life of an open file, when it is found to be a no-reuse file, unused pages of other files go to the
//!    warm end of the inactive list until that list has been scanned once. So the pages already read from the no-reuse
//!    file leave first. At most 32 pages of other files in a row are scanned for a victim.

use super::lists::List;
use super::millpond::SHARE_MIN;
use super::options::{MillpondOptions, Replacement};
use super::{Lru, Refault};
use crate::frame::FrameTable;
use crate::units::{FileId, FrameNo, PageKey};

/// Pages that go round before one is a victim in any case: it bounds the work for a victim where little of the file is
/// there. A batch of Linux.
const ROUND_MAX: u32 = 32;

/// Pages of no-reuse files are being sorted out of the inactive list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sorting {
    /// Pages of the inactive list that were not looked at yet.
    left: u64,
    /// Pages that went round since the last victim.
    in_a_row: u32,
}

impl Sorting {
    /// A victim was found.
    pub(super) fn found(&mut self) {
        self.in_a_row = 0;
    }
}

impl Lru {
    /// Finds out whether `file` is a no-reuse file, and begins to sort out its pages if that is news. Its pages that a caller
    /// wants, and that are no recent refaults, are to be inserted by [`Lru::insert_no_reuse`]. Linux's rule knows no such
    /// files.
    pub fn detect_no_reuse(&mut self, file: FileId) -> bool {
        if let Replacement::Linux(_) = self.replacement {
            return false;
        }
        let is_no_reuse = self.refault_rates.is_no_reuse(file, self.memory);
        if is_no_reuse && self.refault_rates.note_no_reuse(file) {
            self.millpond.sorting.left = self.pages.len(List::Inactive);
        }
        is_no_reuse
    }

    /// [`Lru::insert`] of a page of a [no-reuse file](Lru::detect_no_reuse).
    ///
    /// # Panics
    /// As [`Lru::insert`].
    pub fn insert_no_reuse(&mut self, frame: FrameNo, key: PageKey, frames: &mut impl FrameTable) {
        let Replacement::Millpond(options) = self.replacement else {
            return self.insert(frame, key, Refault::NEW, true, frames);
        };
        self.statistics.no_reuse_file += 1;
        self.pages.admit(frame, List::NoReuse, true, 0);
        self.draw_bimodal((frame, key), SHARE_MIN);
        self.end_no_reuse_window(&options, frames);
    }

    /// Whether reclaim is at pages of no-reuse files that came in before that was found.
    pub fn is_sorting_out_no_reuse(&self) -> bool {
        self.millpond.sorting.left > 0
    }

    /// A page whose window has ended is the next victim; two for each that comes, if memory was made smaller.
    fn end_no_reuse_window(&mut self, options: &MillpondOptions, frames: &mut impl FrameTable) {
        let window_max = options.window.of(self.memory.0) + 1;
        for _ in 0..2 {
            if self.pages.len(List::NoReuse) <= window_max {
                return;
            }
            if let Some(frame) = self.pages.cold(List::NoReuse) {
                let _ = frames.test_and_clear_accessed(frame);
                if self.admit_bimodal(options, (frame, List::NoReuse), frames) {
                    continue;
                }
                self.pages.move_to_cold(frame, List::NoReuse, List::Inactive);
            }
        }
    }

    /// Sends a page round that would be a victim, since pages of a no-reuse file are behind it. Whether it did.
    pub(super) fn rotate_behind_no_reuse(&mut self, frame: FrameNo, frames: &impl FrameTable) -> bool {
        if self.millpond.sorting.left == 0 {
            return false;
        }
        self.millpond.sorting.left -= 1;
        let goes_round = self.millpond.sorting.in_a_row < ROUND_MAX
            && !self
                .refault_rates
                .is_no_reuse(frames.key(frame).file(), self.memory);
        if goes_round {
            self.millpond.sorting.in_a_row += 1;
            self.pages.move_to_warm(frame, List::Inactive, List::Inactive);
        }
        goes_round
    }
}
