//! Frames: which page is in which, who may touch it, and who waits for that. Here is the hit path.

pub(crate) mod event_count;
pub(crate) mod hazard;
pub(crate) mod index;
pub(crate) mod own;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod wait;
