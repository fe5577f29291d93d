//! How much may be dirty, who must wait for it, and where the dirty pages are.

pub mod index;
pub mod limits;
pub mod linux;
pub mod queue;
pub mod throttle;
