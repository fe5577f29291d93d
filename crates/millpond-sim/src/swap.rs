//! The backing store for swap.

use crate::disk::ModelParameters;
use millpond_core::units::Nanos;

/// A place to swap to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Swap {
    /// A disk of memory, served by the task that asks for it, at this cost a page: no read-ahead, no page stays in the
    /// swap cache and its slot is given back at once (`SWP_SYNCHRONOUS_IO`).
    Memory(Nanos),
    /// A modeled disk.
    Disk(ModelParameters),
}

impl Swap {
    /// Its name in rows.
    pub fn name(&self) -> &'static str {
        match self {
            Swap::Memory(_) => "ram",
            Swap::Disk(model) => model.name(),
        }
    }
}
