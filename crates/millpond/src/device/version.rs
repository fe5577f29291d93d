//! Detects whether a file has changed while it was closed.

use super::DeviceFile;
use rustix::fs::FsWord;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What tells one content of a file from another, as far as the system says so: another file under the same number, and a
/// change of the content or of attributes, have another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version {
    created: Option<SystemTime>,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Two changes that are farther apart have times that differ, whatever the kernel: its clock for files has 100 ticks a second
/// or more.
const TICK_MAX: Duration = Duration::from_millis(20);

impl DeviceFile {
    /// Its version. `None`: it has no name left, or the next change might not change the version.
    ///
    /// # Errors
    /// As `fstat` fails.
    pub(crate) fn version(&self) -> io::Result<Option<Version>> {
        let about = self.buffered.file().metadata()?;
        if about.nlink() == 0 || self.is_block_device() {
            return Ok(None);
        }
        let version = Version {
            created: about.created().ok(),
            len: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        };
        Ok((is_older_than_a_tick(&about) || self.times_are_fine()).then_some(version))
    }

    /// Whether each change has a time of its own: since Linux 6.13, once a file's times were asked for, the next change does not
    /// get the same.
    fn times_are_fine(&self) -> bool {
        /// ext4, xfs, btrfs and tmpfs.
        const MULTIGRAIN: [u32; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
        static KERNEL: OnceLock<bool> = OnceLock::new();
        let is_of = |magic: FsWord| MULTIGRAIN.iter().any(|&one| FsWord::from(one) == magic);
        *KERNEL.get_or_init(|| is_since_6_13(&rustix::system::uname().release().to_string_lossy()))
            && rustix::fs::fstatfs(self.buffered.file()).is_ok_and(|about| is_of(about.f_type))
    }
}

fn is_older_than_a_tick(about: &Metadata) -> bool {
    let since = Duration::new(
        about.ctime().try_into().unwrap_or(0),
        about.ctime_nsec().try_into().unwrap_or(0),
    );
    let age = SystemTime::now().duration_since(UNIX_EPOCH + since);
    age.is_ok_and(|age| age > TICK_MAX)
}

fn is_since_6_13(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 13),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Access;
    use std::fs;

    #[test]
    fn each_change_and_each_file_has_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let version = || {
            let file = DeviceFile::open(&path, Access::Read).unwrap();
            // Versions that can't be distinguished yet can be a tick later.
            loop {
                if let Some(version) = file.version().unwrap() {
                    return version;
                }
            }
        };
        fs::write(&path, "one").unwrap();
        let first = version();
        assert_eq!(version(), first);
        fs::write(&path, "two").unwrap();
        let second = version();
        assert_ne!(second, first);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "six").unwrap();
        fs::File::open(&path).unwrap().set_modified(modified).unwrap();
        assert_ne!(version(), second, "whatever its modification time is set to");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "six").unwrap();
        assert_ne!(version(), second, "perhaps with the same number");
    }

    #[test]
    fn a_file_without_a_name_has_no_version() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(DeviceFile::from_file(file).unwrap().version().unwrap(), None);
    }

    #[test]
    fn releases_are_read_as_numbers() {
        let since = |release| is_since_6_13(release);
        assert_eq!(["6.13.0", "6.18.44-x", "7.0", "10.1"].map(since), [true; 4]);
        assert_eq!(["6.12.9", "6.1-rc3", "5.15.0", "", "x.y"].map(since), [false; 5]);
    }
}
