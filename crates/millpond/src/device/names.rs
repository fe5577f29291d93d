//! What people call a device: `vda1`, or `overlay at /` where there is no disk of its own below the file system.

use std::fs;

/// The name of the device with this number, as the system has it now. Reads a link in sysfs, and the list of mounts if
/// that is not there.
pub fn device_name(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok();
    let disk = link.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    let mount = || of_mounts(&fs::read_to_string("/proc/self/mountinfo").ok()?, major, minor);
    disk.or_else(mount).unwrap_or_else(|| format!("{major}:{minor}"))
}

/// `31 23 0:28 / /mnt rw,relatime shared:1 - btrfs /dev/vdb rw`, by the third word; behind the dash are the
/// file system and where it is. A file system whose disk is named there gets its name.
fn of_mounts(mounts: &str, major: u32, minor: u32) -> Option<String> {
    let number = format!("{major}:{minor}");
    let of_line = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(2);
        if words.next()? != number {
            return None;
        }
        let point = words.nth(1)?;
        let mut system = system.split(' ');
        let (kind, source) = (system.next()?, system.next()?);
        Some(match source.strip_prefix("/dev/") {
            Some(disk) => format!("{disk} ({kind})"),
            None => format!("{kind} at {point}"),
        })
    };
    mounts.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_a_disk_is_called_by_its_place_and_others_by_their_disk() {
        let mounts = "22 1 0:21 / / rw shared:1 - overlay overlay rw\n\
                      31 22 0:28 /sub /mnt/a rw,relatime - btrfs /dev/vdb rw\n";
        assert_eq!(of_mounts(mounts, 0, 21).as_deref(), Some("overlay at /"));
        assert_eq!(of_mounts(mounts, 0, 28).as_deref(), Some("vdb (btrfs)"));
        assert_eq!(of_mounts(mounts, 0, 2), None);
        assert_eq!(device_name(rustix::fs::makedev(4095, 77)), "4095:77");
    }
}
