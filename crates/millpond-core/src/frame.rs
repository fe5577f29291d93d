//! What the core may ask of the world's frames.
//!
//! A hit never enters the core: it pins a page and sets a referenced bit in an atomic word that belongs
//! to the driver. The core learns of it when its scan asks, as a kernel's reclaim reads accessed bits.

use crate::units::{FrameNo, PageKey};
use alloc::vec::Vec;

/// The most accesses that a frame's word counts between two looks of the scan.
pub const ACCESSES_MAX: u8 = 3;

/// The frames of the world that drives the core: the engine's atomic words, or the simulator's arrays.
///
/// Every call happens inside a step of the core, under whatever excludes other steps; hits go on beside it.
pub trait FrameTable {
    /// The page that `frame` holds. Asked only of frames that the core has granted; in the very step that grants it, before
    /// the world knows, whatever it held before, or [`PageKey::NONE`], is an answer.
    fn key(&self, frame: FrameNo) -> PageKey;

    /// The frame that holds the page (being read counts), if any does.
    fn lookup(&self, key: PageKey) -> Option<FrameNo>;

    /// How often the page was used since this was asked last: 0 to [`ACCESSES_MAX`], saturating. Clears the count, as a
    /// kernel's `folio_referenced` clears accessed bits. 0 of a frame that was granted in the present step and is not in
    /// the table yet.
    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8;

    /// Whether a use of the page would have been counted since its count was cleared last. Not so of a page that is mapped
    /// in its region, where a use leaves no trace; clearing its count moves it out.
    fn tracks_accesses(&self, _frame: FrameNo) -> bool {
        true
    }

    /// Takes pages out of the table, except those that are pinned, locked or changed since the core last
    /// heard of them; those it removes from `frames`. What is left in `frames`, in the same order, can no
    /// longer be found by anybody.
    fn evict(&mut self, frames: &mut Vec<FrameNo>);

    /// Clears the page's dirty mark and sets its writeback mark, so that its content may go to the device and
    /// a later change is a new clean-to-dirty edge; or leaves it as it is and says when to ask again.
    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite;
}

/// What became of a page that was to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeginWrite {
    /// Its write has begun.
    Begun,
    /// It is being changed at this moment, and no event says when that is over: ask again later.
    Busy,
    /// The same of so many pages of the file from this one on, whichever of them are in memory.
    BusyRun(u64),
    /// Its content is not needed: it is out of the table, and the frame is the core's.
    Useless,
    /// It may not be written yet. The driver says when, by [`Event::Released`](crate::event::Event::Released); until then
    /// the core does not ask.
    LogBlocked,
}
