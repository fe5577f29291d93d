//! The machine of Kim 2020: Linux 5.5 to 7.0 with anonymous pages, files and swap, in virtual time.
//!
//! Unlike [that of 2011](crate::linux::reclaim::machine) it has a processor for each task, one set of lists for all memory,
//! and tasks that touch memory instead of writing files. Which page leaves, what is remembered of it and how scans are
//! divided is decided by the pure functions beside it, [`balance`](crate::linux::balance) and
//! [`reference`](crate::linux::reference).

mod counters;
mod disk;
mod fault;
mod memory;
mod options;
mod reclaim;
mod scheduler;
mod slots;
#[cfg(test)]
mod tests;
mod toy;

pub use counters::Counters;
pub use options::{MachineCosts, MachineOptions};
pub use scheduler::Machine;
pub use toy::{Lists, Toy};
