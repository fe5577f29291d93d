//! Which files can be cached: regular files with a length, and block devices.
//!
//! Files that the kernel generates on read (`/proc`, `/sys`, tracing) look regular to `stat`, but report a length of
//! zero or one page, whatever they contain. In a cache they would silently be empty.

use super::file::{Access, FileIdentity};
use rustix::fs::AtFlags;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// Their `f_type` (`linux/magic.h`, and the files of those that are not there), and how people call them.
const MADE_UP: [(u32, &str); 13] = [
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x7472_6163, "tracefs"),
    (0x6462_6720, "debugfs"),
    (0x7363_6673, "securityfs"),
    (0x6367_7270, "cgroup2"),
    (0x0027_e0eb, "cgroup"),
    (0x6265_6570, "configfs"),
    (0x6573_5543, "fusectl"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x0765_5821, "resctrl"),
    (0x1980_0202, "mqueue"),
];

/// Finds the file or block device at this path, and whether it may be opened for `access`, without opening it: closing
/// it again would cost the process its locks on the file. `None` if that is impossible.
pub(crate) fn identity_at(path: &Path, access: Access) -> Option<FileIdentity> {
    let metadata = fs::metadata(path).ok()?;
    let kind = metadata.file_type();
    let is_ours = (kind.is_file() || kind.is_block_device()) && may_open(path, access);
    is_ours.then(|| identity(&metadata))
}

pub(super) fn may_open(path: &Path, access: Access) -> bool {
    let mut wanted = rustix::fs::Access::READ_OK;
    wanted.set(rustix::fs::Access::WRITE_OK, access != Access::Read);
    rustix::fs::accessat(rustix::fs::CWD, path, wanted, AtFlags::EACCESS).is_ok()
}

/// Returns whether the error is a temporary shortage, which says nothing about the file.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error
        .raw_os_error()
        .is_some_and(|errno| shortages.contains(&errno))
}

/// Returns the identity of the file with these attributes.
pub(crate) fn identity(metadata: &Metadata) -> FileIdentity {
    match metadata.file_type().is_block_device() {
        true => FileIdentity {
            device: metadata.rdev(),
            inode: 0,
        },
        false => FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
        },
    }
}

pub(super) fn check_kind(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(());
    }
    let (error, what) = match () {
        () if kind.is_dir() => (io::ErrorKind::IsADirectory, "a directory"),
        () if kind.is_fifo() => (io::ErrorKind::InvalidInput, "a pipe"),
        () if kind.is_socket() => (io::ErrorKind::InvalidInput, "a socket"),
        () => (io::ErrorKind::InvalidInput, "a character device"),
    };
    let said = format!(
        "{} is {what}: open a regular file or a block device",
        path.display()
    );
    Err(io::Error::new(error, said))
}

/// Checks whether the file's reported length can be trusted.
///
/// # Errors
/// If the kernel generates its content on read.
pub(super) fn check_content(path: &Path, file: &File, metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Ok(());
    }
    let refused = |of: &str| {
        let said = format!(
            "{} has no length, because {of} generates it as it is read: read it without a cache",
            path.display()
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, said))
    };
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    if let Some((_, name)) = MADE_UP.iter().find(|(made_up, _)| *made_up == kind) {
        return refused(name);
    }
    // The other files of that kind. For a file that has just grown, the second check decides.
    if metadata.len() == 0 && file.read_at(&mut [0], 0).is_ok_and(|n| n > 0) && file.metadata()?.len() == 0 {
        return refused("its file system");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceFile;

    #[test]
    fn only_regular_files_and_block_devices_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| DeviceFile::open(path, Access::Create).unwrap_err().to_string();
        assert!(open(folder.path()).ends_with("is a directory: open a regular file or a block device"));
        assert!(open(Path::new("/dev/null")).contains("is a character device"));
        let pipe = folder.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        assert!(open(&pipe).contains("is a pipe"));
        let missing = DeviceFile::open(&folder.path().join("missing"), Access::ReadWrite).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }

    /// A file of `/proc` was opened without a word and was empty.
    #[test]
    fn a_file_without_a_length_is_refused_and_an_empty_one_is_not() {
        let open = |path: &Path| DeviceFile::open(path, Access::Read);
        for path in ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            let said = match open(Path::new(path)) {
                // Not everywhere.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.unwrap_err().to_string(),
            };
            assert!(said.contains("generates it as it is read"), "{said}");
        }
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        File::create(&empty).unwrap();
        assert!(open(&empty).unwrap().is_empty().unwrap());
        // A name there can be one of a file that has a length.
        assert!(!open(Path::new("/proc/self/exe")).unwrap().is_empty().unwrap());
    }
}
