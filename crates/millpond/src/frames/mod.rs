//! Frames: which page is in which frame, which threads may touch it, and which wait for it. The hit
//! path is here.

pub(crate) mod event_count;
pub(crate) mod hazard;
pub(crate) mod index;
pub(crate) mod own;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod wait;
