//! Device properties that are known without a measurement.
//!
//! For a file on a disk they come from sysfs, `/sys/dev/block/MAJOR:MINOR/`; a partition uses the queue of its parent
//! directory. A file system without a block device of its own (network, overlay, memory) has no such entry;
//! [`DeviceFacts::UNKNOWN`] then applies.

use std::fs;
use std::path::{Path, PathBuf};

/// The properties that a device reports. The policy derives limits from them: how many writes may be in flight (Axboe
/// 2016: from the queue depth), and whether waiting for adjacent pages pays off. The optional fields, `None` in
/// [`DeviceFacts::UNKNOWN`], are for devices that are not disks, such as a store across a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFacts {
    /// The number of commands that the device processes concurrently; more wait outside it.
    pub queue_depth: u32,
    /// Whether a read at another location costs a seek.
    pub rotational: bool,
    /// Whether the device acknowledges writes before they are durable, so that they need a flush.
    pub write_cache: bool,
    /// The largest transfer in bytes; the cache's reads and writes end at its multiples. `None`: the cache's settings
    /// apply, which suit disks.
    pub transfer_max: Option<u64>,
    /// The largest read-ahead of a cache in bytes, if memory allows. `None`: the settings apply.
    pub readahead_max: Option<u64>,
    /// The limit of write bytes in transit, for a device whose read latency does not depend on concurrent writes. There
    /// is then no read latency goal, and nothing is measured. `None`: the read latency goal determines the limit.
    pub in_transit_max: Option<u64>,
}

impl DeviceFacts {
    /// The default if the device reports nothing: a SATA flash disk with a queue of 32 commands (NCQ) and a write
    /// cache.
    pub const UNKNOWN: DeviceFacts = DeviceFacts {
        queue_depth: 32,
        rotational: false,
        write_cache: true,
        transfer_max: None,
        readahead_max: None,
        in_transit_max: None,
    };

    /// Memory: unlimited concurrency (256 is the capacity of the rings used here).
    pub const MEMORY: DeviceFacts = DeviceFacts {
        queue_depth: 256,
        write_cache: false,
        ..DeviceFacts::UNKNOWN
    };

    /// Reads the properties of the block device from sysfs.
    pub(crate) fn of_block_device(major: u32, minor: u32) -> Option<DeviceFacts> {
        DeviceFacts::of_directory(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
    }

    fn of_directory(device: &Path) -> Option<DeviceFacts> {
        let disk = disk_directory(device)?;
        let attribute = |name: &str| fs::read_to_string(disk.join(name)).ok();
        let number = |name: &str| attribute(name)?.trim().parse().ok();
        // A SCSI disk says what it takes itself; elsewhere the block layer's own limit has to do, as in Linux 6.x
        // `blk_queue_depth`.
        let queue_depth = number("device/queue_depth").or_else(|| number("queue/nr_requests"))?;
        Some(DeviceFacts {
            queue_depth,
            rotational: number("queue/rotational")? != 0,
            write_cache: attribute("queue/write_cache").is_none_or(|kind| kind.trim() == "write back"),
            ..DeviceFacts::UNKNOWN
        })
    }
}

/// Returns the number of the disk whose queue handles the device's requests: its own, or the whole disk's for a
/// partition.
pub(crate) fn queue_of(device: u64) -> u64 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let disk = disk_directory(Path::new(&format!("/sys/dev/block/{major}:{minor}")));
    let number = disk.and_then(|disk| fs::read_to_string(disk.join("dev")).ok());
    let of_disk = number.and_then(|number| {
        let (major, minor) = number.trim().split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    });
    of_disk.unwrap_or(device)
}

/// Returns the sysfs directory of the disk, for a disk or a partition of it.
pub(super) fn disk_directory(device: &Path) -> Option<PathBuf> {
    let device = device.canonicalize().ok()?;
    match device.join("queue").exists() {
        true => Some(device),
        false => device
            .parent()
            .filter(|disk| disk.join("queue").exists())
            .map(Path::to_path_buf),
    }
}

/// Returns the smallest number of bytes that the block device reads or writes.
pub(crate) fn logical_block_bytes(major: u32, minor: u32) -> Option<u32> {
    let disk = disk_directory(Path::new(&format!("/sys/dev/block/{major}:{minor}")))?;
    fs::read_to_string(disk.join("queue/logical_block_size"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[test]
    fn partition_has_the_facts_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sda");
        write(&disk.join("queue/nr_requests"), "256\n");
        write(&disk.join("queue/rotational"), "1\n");
        write(&disk.join("queue/write_cache"), "write through\n");
        fs::create_dir(disk.join("sda1")).unwrap();
        let expected = DeviceFacts {
            queue_depth: 256,
            rotational: true,
            write_cache: false,
            ..DeviceFacts::UNKNOWN
        };
        assert_eq!(DeviceFacts::of_directory(&disk), Some(expected));
        assert_eq!(DeviceFacts::of_directory(&disk.join("sda1")), Some(expected));
        write(&disk.join("device/queue_depth"), "32\n");
        assert_eq!(DeviceFacts::of_directory(&disk).unwrap().queue_depth, 32);
        assert_eq!(DeviceFacts::of_directory(&folder.path().join("none")), None);
    }
}
