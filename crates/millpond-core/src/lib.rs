//! The policy of Millpond's page cache: a pure state machine.
//!
//! No clock, no thread, no file, no environment, nothing random, no unsafe: time is an argument, waiting is
//! a value, and the same events give the same effects, bit for bit. The engine (real threads, real disks)
//! and the simulator (virtual time, modelled disks) are two drivers of the same [`manager::Manager`].
//!
//! Rooms, each importing only from those below it:
//!
//! ```text
//!   5  manager   event                            composes; what goes in and out
//!   4  options                                    gathers what each room lets users choose
//!   3  reclaim                                    what to do at the cold end; when to wait
//!   2  lru   writeback  swap                      which page leaves; which dirty page is written; where it goes
//!   1  list  memory  dirty  admission  readahead  recent  latencies  io  page
//!   0  units  stats  frame  mutation              the vocabulary
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "mutations"))]
extern crate std;

pub mod admission;
pub mod dirty;
pub mod event;
pub mod frame;
pub mod io;
mod latencies;
pub mod list;
pub mod lru;
pub mod manager;
pub mod memory;
pub mod mutation;
pub mod options;
pub mod page;
pub mod readahead;
pub mod recent;
pub mod reclaim;
pub mod stats;
pub mod swap;
pub mod units;
pub mod writeback;
