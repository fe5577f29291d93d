//! The simulator: the same policy as the engine's, in virtual time on a modelled disk.
//!
//! ```text
//!   scripts ── operations ──► world ── events ──► core::Manager
//!      ▲                        │ ▲                   │
//!      └──────── done ──────────┘ └── completions ── model ◄── effects
//! ```
//!
//! One queue of events, ordered by virtual time and then by the order in which they were entered. Nothing reads
//! a clock or an unseeded random number: the same seed gives the same bytes. [`faults`] says what goes wrong; the
//! [`checker`] holds every step against what must be true of any page cache.

pub mod axboe;
pub mod checker;
pub mod company;
pub mod crowd;
pub mod faults;
pub mod frames;
pub mod hills;
pub mod process;
pub mod region;
mod scripts;
pub mod stream;
pub mod swarm;
pub mod world;

pub use faults::{Coverage, Faults, Seen};
pub use process::{Done, Failure, Op, Script};
pub use world::{Costs, World, WorldOptions};
