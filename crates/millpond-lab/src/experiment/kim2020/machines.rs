//! The post's machines, as far as they are known.
//!
//! ```text
//!   traces      6100 MB, of which the load can have about 280 MB; swap in memory (the post)
//!   ebizzy      1024 MB, of which the post's own figures leave 646 MB to one thread; swap on a disk
//! ```
//!
//! What a load can have is what its pages fill. What the kernel keeps free comes on top, between the low and the high water
//! mark: 19 MB of 6100, 6 MB of 1024.
//!
//! The derivations are in docs/experiments/kim2020.md.

use crate::workload::kim2020::loads::Load;
use millpond_core::units::{Bytes, Nanos};
use millpond_kernels::linux::anon::System;
use millpond_kernels::linux::anon::machine::MachineOptions;
use millpond_sim::disk::{ModelParameters, SsdParameters};
use millpond_sim::swap::Swap;

/// The disk that fits the post's rows of 768M to 1536M before the series: a read of 32 KiB about 370 us alone, 430 MB/s by
/// eight threads; and its row of 2048M: about 60 MB/s where evicted pages are written.
const POST_DISK: SsdParameters = SsdParameters {
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

/// The machine that a load runs on.
pub(super) fn machine(load: &Load, system: System) -> MachineOptions {
    let mib = Bytes::from_mib;
    match load {
        Load::Ebizzy(_) => MachineOptions {
            memory: mib(1024),
            swap: Swap::Disk(ModelParameters::SataSsd(POST_DISK)),
            // the largest that is more than half full at 2048M only: see the document
            swap_size: mib(3072),
            ..MachineOptions::new(system, mib(652))
        },
        _ => MachineOptions {
            memory: mib(6100),
            swap_size: mib(1024),
            ..MachineOptions::new(system, mib(299))
        },
    }
}
