//! Linux' limits on dirty pages and its controller of pauses, as pure functions: what Hills 2015 is about.
//!
//! ```text
//!   settings, memory ──► limits ──► ratelimit            touch     when these are derived, and by which rule
//!                           │
//!   device's share ─────────┼──► position (how far from where it should be) ─┐
//!   bytes written ──► rate (bandwidth; what each dirtier may dirty) ─────────┴──► pause ──► balance
//! ```
//!
//! Nothing of it steers a Millpond cache: that has [`limits`](millpond_core::dirty::limits) and
//! [`throttle`](millpond_core::dirty::throttle). `millpond doctor --kernel` says with it what a kernel does with its
//! settings. [`zone`] is the memory that the limits are shares of; [`dirtiers`] is the machine that runs the controller.
//! Time is in ticks (jiffies) of `hz` a second, because rounding to ticks is part of what the post has seen. Source: Linux
//! `mm/page-writeback.c`, of 4.0 where said, else of 7.0.

pub mod balance;
pub mod before32;
pub mod device;
pub mod dirtiers;
pub mod limits;
pub mod pause;
pub mod position;
pub mod rate;
pub mod touch;
pub mod zone;
