//! What reclaim does with a page that it meets at the cold end, and when whoever needs a frame must wait.
//!
//! Reclaim never writes a file page (seed 000, and Linux 7.0). Both rooms decide; the manager applies.

pub mod launder;
pub mod stall;
