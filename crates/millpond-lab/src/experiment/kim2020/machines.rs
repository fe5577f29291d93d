//! The post's machines, as far as they are known.
//!
//! ```text
//!   traces      6100 MB, of which the load can have about 280 MB; swap in memory (the post)
//!   ebizzy      1024 MB, of which the post's own figures leave 646 MB to one thread; swap on a disk
//!   version 7   609 MB by the same arithmetic on its table; swap in memory, 5120 MB
//! ```
//!
//! What a load can have is what its pages fill. What the kernel keeps free comes on top, between the low and the high water
//! mark: 19 MB of 6100, 6 MB of 1024.
//!
//! The derivations are in docs/experiments/kim2020.md.

use crate::workload::kim2020::loads::Load;
use millpond_core::units::{Bytes, Nanos};
use millpond_kernels::linux::anon::System;
use millpond_kernels::linux::anon::machine::{MachineCosts, MachineOptions};
use millpond_sim::disk::{ModelParameters, SsdParameters};
use millpond_sim::swap::Swap;

/// Swap in memory: about what a page costs there.
const MEMORY_SWAP: Swap = Swap::Memory(Nanos(5_000));

/// The disk that fits the post's rows of 768M to 1536M before the series: a read of 32 KiB about 370 us alone, 430 MB/s by
/// eight threads; and its row of 2048M: about 60 MB/s where evicted pages are written.
pub(super) const POST_DISK: SsdParameters = SsdParameters {
    channels: 32,
    stripe: Bytes::from_kib(32),
    read_latency: Nanos::from_micros(270),
    read_bytes_per_s: 9_600_000_000,
    write_burst_bytes_per_s: 500_000_000,
    write_sustained_bytes_per_s: 60_000_000,
    burst_buffer: Bytes(0),
    link_bytes_per_s: 450_000_000,
    queue_depth: 32,
};

/// One of the machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// From the post.
    Post,
    /// From the seventh version's table.
    Version7,
}

/// The machine that a load runs on.
pub(super) fn machine(which: Which, load: &Load, system: System) -> MachineOptions {
    let mib = Bytes::from_mib;
    let base = MachineOptions {
        memory: mib(6100),
        swap: MEMORY_SWAP,
        swap_size: mib(1024),
        costs: MachineCosts::default(),
        ..MachineOptions::new(system, mib(299))
    };
    match (which, load) {
        (Which::Post, Load::Ebizzy(_)) => MachineOptions {
            memory: mib(1024),
            usable: mib(652),
            swap: Swap::Disk(ModelParameters::SataSsd(POST_DISK)),
            // the largest that is more than half full at 2048M only: see the document
            swap_size: mib(3072),
            ..base
        },
        (Which::Version7, Load::Ebizzy(_)) => MachineOptions {
            memory: mib(6144),
            usable: mib(631),
            swap: MEMORY_SWAP,
            swap_size: mib(5120),
            ..base
        },
        _ => base,
    }
}
