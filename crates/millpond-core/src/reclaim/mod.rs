//! What reclaim does with a page that it meets at the cold end, and when a caller that needs a frame must wait.
//!
//! Millpond's reclaim never writes a file page (Gorman 2011, and Linux 7.0): `launder` and `stall` decide, the manager
//! applies; `trace` counts what was met, what was done and why, and keeps the last decisions.

pub mod launder;
pub mod stall;
pub mod trace;
