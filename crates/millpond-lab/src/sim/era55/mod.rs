//! The machine of Kim 2020: Linux 5.5 to 7.0 with anonymous pages, files and swap, in virtual time.
//!
//! A third driver beside [`World`](super::World) and the machine of 2011 ([`era`](super::era)), for the reasons of decision
//! 0007: what it drives is not Millpond's manager. Unlike that of 2011 it has a processor for each task, one set of lists
//! for all memory, and tasks that touch memory instead of writing files. Which page leaves, what is remembered of it and
//! how scans are divided is decided by the core's pure functions: `lru::anon`, `lru::balance`, `reclaim::reference`.

mod counters;
mod disk;
mod fault;
mod machine;
mod memory;
mod options;
mod reclaim;
mod slots;
#[cfg(test)]
mod tests;
mod toy;

pub use counters::Counters;
pub use machine::Machine;
pub use options::{Era55Costs, Era55Options};
pub use toy::{Lists, Toy};
