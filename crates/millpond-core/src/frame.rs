//! What the core may ask about the driver's frames.
//!
//! A hit never enters the core: it pins a page and sets a referenced bit in an atomic word that belongs to the driver.
//! The core learns of it when its scan asks, as a kernel's reclaim reads accessed bits.

use crate::units::{FrameNo, PageKey};
use alloc::vec::Vec;

/// The most accesses that a frame's word counts between two visits of the scan.
pub const ACCESSES_MAX: u8 = 3;

/// The frames of the driver: the engine's atomic words, or the simulator's arrays.
///
/// Every call happens inside a step of the core, under whatever excludes other steps. Hits continue concurrently.
pub trait FrameTable {
    /// The page in `frame`. Asked only for frames that the core has granted. During the step that grants a frame the
    /// driver does not know of it yet; it may then return the frame's previous page, or [`PageKey::NONE`].
    fn key(&self, frame: FrameNo) -> PageKey;

    /// The frame that holds the page, if any. A page being read counts.
    fn lookup(&self, key: PageKey) -> Option<FrameNo>;

    /// How often the page was used since the last call: 0 to [`ACCESSES_MAX`], saturating. Clears the count, as a
    /// kernel's `folio_referenced` clears accessed bits. Returns 0 for a frame that was granted in the current step and
    /// is not in the table yet.
    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8;

    /// Whether uses of the page have been counted since its count was last cleared. False for a page mapped in its
    /// region, where a use leaves no trace; clearing its count unmaps it.
    fn tracks_accesses(&self, _frame: FrameNo) -> bool {
        true
    }

    /// Removes pages from the table, except those that are pinned, locked, or changed since the core last heard of
    /// them, which it drops from `frames`. The pages left in `frames`, in the same order, can no longer be found by any
    /// caller.
    fn evict(&mut self, frames: &mut Vec<FrameNo>);

    /// Clears the page's dirty mark and sets its writeback mark, so that its content may go to the device and a later
    /// change is a new clean-to-dirty transition. Otherwise leaves the page alone and says when to ask again.
    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite;
}

/// The result of [`FrameTable::begin_write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeginWrite {
    /// Its write has begun.
    Begun,
    /// The page is being changed, and no event reports the end of that. Ask again later.
    Busy,
    /// The same for this many pages of the file from this one on, whichever of them are in memory.
    BusyRun(u64),
    /// The content is not needed. The page is out of the table, and the frame belongs to the core.
    Useless,
    /// The page may not be written yet. The driver reports the end of that by
    /// [`Event::Released`](crate::event::Event::Released); until then the core does not ask.
    LogBlocked,
}
