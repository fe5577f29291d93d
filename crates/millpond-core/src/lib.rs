//! The policy of Millpond's page cache as a pure state machine.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod frame;
pub mod list;
pub mod lru;
pub mod units;
