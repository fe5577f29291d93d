//! The policy of Millpond's page cache: a pure state machine.
//!
//! It has no clock, thread, file, environment, randomness or unsafe code. Time is an argument, waiting is a value, and
//! the same events give the same effects, bit for bit. The engine (real threads, real disks) and the simulator (virtual
//! time, modeled disks) both drive the same [`manager::Manager`].
//!
//! The modules form rows. A file, its tests included, may name `crate::x` only if `x` is its own module or in a lower
//! row; modules in the same row don't know one another. A test in the lab checks this table against the sources.
//!
//! ```text
//!   7  manager                                       composes all modules, step by step
//!   6  event                                         input and output of a step
//!   5  options                                       collects the options of all modules
//!   4  reclaim  writeback                            what to do at the cold end; which dirty page to write
//!   3  lru  dirty  swap                              which page to evict; how many may be dirty; swap slots
//!   2  memory  admission  readahead  recent  stats   frames; the device; streams; counters
//!   1  frame  list  io  latencies  range  reuse      the driver's frames; transfers; ranges of options
//!   1  formula                                       a limit's value and its text
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
mod formula;
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
