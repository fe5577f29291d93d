//! How much may be dirty, which dirtiers must wait, and where the dirty pages are.

pub mod index;
pub mod limits;
pub mod queue;
pub mod throttle;

/// A thread or client that dirties pages, as the driver distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DirtierId(pub u32);
