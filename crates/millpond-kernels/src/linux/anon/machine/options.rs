//! The machine's settings.

use crate::linux::anon::System;
use millpond_core::units::{Bytes, Nanos};
use millpond_sim::disk::{ModelParameters, SsdParameters};
use millpond_sim::swap::Swap;

/// What a page's way costs a processor. Of the order of what the laboratory's kernels are measured at; the load's own cost
/// for each page comes on top.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineCosts {
    /// A first touch: fault, clearing, entry.
    pub fault_new: Nanos,
    /// A fault on a page that is in memory.
    pub fault_minor: Nanos,
    /// A fault that reads from swap, besides the reading.
    pub fault_major: Nanos,
    /// Each page that is read or written there.
    pub swap_page: Nanos,
    /// A page that a scan looks at.
    pub scan_page: Nanos,
}

impl Default for MachineCosts {
    fn default() -> MachineCosts {
        MachineCosts {
            fault_new: Nanos(400),
            fault_minor: Nanos(400),
            fault_major: Nanos(3_000),
            swap_page: Nanos(700),
            scan_page: Nanos(200),
        }
    }
}

/// A machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineOptions {
    /// The kernel's rules.
    pub system: System,
    /// Memory that the water marks are derived from.
    pub memory: Bytes,
    /// The part that the load can have.
    pub usable: Bytes,
    /// Swap's size.
    pub swap_size: Bytes,
    /// Swap.
    pub swap: Swap,
    /// The disk of the files.
    pub files: ModelParameters,
    /// 0 to 200, 60 as shipped.
    pub swappiness: u64,
    /// Pages read at a time are two to the power of this, 3 as shipped.
    pub page_cluster: u32,
    /// Pages on the lists of the root group, where programs run in groups of their own: what bounds shadows before patch 5.
    /// `None`: all run in the root group.
    pub root_group_pages: Option<u64>,
    /// Costs.
    pub costs: MachineCosts,
}

impl MachineOptions {
    /// A machine with this much memory, all of it for the load, and swap five times that size in memory.
    pub fn new(system: System, usable: Bytes) -> MachineOptions {
        MachineOptions {
            system,
            memory: usable,
            usable,
            swap_size: Bytes(5 * usable.0),
            swap: Swap::Memory(Nanos(5_000)),
            files: ModelParameters::SataSsd(SsdParameters::default()),
            swappiness: 60,
            page_cluster: 3,
            root_group_pages: None,
            costs: MachineCosts::default(),
        }
    }
}
