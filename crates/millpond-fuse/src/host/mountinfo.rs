//! /proc/self/mountinfo: what is mounted where, as this process sees it.

use super::FS_TYPE;
use crate::error::{Result, system};
use procfs::process::{MountInfo, Process};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether a mount of this program is there, whether its process lives or not.
///
/// # Errors
/// If /proc can't be read.
pub(crate) fn is_ours(point: &Path) -> Result<bool> {
    Ok(mount_at(point)?.is_some_and(|mount| mount.fs_type == FS_TYPE))
}

/// What is mounted there.
///
/// # Errors
/// If /proc can't be read.
pub(crate) fn mount_at(point: &Path) -> Result<Option<MountInfo>> {
    // Of several at one path the last is the one to be seen.
    let mut mounts = mounts()?.into_iter();
    Ok(mounts.rfind(|mount| unescaped(&mount.mount_point) == point))
}

/// What is mounted, as far as this process sees it.
///
/// # Errors
/// If /proc can't be read.
pub(crate) fn mounts() -> Result<Vec<MountInfo>> {
    let mounts = Process::myself().and_then(|process| process.mountinfo());
    let mounts = mounts.map_err(|e| system("can't read /proc/self/mountinfo")(io::Error::other(e)))?;
    Ok(mounts.0)
}

/// The source of a mount of ours.
pub(crate) fn source_of(mount: &MountInfo) -> Option<PathBuf> {
    mount
        .mount_source
        .as_ref()
        .map(|source| unescaped(Path::new(source)))
}

/// A directory by its path within its file system, which is the same by whatever mount it is reached.
pub(crate) struct FsPath {
    /// The file system: major and minor number.
    pub(crate) device: String,
    pub(crate) path: PathBuf,
}

impl FsPath {
    /// `path` has no links.
    pub(crate) fn of(path: &Path, mounts: &[MountInfo]) -> Option<FsPath> {
        let points = mounts.iter().map(|mount| (mount, unescaped(&mount.mount_point)));
        // The longest, and of those the last, is the one that is seen.
        let around = points.filter(|(_, point)| path.starts_with(point));
        let (mount, point) = around.max_by_key(|(_, point)| point.as_os_str().len())?;
        Some(FsPath {
            device: mount.majmin.clone(),
            path: unescaped(Path::new(&mount.root)).join(path.strip_prefix(point).ok()?),
        })
    }
}

/// The path that a field stands for: the kernel writes blanks, tabs, ends of lines and backslashes as three octal digits (`mangle` in
/// fs/proc_namespace.c), and procfs hands it on so.
pub(crate) fn unescaped(path: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `millpond umount "/mnt/a b"` found no mount there.
    #[test]
    fn mount_points_are_read_as_they_are() {
        for (written, is) in [
            ("/mnt/a\\040b", "/mnt/a b"),
            ("/a\\011\\012\\134040", "/a\t\n\\040"),
            ("/plain", "/plain"),
            ("/\\09", "/\\09"),
        ] {
            assert_eq!(unescaped(Path::new(written)), Path::new(is), "{written}");
        }
    }
}
