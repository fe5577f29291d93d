//! What reclaim does with a page that it meets at the cold end, and when whoever needs a frame must wait.
//!
//! Millpond's reclaim never writes a file page (Gorman 2011, and Linux 7.0): `launder` and `stall` decide, the manager
//! applies. What Linux did on its way there is decided beside it, in pure functions that the laboratory applies:
//!
//! ```text
//!   ladder       the systems of the past and the patches between them, by name
//!   reference    is the page at the cold end in use?
//!   launder      what happens to it: free, keep, write, tag           (with the file system's answer)
//!   batch        what a batch of such pages means: who waits, who is woken
//!   effort       how many pages of which list are offered at a priority; when the background reclaimer goes on
//!   congestion   when a device's queue counts as full, and who sleeps for it
//!   freebsd      the same of another family, Dillon 2000's: queues, targets, laundering
//!   trace        what was met, what was done and why: the last decisions, and all of them counted
//! ```

pub mod batch;
pub mod congestion;
pub mod effort;
pub mod freebsd;
pub mod ladder;
pub mod launder;
pub mod reference;
pub mod stall;
pub mod trace;
