//! Pages of files whose pages don't come back (`returns`) leave before all others: rule 6 of `millpond`.
//!
//! ```text
//!   a page of such a file ─► passing ─► inactive, cold end: the next victim
//!   what of the file is there when that is found ─► met at the cold end, as all are; pages of others go round once more
//! ```
//!
//! 1. Only pages that are read because somebody wants them, and that are not known to come back. As many are *passing* as may
//!    be fresh; their uses meanwhile are one burst, and are dropped.
//! 2. One in 32 is on trial like a page of any file, also while less than half of memory is active: a file that does not
//!    come back is not what the active list is filled with.
//! 3. Once in the life of an open file, when it is found to pass: until the inactive list has been looked at once, unused
//!    pages of other files go to its warm end, so that what came in of the file before goes first. At most 32 such pages in a
//!    row are looked at for a victim.

use super::lists::List;
use super::options::{MillpondOptions, Replacement};
use super::{Lru, Refault};
use crate::frame::FrameTable;
use crate::units::{FileId, FrameNo};

/// Pages that go round before one is a victim in any case: it bounds the work for a victim where little of the file is
/// there. A batch of Linux.
const ROUND_MAX: u32 = 32;

/// Pages of files that pass are being sorted out of the inactive list.
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
    /// Whether pages of `file` that somebody wants, and that are not known to come back, are to be inserted by
    /// [`Lru::insert_passing`]. By Linux' rule none are.
    pub fn passes(&mut self, file: FileId) -> bool {
        if let Replacement::Linux(_) = self.replacement {
            return false;
        }
        let passes = self.returns.passes(file, self.memory);
        if passes && self.returns.is_news(file) {
            self.millpond.sorting.left = self.pages.len(List::Inactive);
        }
        passes
    }

    /// [`Lru::insert`] of a page of a file that [passes](Lru::passes).
    ///
    /// # Panics
    /// As [`Lru::insert`].
    pub fn insert_passing(&mut self, frame: FrameNo, frames: &mut impl FrameTable) {
        let Replacement::Millpond(options) = self.replacement else {
            return self.insert(frame, Refault::NEW, true, frames);
        };
        if self.enters_on_trial(&options, options.admit_epsilon_one_in, frame, true, frames) {
            return;
        }
        self.statistics.no_reuse_file += 1;
        self.pages.admit(frame, List::Passing, true, 0);
        self.end_passing(&options, frames);
    }

    /// Whether reclaim is at pages of files that pass, which came in before that was found.
    pub fn is_sorting_out_passing(&self) -> bool {
        self.millpond.sorting.left > 0
    }

    /// Who has been passing long enough is the next victim; two for each that comes, if memory was made smaller.
    fn end_passing(&mut self, options: &MillpondOptions, frames: &mut impl FrameTable) {
        let passing_max = options.window.of(self.memory.0) + 1;
        for _ in 0..2 {
            if self.pages.len(List::Passing) <= passing_max {
                return;
            }
            if let Some(frame) = self.pages.cold(List::Passing) {
                let _ = frames.test_and_clear_accessed(frame);
                self.pages.move_to_cold(frame, List::Passing, List::Inactive);
            }
        }
    }

    /// A page at the cold end that would be a victim: whether it goes round instead, since pages of a file that passes are
    /// behind it.
    pub(super) fn waits_for_passing(&mut self, frame: FrameNo, frames: &impl FrameTable) -> bool {
        if self.millpond.sorting.left == 0 {
            return false;
        }
        self.millpond.sorting.left -= 1;
        let waits = self.millpond.sorting.in_a_row < ROUND_MAX
            && !self.returns.passes(frames.key(frame).file(), self.memory);
        if waits {
            self.millpond.sorting.in_a_row += 1;
            self.pages.move_to_warm(frame, List::Inactive, List::Inactive);
        }
        waits
    }
}
