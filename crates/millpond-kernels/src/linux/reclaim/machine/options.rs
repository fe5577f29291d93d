//! The machine of Gorman 2011 and its figures.
//!
//! What the post says is taken as it is: one processor, `mem=512M`, a disk that wrote 37.5 GiB in 567 s, 34.97 s of user
//! and system time for 9.6 million pages, 0.26 s for 4,865,170 pages of direct reclaim. What it does not say is chosen so
//! that its "vanilla" column comes out as near as it can, and is said so.

use crate::linux::reclaim::System;
use crate::linux::reclaim::filesystem::FileSystem;
use millpond_core::units::{Bytes, Nanos, PageCount};
use millpond_sim::disk::HddParameters;

/// Processor time of what the machine does, in nanoseconds a page unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineCosts {
    /// A page written by `write`: copied, a frame found, the file system told. 30 s of the post's `prioinode` column by
    /// 9.6 million pages.
    pub write_page: Nanos,
    /// A page of a mapping touched the first time: a fault and the program's own write. 5.97 s of micro's column with the
    /// least by 1.2 million pages.
    pub fault_page: Nanos,
    /// A page that reclaim looks at: 0.26 s by 4,865,170 pages.
    pub scan_page: Nanos,
    /// The same for a mapped one, whose mappings are visited: 2.06 s by 1,834,430 pages of micro's direct reclaim.
    pub scan_mapped_page: Nanos,
    /// A page handed to the block layer. Chosen.
    pub submit_page: Nanos,
    /// A file created, opened and closed. Chosen.
    pub file: Nanos,
    /// fs_mark's other work for a file: a hundred and fiftieth of the post's least "overhead" (6035 us a round).
    pub think: Nanos,
}

impl Default for MachineCosts {
    fn default() -> Self {
        MachineCosts {
            write_page: Nanos(2_900),
            fault_page: Nanos(3_600),
            scan_page: Nanos(53),
            scan_mapped_page: Nanos(1_100),
            submit_page: Nanos(300),
            file: Nanos(60_000),
            think: Nanos(40_000),
        }
    }
}

/// A machine of Gorman 2011.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineOptions {
    /// Reclaim's rules for dirty pages. Not [`System::Millpond`], which has its own driver.
    pub system: System,
    /// How the file system answers reclaim.
    pub filesystem: FileSystem,
    /// All memory.
    pub memory: Bytes,
    /// The part of it below 16 MiB, a zone of its own with lists of its own (x86-64).
    pub low_zone: Bytes,
    /// Pages that the kernel itself keeps: 47 MiB. With the anonymous pages and the files in use it leaves the 94
    /// thousand inactive file pages that 54.6 pages a direct reclaim come from (22.6 at priority 12, then 32).
    pub kernel: PageCount,
    /// Pages of files that are in use all the time: programs and libraries, on the active list. Chosen.
    pub files_in_use: PageCount,
    /// The disk, which files and swap share. 84 MB/s: chosen for the 526 to 535 s of the post's last three columns.
    pub disk: HddParameters,
    /// Writes of one request at most: 512 KiB (`max_sectors_kb`).
    pub request_max: Bytes,
    /// Writes that are in the drive at a time; the rest waits in the block layer's queue, where reads overtake them.
    pub drive_writes_max: u32,
    /// Whether a write from reclaim waits for a block of the file system's log first: xfs of the time chose a new page's place
    /// when it was written, in a transaction. The post says that kswapd was "blocked on page writes"; how is chosen.
    pub reclaim_waits_for_log: bool,
    /// The swap file. Chosen.
    pub swap: Bytes,
    /// Processor time.
    pub costs: MachineCosts,
    /// The seed of what the monitors touch.
    pub seed: u64,
}

impl MachineOptions {
    /// The post's machine.
    pub fn new(system: System) -> MachineOptions {
        MachineOptions {
            system,
            filesystem: FileSystem::Xfs,
            memory: Bytes::from_mib(512),
            low_zone: Bytes::from_mib(16),
            kernel: PageCount(12_000),
            files_in_use: PageCount(6_000),
            disk: HddParameters {
                media_bytes_per_s: 84_000_000,
                ..HddParameters::default()
            },
            request_max: Bytes::from_kib(512),
            drive_writes_max: 8,
            reclaim_waits_for_log: true,
            swap: Bytes::from_mib(2048),
            costs: MachineCosts::default(),
            seed: 1,
        }
    }
}
