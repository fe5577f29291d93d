//! The simulator: the engine's policy in virtual time on modeled disks.
//!
//! ```text
//!   scripts ── operations ──► world ── events ──► core::Manager        region ── faults ──► core::Manager
//!      ▲                        │ ▲                   │                   (one task that uses memory)
//!      └──────── done ──────────┘ └── completions ── disk ◄── effects
//! ```
//!
//! There is one queue of events, ordered by virtual time and then by insertion. Nothing reads a clock, starts a thread,
//! moves a byte or draws an unseeded random number: the same seed gives the same bytes on every machine. [`faults`]
//! defines what goes wrong. The [`checker`] tests every step against what must be true of any page cache.
//!
//! The simulator depends on `millpond-core` alone. The engine is the other driver of the same state machine, and
//! neither knows the other.

#![forbid(unsafe_code)]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   5  pressure                             worlds in which nearly all of memory is dirty or held
//   4  mixed_load  swarm                    a writer and a reader; worlds drawn from a seed
//   3  region  world                        a machine that uses memory; one with files and processes
//   2  checker  scripts  swap  traces       what must hold; what processes do; where pages are swapped to; others' recordings
//   1  disk  draw  faults  frames  process  task  policy   disks, chance, faults, frames, operations; models of replacement policies
//   0  look  unknown                        what a machine looks like, for those that draw it; names that nothing has

pub mod checker;
pub mod disk;
pub mod draw;
pub mod faults;
pub mod frames;
pub mod look;
pub mod mixed_load;
pub mod policy;
pub mod pressure;
pub mod process;
pub mod region;
pub mod scripts;
pub mod swap;
pub mod swarm;
pub mod task;
pub mod traces;
pub mod unknown;
pub mod world;

pub use faults::{Coverage, Faults, Seen};
pub use process::{Done, Failure, Op, Script};
pub use world::{Costs, World, WorldOptions};
