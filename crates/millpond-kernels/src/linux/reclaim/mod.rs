//! The rules of Linux's reclaim for dirty pages, from 3.0 with Gorman 2011's patches one by one to 7.0.
//!
//! ```text
//!   system       the kernels, and the patches between them, by name
//!   launder      what happens to the page at the cold end: free, keep, write, tag
//!   filesystem   what its file system answers when it is asked to write it
//!   batch        what a batch of such pages means: which thread waits, which is woken
//!   effort       how many pages of which list are offered at a priority; when kswapd goes on
//!   congestion   when a device's queue counts as full, and which threads sleep for it
//!   machine      the machine of Gorman 2011, which runs all of them
//! ```

pub mod batch;
pub mod congestion;
pub mod effort;
pub mod filesystem;
pub mod launder;
pub mod machine;
mod system;

pub use system::{DirtierRule, System};
