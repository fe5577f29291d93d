//! The mounts that this process sees.

use super::FS_TYPE;
use crate::error::{Result, system};
use millpond::internal::MountEntry;
use std::path::{Path, PathBuf};

/// What a mount of this program shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MountKind {
    /// A directory.
    Directory,
    /// A store, to be changed.
    Store,
    /// A store, to be read.
    StoreReader,
}

impl MountKind {
    /// Of a file system with this source and these options. The source of a store is its URL.
    fn of(mount: &MountEntry) -> MountKind {
        let is_store = mount.source.to_string_lossy().contains("://");
        match (is_store, mount.options.iter().any(|option| option == "ro")) {
            (false, _) => MountKind::Directory,
            (true, false) => MountKind::Store,
            (true, true) => MountKind::StoreReader,
        }
    }

    /// Where what was written is when it is durable.
    pub fn place(self) -> &'static str {
        match self {
            MountKind::Directory => "on the disk",
            MountKind::Store | MountKind::StoreReader => "in the store",
        }
    }

    /// What became of the data when the process that served it was killed.
    pub fn after_kill(self) -> &'static str {
        match self {
            MountKind::Directory => {
                "what was synced is on the disk, and what was older than --expire too, unless the disk was behind or refused \
                 it; the rest is lost"
            }
            MountKind::Store => {
                "what was synced is in the store, and what was older than --expire too, unless the store was behind or refused \
                 it; the rest is lost"
            }
            MountKind::StoreReader => "it was mounted for reading, and had nothing to write",
        }
    }
}

/// What the mount of this program shows that is there; a directory also if none is.
pub fn kind(point: &Path) -> MountKind {
    let mount = mount_at(point).ok().flatten();
    mount.map_or(MountKind::Directory, |mount| MountKind::of(&mount))
}

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
pub(crate) fn mount_at(point: &Path) -> Result<Option<MountEntry>> {
    // Of several at one path the last is the one to be seen.
    let mut mounts = mounts()?.into_iter();
    Ok(mounts.rfind(|mount| mount.point == point))
}

/// What is mounted, as far as this process sees it.
///
/// # Errors
/// If /proc can't be read.
pub(crate) fn mounts() -> Result<Vec<MountEntry>> {
    millpond::internal::mounts().map_err(system("can't read /proc/self/mountinfo"))
}

/// A directory by its path within its file system, which is the same by whatever mount it is reached.
pub(crate) struct FsPath {
    /// The file system: major and minor number.
    pub(crate) device: String,
    pub(crate) path: PathBuf,
}

impl FsPath {
    /// `path` has no links.
    pub(crate) fn of(path: &Path, mounts: &[MountEntry]) -> Option<FsPath> {
        // The longest, and of those the last, is the one that is seen.
        let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
        let mount = around.max_by_key(|mount| mount.point.as_os_str().len())?;
        Some(FsPath {
            device: mount.device.clone(),
            path: mount.root.join(path.strip_prefix(&mount.point).ok()?),
        })
    }
}
