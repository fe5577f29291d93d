//! How much may be dirty, who must wait for it, and where the dirty pages are.

pub mod index;
pub mod limits;
pub mod queue;
pub mod throttle;

/// Who dirties pages: a thread or a client, as the driver tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DirtierId(pub u32);
