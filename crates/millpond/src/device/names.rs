//! Readable device names: `vda1`, or `overlay at /` for a file system without a disk of its own.

use crate::host::mounts::{MountEntry, mounts};
use std::fs;
use std::path::Path;

/// Returns the current name of the device with this number. Reads a link in sysfs, or the list of mounts if there is
/// none.
pub fn device_name(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok();
    let disk = link.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    let mount = || of_mounts(&mounts().ok()?, &format!("{major}:{minor}"));
    disk.or_else(mount).unwrap_or_else(|| format!("{major}:{minor}"))
}

/// A file system whose disk is listed there gets its name.
fn of_mounts(mounts: &[MountEntry], device: &str) -> Option<String> {
    let mount = mounts.iter().find(|mount| mount.device == device)?;
    let kind = &mount.fs_type;
    Some(match Path::new(&mount.source).strip_prefix("/dev/") {
        Ok(disk) => format!("{} ({kind})", disk.display()),
        Err(_) => format!("{kind} at {}", mount.point.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_a_disk_is_called_by_its_place_and_others_by_their_disk() {
        let mount = |device: &str, point: &str, kind: &str, source: &str| MountEntry {
            device: device.into(),
            root: "/".into(),
            point: point.into(),
            fs_type: kind.into(),
            source: source.into(),
            options: Vec::new(),
        };
        let mounts = [
            mount("0:21", "/", "overlay", "overlay"),
            mount("0:28", "/mnt/a", "btrfs", "/dev/vdb"),
        ];
        assert_eq!(of_mounts(&mounts, "0:21").as_deref(), Some("overlay at /"));
        assert_eq!(of_mounts(&mounts, "0:28").as_deref(), Some("vdb (btrfs)"));
        assert_eq!(of_mounts(&mounts, "0:2"), None);
        assert_eq!(device_name(rustix::fs::makedev(4095, 77)), "4095:77");
    }
}
