//! What is known of a device without measuring it.
//!
//! For a file on a disk it comes from sysfs, `/sys/dev/block/MAJOR:MINOR/`, where a partition's queue is that of the
//! directory above. A file system without a block device of its own (network, overlay, memory) has no
//! such entry; then [`DeviceFacts::UNKNOWN`] holds.

use std::fs;
use std::path::{Path, PathBuf};

/// What a device says of itself. The policy derives its limits from it: how many writes may be in flight
/// (Axboe 2016: from the queue depth), whether neighbours are worth waiting for. What is `None` in
/// [`DeviceFacts::UNKNOWN`] is for what is no disk, such as a store across a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFacts {
    /// Commands that the device works on at a time; more wait outside it.
    pub queue_depth: u32,
    /// Whether a read somewhere else costs a seek.
    pub rotational: bool,
    /// Whether the device answers writes before they are durable, so that only a flush makes them so.
    pub write_cache: bool,
    /// Bytes of the largest transfer; what a cache reads and writes ends at its multiples. `None`: as a cache's settings say,
    /// which are for disks.
    pub transfer_max: Option<u64>,
    /// Bytes that a cache reads ahead of a reader at most, if there is memory for it. `None`: as the settings say.
    pub readahead_max: Option<u64>,
    /// Bytes of writes that may be in transit, where reads take as long as they do whatever is written beside them: there is no
    /// goal for them, and nothing is measured. `None`: as many as a goal for reads leaves.
    pub in_transit_max: Option<u64>,
}

impl DeviceFacts {
    /// If the device says nothing: a SATA flash disk, whose queue has 32 commands (NCQ), with a write
    /// cache.
    pub const UNKNOWN: DeviceFacts = DeviceFacts {
        queue_depth: 32,
        rotational: false,
        write_cache: true,
        transfer_max: None,
        readahead_max: None,
        in_transit_max: None,
    };

    /// Memory: as much at a time as a caller wants (256 is what the rings here hold).
    pub const MEMORY: DeviceFacts = DeviceFacts {
        queue_depth: 256,
        write_cache: false,
        ..DeviceFacts::UNKNOWN
    };

    /// What sysfs says about the block device.
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

/// The number of the disk whose queue the device's requests go through: its own, but for a partition.
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

/// The disk's directory, for a disk or a partition of it.
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

/// Bytes that the block device reads or writes at least.
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
