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
//! 4. Pages that a background task reads have a longer window, a 16th of memory, because they are read ahead and their
//!    use by the task does not count. None of them is drawn, and none is a refault.

use super::Millpond;
use crate::frame::FrameTable;
use crate::lru::lists::List;
use crate::lru::rule::LruVec;
use crate::units::{FileId, FrameNo};

/// Pages that go round before one is a victim in any case: it bounds the work for a victim where little of the file is
/// there. A batch of Linux.
const ROUND_MAX: u32 = 32;

/// The window of pages that background tasks read, as a share of memory.
pub(super) const BACKGROUND_SHARE: u64 = 16;

/// Pages of no-reuse files are being sorted out of the inactive list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sorting {
    /// Pages of the inactive list that were not looked at yet.
    left: u64,
    /// Pages that went round since the last victim.
    in_a_row: u32,
}

impl Sorting {
    /// Whether `file` is a no-reuse file. Begins to sort out its pages if that is news.
    pub(super) fn detect(&mut self, lruvec: &mut LruVec, file: FileId) -> bool {
        let is_no_reuse = lruvec.refault_rates.is_no_reuse(file, lruvec.memory);
        if is_no_reuse && lruvec.refault_rates.note_no_reuse(file) {
            self.left = lruvec.pages.len(List::Inactive);
        }
        is_no_reuse
    }

    pub(super) fn is_at_it(&self) -> bool {
        self.left > 0
    }

    /// A victim was found.
    pub(super) fn found(&mut self) {
        self.in_a_row = 0;
    }

    /// Sends a page round that would be a victim, since pages of a no-reuse file are behind it. Whether it did.
    pub(super) fn rotate(&mut self, lruvec: &mut LruVec, frame: FrameNo, frames: &impl FrameTable) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let is_no_reuse = |file| lruvec.refault_rates.is_no_reuse(file, lruvec.memory);
        let goes_round = self.in_a_row < ROUND_MAX && !is_no_reuse(frames.key(frame).file());
        if goes_round {
            self.in_a_row += 1;
            lruvec.pages.move_to_warm(frame, List::Inactive, List::Inactive);
        }
        goes_round
    }
}

impl Millpond {
    /// A page whose window has ended is the next victim; two for each that comes, if memory was made smaller.
    pub(super) fn end_no_reuse_window(
        &mut self,
        lruvec: &mut LruVec,
        window_max: u64,
        frames: &mut impl FrameTable,
    ) {
        for _ in 0..2 {
            if lruvec.pages.len(List::NoReuse) <= window_max {
                return;
            }
            if let Some(frame) = lruvec.pages.cold(List::NoReuse) {
                let _ = frames.test_and_clear_accessed(frame);
                if self.admit_bimodal(lruvec, (frame, List::NoReuse), frames) {
                    continue;
                }
                lruvec.pages.move_to_cold(frame, List::NoReuse, List::Inactive);
            }
        }
    }
}
