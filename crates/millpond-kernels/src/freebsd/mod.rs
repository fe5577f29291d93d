//! FreeBSD's pageout daemon: Dillon 2000's four rules for dirty pages, and their later form.
//!
//! ```text
//!   fault ──► active ── unused for long ──► inactive ── clean, unused ──► cache ──► free
//!               ▲  act_count down to 0         │  ▲                         │
//!               └────────── in use ────────────┘  └─ dirty: the rule ───────┘ used again: back
//! ```
//!
//! ```text
//!   system       the systems by name, and what distinguishes them
//!   targets      how many pages are to be free, inactive; what counts as short
//!   activity     how much a page is used
//!   cluster      which neighbours are written with it
//!   laundering   to 11: what happens to the page at the cold end of the inactive queue, and how many may be written;
//!                passes, sleeps, and when a process is killed
//!   laundry      12 and 13: how many pages a thread of its own cleans, how many the inactive scan frees (pid), and how
//!                fast the active queue is looked through (clock)
//!   machine      a news server that runs all of it
//! ```

pub mod activity;
pub mod cluster;
pub mod laundering;
pub mod laundry;
pub mod machine;
mod system;
pub mod targets;

pub use system::{ALL_OUT, FreeBsdRules, LaundryRule, System};
