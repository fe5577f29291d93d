//! Bimodal insertion: which pages without a recent shadow go on to the active list. Rule 4 of `millpond`.
//!
//! ```text
//!   a page is missed ─► its key is hashed ─► drawn ── window ends, used ─► active ─┬─ used there ─────► the share rises
//!                                                                                 └─ demoted unused ─► the share falls
//! ```

use crate::lru::lists::Past;
use crate::lru::rule::LruVec;
use crate::lru::workingset::mix;
use crate::mutation::{self, Mutation};
use crate::units::{FrameNo, PageCount, PageIndex, PageKey};

/// It takes so many pages in a row, a power of two: one in this many of memory's, and at most. Neighboring
/// pages of a file then stay or go together, and so do their frames. One page in four, each on its own, left memory full of
/// holes of one frame, and a write of 1 MiB had 90 ranges of memory instead of one (see `memory::free`).
const ROW_SHARE: u64 = 2048;
const ROW_MAX: u64 = 64;

/// All pages without a recent shadow, as a share: what 16 bits of a hash can say.
pub(in crate::lru) const SHARE_ALL: u32 = 1 << 16;
/// The share of them that is drawn at first: nothing is known, so half.
const SHARE_START: u32 = SHARE_ALL / 2;
/// The least, the share of bimodal insertion in the field (BIP of DIP): with few drawn little is learned, and the active list
/// does not get rid of what is no longer used.
pub(super) const SHARE_MIN: u32 = SHARE_ALL / 32;
/// How far one row moves the share. From a 16th to a 256th the traces do not tell it apart.
const SHARE_STEP: u32 = SHARE_ALL / 64;

/// What is learned of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lru) struct Bimodal {
    /// Of 2^16 pages without a recent shadow so many are drawn.
    pub(in crate::lru) share: u32,
    /// Pages that were missed and had no recent shadow, so far.
    without_recent_shadow: u64,
}

impl Bimodal {
    pub(super) fn new() -> Bimodal {
        Bimodal {
            share: SHARE_START,
            without_recent_shadow: 0,
        }
    }

    /// Draws `share` of the pages without a recent shadow. They enter the active list when their window ends.
    pub(super) fn draw(&mut self, lruvec: &mut LruVec, (frame, key): (FrameNo, PageKey), share: u32) {
        let epoch = self.without_recent_shadow / lruvec.memory.0.max(1);
        self.without_recent_shadow += 1;
        if hashed(key, lruvec.memory, epoch) < share {
            lruvec.pages.page(frame).past = Past::Drawn;
        }
    }

    /// What became of a page that was put on the active list, if this is one: it was used there, or is demoted unused.
    pub(in crate::lru) fn judge(&mut self, lruvec: &mut LruVec, frame: FrameNo, is_used: bool) {
        let page = lruvec.pages.page(frame);
        if page.past != Past::Bimodal {
            return;
        }
        page.past = Past::New;
        if mutation::is(Mutation::BimodalShareIsFixed) {
            return;
        }
        // A row is drawn as one, and is likely to be used as one: it says no more than a page.
        let step = SHARE_STEP >> row(lruvec.memory).ilog2();
        self.share = match is_used {
            true => self.share + step,
            false => self.share.saturating_sub(step),
        }
        .clamp(SHARE_MIN, SHARE_ALL);
    }

    pub(super) fn validate(&self) {
        assert!(self.share <= SHARE_ALL, "share {}", self.share);
    }
}

/// Pages that are taken in a row.
fn row(memory: PageCount) -> u64 {
    (memory.0 / ROW_SHARE).clamp(1, ROW_MAX)
}

/// What the key draws of 2^16, in this epoch. Pages of a row draw alike.
fn hashed(key: PageKey, memory: PageCount, epoch: u64) -> u32 {
    let row = PageIndex(key.index().0 >> row(memory).ilog2());
    // The table of shadows takes the upper bits.
    u32::from(mix(PageKey::new(key.file(), row).to_bits() ^ mix(epoch)) as u16)
}
