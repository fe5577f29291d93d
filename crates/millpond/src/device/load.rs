//! The current load on a disk from all its users, which shows whether a timed read had the disk to itself.
//!
//! The kernel counts requests in `/sys/dev/block/MAJOR:MINOR/stat`, for the whole disk, because its partitions share
//! the queue. A file system without a block device of its own (btrfs, overlay, network) has no such file, and a disk
//! with disabled statistics counts nothing.

use super::facts::disk_directory;
use std::fs;
use std::path::Path;

/// The load that a device reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeviceLoad {
    /// Unknown, for example because the device is not a disk. The cache does not measure it again on its own.
    Unknown,
    /// Only the cache's own requests are known, not those of others.
    OwnOnly,
    /// The load on the disk from all its users.
    Disk {
        /// Requests in flight.
        in_transit: u64,
        /// Requests completed since the system was started.
        ended: u64,
    },
}

impl DeviceLoad {
    /// Reads the load of the block device from sysfs.
    pub(crate) fn of_block_device(major: u32, minor: u32) -> DeviceLoad {
        DeviceLoad::of_directory(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
            .unwrap_or(DeviceLoad::OwnOnly)
    }

    fn of_directory(device: &Path) -> Option<DeviceLoad> {
        let disk = disk_directory(device)?;
        let read = |name: &str| fs::read_to_string(disk.join(name)).ok();
        if read("queue/iostats").is_some_and(|on| on.trim() == "0") {
            return None;
        }
        // Requests that have ended: reads, writes, discards (Linux 4.19), flushes (5.5).
        let fields: Vec<u64> = read("stat")?
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let ended = [0, 4, 11, 15].iter().filter_map(|&at| fields.get(at)).sum();
        let in_transit = *fields.get(8)?;
        // A disk that counts nothing, as the heads of NVMe paths do in some versions.
        (ended > 0).then_some(DeviceLoad::Disk { in_transit, ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_load_of_its_disk_and_a_disk_that_counts_nothing_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir(disk.join("sda1")).unwrap();
        let says = |text: &str| {
            fs::write(disk.join("stat"), text).unwrap();
            DeviceLoad::of_directory(&disk.join("sda1"))
        };
        let load = |in_transit, ended| Some(DeviceLoad::Disk { in_transit, ended });
        let full = "  10 1 80 5 20 2 160 7 3 9 12 40 0 0 0 100 8\n";
        assert_eq!(says(full), load(3, 170));
        assert_eq!(
            says("10 1 80 5 20 2 160 7 3 9 12"),
            load(3, 30),
            "before discards"
        );
        assert_eq!(says("0 0 0 0 0 0 0 0 0 0 0"), None);
        assert_eq!(says("10 1 80"), None);
        says(full);
        fs::write(disk.join("queue/iostats"), "0\n").unwrap();
        assert_eq!(DeviceLoad::of_directory(&disk), None);
    }
}
