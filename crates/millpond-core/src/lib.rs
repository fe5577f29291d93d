//! The policy of Millpond's page cache: a pure state machine.
//!
//! No clock, no thread, no file, no environment, nothing random, no unsafe: time is an argument, waiting is
//! a value, and the same events give the same effects, bit for bit. The engine (real threads, real disks)
//! and the simulator (virtual time, modelled disks) are two drivers of the same [`manager::Manager`].
//!
//! Rows of modules. A file, its tests included, names `crate::x` only if `x` is its own module or stands in a lower row;
//! modules side by side in a row don't know one another. A test of the lab reads this table and the sources.
//!
//! ```text
//!   7  manager                                       composes all of them, step by step
//!   6  event                                         what goes into a step and comes out of it
//!   5  options                                       gathers what each module lets users choose
//!   4  reclaim  writeback                            what to do at the cold end; which dirty page is written
//!   3  lru  dirty  swap                              which page leaves; how many may be dirty; where it goes
//!   2  memory  admission  readahead  recent  stats   frames; the device; streams; what is counted
//!   1  frame  list  io  latencies  range  reuse      what the world lends; transfers; ranges of options
//!   0  units  page  mutation                         the vocabulary
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
pub mod range;
pub mod readahead;
pub mod recent;
pub mod reclaim;
pub mod reuse;
pub mod stats;
pub mod swap;
pub mod units;
pub mod writeback;
