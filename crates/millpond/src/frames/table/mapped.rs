//! Pages that a mapping of their file has (`memory/mapped.rs`).
//!
//! ```text
//!                    Map                     Alone
//!   not mapped ─────────────► MAPPED ─────────────────► MAPPED, EXCLUSIVE
//!              ◄─────────────        ◄─────────────────
//!                   Unmap                   Release
//! ```
//!
//! The thread that has the page in hand in the mapping takes these steps, and no other. While it is MAPPED no thread claims
//! the page, so the mapping's copy is equal; while it is also EXCLUSIVE no thread pins it, so the arena need not have it.

use super::{Table, hazard};
use crate::frames::state::{self, Step};
use millpond_core::units::FrameNo;

impl<M> Table<M> {
    /// The mapping has a copy of the page, which the caller has pinned. `false`: a writer or the evictor looks for that pin at
    /// this moment, or, of a `polite` caller, a writer waits: drop the pin and come again.
    pub(crate) fn map(&self, frame: FrameNo, polite: bool) -> bool {
        let must_stand_back = polite && self.word(frame).is_wanted();
        !must_stand_back && state::step(self.index.word(frame), Step::Map).is_ok()
    }

    /// The mapping has no copy of the page any more.
    ///
    /// # Panics
    /// If it has none, or the only one.
    pub(crate) fn unmap(&self, frame: FrameNo) {
        let word = state::must(self.index.word(frame), Step::Unmap).new;
        self.wake_waiters(frame, word);
    }

    /// Makes the mapping's copy the only one that may be read. `false`: the page is in other use, or dirty.
    pub(crate) fn map_alone(&self, frame: FrameNo) -> bool {
        let word = self.index.word(frame);
        let Ok(stepped) = state::step(word, Step::Alone) else {
            return false;
        };
        if stepped.new.has_hazards() {
            // H2: as a claim.
            if hazard::names(self.index.address(frame)) {
                let word = state::must(word, Step::Unclaim).new;
                self.wake_waiters(frame, word);
                return false;
            }
            state::must(word, Step::Own { change: false });
        }
        true
    }

    /// The frame has the page as well as its mapping.
    pub(crate) fn map_shared(&self, frame: FrameNo) {
        self.release(frame);
    }
}
