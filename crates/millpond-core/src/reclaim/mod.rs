//! What reclaim does with a page at the cold end, and when a caller that needs a frame must wait.
//!
//! Millpond's reclaim never writes a file page (as in Gorman 2011 and Linux 7.0). `launder` and `stall` decide, the
//! manager applies their decisions, and `trace` counts them with their reasons and keeps recent ones.

pub mod launder;
pub mod stall;
pub mod trace;
