//! Pages that a mapping of their file has (`memory/mapped.rs`).
//!
//! ```text
//!                    Map                     Alone
//!   not mapped ─────────────► MAPPED ─────────────────► MAPPED, EXCLUSIVE
//!     ▲        ◄─────────────    │   ◄─────────────────   │
//!     │             Unmap        │          Release       │
//!     │                          │ Open, Own              │ Own
//!     │       Shut               ▼                        │
//!     └───────────────── MAPPED, EXCLUSIVE, DIRTY ◄───────┘
//! ```
//!
//! The thread that has the page in hand in the mapping takes these steps, and no other. While it is MAPPED no thread claims
//! the page, so the mapping's copy is equal; while it is also EXCLUSIVE no thread pins it, so the arena need not have it.
//! Once it is DIRTY as well threads may write the mapping's copy: DIRTY is set before they may (S4).

use super::{Table, hazard};
use crate::frames::state::{self, Refusal, Step};
use crate::frames::wait::Slow;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageKey};

impl<M> Table<M> {
    /// The mapping has a copy of the page, which the caller has pinned. `false`: a writer or the evictor looks for that pin at
    /// this moment, or, of a `polite` caller, a writer waits: drop the pin and come again.
    pub(crate) fn map(&self, frame: FrameNo, polite: bool) -> bool {
        let must_stand_back = polite && self.word(frame).is_wanted();
        !must_stand_back && state::step(self.index.word(frame), Step::Map).is_ok()
    }

    /// The mapping no longer has a copy of the page.
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

    /// The frame has the page as well as its mapping, which no thread writes.
    pub(crate) fn map_shared(&self, frame: FrameNo) {
        self.release(frame);
    }

    /// Lets the mapping's copy be written, if `may` says so of a page that no other thread uses: whether the page was clean.
    /// `None`: a thread has pinned it, which lets the next one in only after this, or it may not.
    pub(crate) fn open(&self, frame: FrameNo, may: impl FnOnce() -> bool) -> Option<bool> {
        let word = self.index.word(frame);
        let was_alone = self.word(frame).is_mapped_alone();
        match state::step(word, Step::Open) {
            // H2: as a claim.
            Ok(stepped)
                if stepped.new.has_hazards()
                    && hazard::names(self.index.address(frame))
                    && !mutation::is(Mutation::OpenedWhilePinned) =>
            {
                let unclaimed = state::must(word, Step::Unclaim).new;
                self.wake_waiters(frame, unclaimed);
                let _ = state::step(word, Step::Wait { wanted: true });
                return None;
            }
            Ok(_) => {}
            Err(Refusal::Pinned) => {
                let _ = state::step(word, Step::Wait { wanted: true });
                return None;
            }
            Err(why) => panic!("{frame:?} can't be opened: {why:?}"),
        }
        if !may() {
            if !was_alone {
                self.release(frame);
            }
            return None;
        }
        Some(!state::must(word, Step::Own { change: true }).old.is_dirty())
    }

    /// Waits, for a bounded time, for a moment at which no thread has pinned the page, which a mapping has.
    pub(crate) fn wait_unpinned(&self, frame: FrameNo, key: PageKey, slow: Slow<'_>) {
        let word = self.index.word(frame);
        let is_ours =
            |word: state::Word| word.is_mapped() && !word.is_mapped_alone() && self.index.key(frame) == key;
        let address = self.index.address(frame);
        let is_off = || self.stripes.is_called_off();
        let is_used = || self.word(frame).pins() > 0 || hazard::names(address);
        self.stripes
            .wait_hazard(frame, word, slow, |word| is_ours(word) && !is_off(), is_used);
    }

    /// The data written in the mapping is in the frame again, and nowhere else.
    pub(crate) fn shut(&self, frame: FrameNo) {
        let word = state::must(self.index.word(frame), Step::Shut).new;
        self.wake_waiters(frame, word);
    }
}
