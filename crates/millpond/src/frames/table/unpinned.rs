//! Pages of regions: in the table for the core's sake, with no pin.
//!
//! What excludes others from such a page is its state in the region ([`Pages`](crate::memory::Pages)); its frame's word
//! only says what the core asks for: uses, dirty, under writeback. A region's number is no file's, so there is no hit, no
//! guard and no hazard that names one of these frames.

use super::{Load, Table};
use crate::frames::state::{self, Step};
use millpond_core::units::{FrameNo, PageKey};

impl<M> Table<M> {
    /// The frame of a page that can't leave meanwhile, if it is found without the core lock.
    pub(crate) fn frame_of(&self, key: PageKey) -> Option<FrameNo> {
        self.index.find(key)
    }

    /// The page was used.
    pub(crate) fn note_use(&self, frame: FrameNo) {
        state::must(self.index.word(frame), Step::Use);
    }

    /// Whether the page was used since the last call of this.
    pub(crate) fn was_used(&self, frame: FrameNo) -> bool {
        self.word(frame).uses() > 0
    }

    /// Ends a load of a page that no slot has.
    pub(crate) fn finish_load_dirty(&self, load: Load) {
        drop(self.finish_load_exclusive(load));
    }

    /// The page differs from its slot.
    ///
    /// # Panics
    /// If it is pinned, or not there.
    pub(crate) fn make_dirty(&self, frame: FrameNo) {
        let word = self.index.word(frame);
        state::must(word, Step::Claim);
        state::must(word, Step::Own { change: true });
        state::must(word, Step::Release);
        // Claiming it was no use.
        state::must(word, Step::TakeUses);
    }
}
