//! The machine of Gorman 2011: Linux of 2011 on one processor, 512 MB and one disk, in virtual time.
//!
//! ```text
//!   tasks ── frames? ──► memory: zones, lists      ◄── shrink ◄── kswapd · direct reclaim
//!     │ dirty                                             │ decisions: the rules beside it
//!     ▼                                                   ▼
//!   dirtier ──► files: dirty pages, lists ──► writeback ──► block: 128 requests ──► disk
//! ```
//!
//! It is a machine of its own, because these kernels write from the end of the list, sleep in the middle of a scan and have
//! threads that wait for a full queue, which Millpond's manager cannot (decision 0007). What a page's fate is, how much is
//! scanned, which thread waits when: all that is decided by the pure functions beside it; what is here is the machinery
//! around them.

mod anon;
mod block;
mod counters;
mod dirtier;
mod files;
mod kswapd;
mod look;
mod memory;
mod options;
mod run;
mod scheduler;
mod scripts;
mod shrink;
mod task;
mod writeback;

pub use counters::{Counters, Waits};
pub use options::{MachineCosts, MachineOptions};
pub use run::{FILES, Load, MICRO_PAGES, Ran, anonymous_pages, loaded, run};
pub use scheduler::Machine;
pub use scripts::{BackgroundTask, FsMark, Habits, Micro, Round, Rounds};
pub use task::{TaskOp, TaskScript};
