//! The counters of the block device under a directory: what really went to and from it, as vmstat shows it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that a device has read and written since some time in the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskBytes {
    /// Read from it.
    pub read: u64,
    /// Written to it.
    pub written: u64,
}

/// A place where the kernel counts a block device's traffic: `/sys/dev/block/MAJOR:MINOR/stat`.
#[derive(Clone, Debug)]
pub struct DiskCounters {
    stat: PathBuf,
}

impl DiskCounters {
    /// The counters of the device that holds `dir`, or `None` where no single device does (tmpfs, overlay, a
    /// file system over several devices) or the kernel does not show it.
    pub fn of(dir: &Path) -> Option<DiskCounters> {
        let stat = block_device(dir)?.join("stat");
        let counters = DiskCounters { stat };
        counters.read().map(|_| counters)
    }

    /// The counters now. They count all users of the device.
    pub fn read(&self) -> Option<DiskBytes> {
        parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

/// Where sysfs shows the block device that holds `dir`: the partition, if it is one.
pub fn block_device(dir: &Path) -> Option<PathBuf> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// Fields 3 and 7 are sectors read and written, always of 512 bytes (Linux, Documentation/block/stat.rst).
fn parse(text: &str) -> Option<DiskBytes> {
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    let read = fields.nth(2)?.ok()?;
    let written = fields.nth(3)?.ok()?;
    Some(DiskBytes {
        read: read * 512,
        written: written * 512,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_become_bytes() {
        let text = "  120 3 4096 17 5 6 8192 9 0 30 40 0 0 0 0 0 0\n";
        let bytes = DiskBytes {
            read: 4096 * 512,
            written: 8192 * 512,
        };
        assert_eq!(parse(text), Some(bytes));
        assert_eq!(parse("1 2 3"), None);
        assert_eq!(parse("a b c d e f g"), None);
    }
}
