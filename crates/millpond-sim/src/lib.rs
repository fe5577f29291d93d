//! Virtual time: disks as state machines, what tasks do with memory, and numbers from a seed.
//!
//! It knows the policy's units (`millpond-core`) and not the engine: nothing here reads a clock, starts a thread or moves a
//! byte, so the same calls give the same answers on every machine.

#![forbid(unsafe_code)]

pub mod disk;
pub mod draw;
pub mod swap;
pub mod task;
