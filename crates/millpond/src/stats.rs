//! What a cache has done, and how full it is.

use crate::device::Device;
use crate::driver::Shared;
use millpond_core::manager::{Derived, Occupancy};
use millpond_core::units::Bytes;

/// A picture of one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Counters, with the kernel's names where the kernel has them.
    pub counters: millpond_core::stats::Stats,
    /// Counters of the replacement.
    pub replacement: millpond_core::lru::Statistics,
    /// How full the pool is and with what.
    pub occupancy: Occupancy,
    /// What the options come to.
    pub derived: Derived,
    /// Bytes of metadata, of the engine and the core, inside the budget.
    pub metadata: Bytes,
    /// Whether the frames are in huge pages: hits on a large set are then two to three times as fast.
    pub is_huge: bool,
    /// Warnings given so far ([`Builder::on_warning`](crate::Builder::on_warning)): each says that a transfer, a sync or a
    /// change of a length has been waiting for its device for long.
    pub warnings: u64,
    /// How transfers are made, and why.
    pub device: String,
}

impl Stats {
    pub(crate) fn of(shared: &Shared) -> Stats {
        let mut core = shared.core();
        let table = shared.table.locked(&mut core.turn).metadata_bytes();
        let manager = &core.manager;
        Stats {
            counters: *manager.stats(),
            replacement: *manager.lru_statistics(),
            occupancy: manager.occupancy(shared.clock.now()),
            derived: *manager.derived(),
            metadata: Bytes(table + manager.metadata_bytes()),
            is_huge: shared.table.memory().huge(),
            warnings: shared.device.warnings(),
            device: shared.device.name().to_owned(),
        }
    }
}
