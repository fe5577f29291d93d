//! What has to be so before anything is mounted, and what a mount that was killed has left behind.

use crate::error::{MountError, Result, system};
use crate::options::Options;
use procfs::Lock;
use procfs::process::{MountInfo, Process};
use rustix::fs::Stat;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the kernel calls a mount of ours (the type in /proc/self/mountinfo).
pub(crate) const TYPE: &str = "fuse.millpond";

/// The second part of it.
pub(crate) const SUBTYPE: &str = "millpond";

/// Descriptors that a process may have where nobody has said otherwise (`sysctl_nr_open`, Linux 6.18).
const DESCRIPTORS_MAX: u64 = 1 << 20;

fn bad(path: &Path, role: &'static str, why: impl Into<String>) -> MountError {
    MountError::Place {
        path: path.to_owned(),
        role,
        why: why.into(),
    }
}

/// Why a directory can't be had, and the way out.
pub(crate) fn not_reached(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "whoever mounts must be allowed to read and search it, and to search each directory on the way to it".into()
        }
        io::ErrorKind::NotFound => "it does not exist: mkdir -p makes it".into(),
        _ => error.to_string(),
    }
}

/// The source, by the path that it has whoever looks.
pub(crate) fn check_source(options: &Options) -> Result<PathBuf> {
    let bad = |why: String| bad(&options.source, "the source", why);
    let source = fs::canonicalize(&options.source).map_err(|e| bad(not_reached(&e)))?;
    match source.is_dir() {
        true => Ok(source),
        false => Err(bad("it is no directory".into())),
    }
}

/// Makes sure that the mount point can be one; what had to be cleared away for it, in a sentence.
pub(crate) fn check_mount_point(options: &Options, source: &Path) -> Result<(PathBuf, Option<String>)> {
    let given = &options.mount_point;
    let bad = |why: String| bad(given, "the mount point", why);
    // Of a mount whose process was killed the kernel may remember enough for a path, or not even that.
    let mut point = fs::canonicalize(given);
    let mut cleared = None;
    if !is_alive(given) {
        let place = std::path::absolute(given).map_err(|e| bad(e.to_string()))?;
        let place = point.unwrap_or(place);
        if !is_ours(&place)? {
            return Err(bad(format!(
                "another program's mount there has lost its process: umount {}",
                place.display()
            )));
        }
        unmount(&place, true).map_err(|e| bad(format!("a mount that was killed is in the way: {e}")))?;
        cleared = Some(format!(
            "cleared away what a killed mount had left at {}: what was synced is in its source, what was not is lost",
            place.display()
        ));
        point = fs::canonicalize(given);
    }
    let point = point.map_err(|e| bad(not_reached(&e)))?;
    if point != source && point.starts_with(source) {
        return Err(bad(format!(
            "it lies within the source {}, which would then contain itself: choose a place outside",
            source.display()
        )));
    }
    if is_ours(&point)? {
        return Err(bad(
            "a millpond mount is there already: millpond umount it first".into()
        ));
    }
    let mut entries = fs::read_dir(&point).map_err(|e| bad(not_reached(&e)))?;
    if !options.nonempty && entries.next().is_some() {
        return Err(bad(
            "it is not empty; --nonempty mounts over what is there, which hides it".into(),
        ));
    }
    Ok((point, cleared))
}

/// Whether whatever is mounted there has somebody who answers.
pub(crate) fn is_alive(point: &Path) -> bool {
    !matches!(rustix::fs::statfs(point), Err(Errno::NOTCONN))
}

/// Whether a mount of this program is there, alive or not.
///
/// # Errors
/// If /proc can't be read.
pub(crate) fn is_ours(point: &Path) -> Result<bool> {
    Ok(mount_at(point)?.is_some_and(|mount| mount.fs_type == TYPE))
}

/// What is mounted there.
///
/// # Errors
/// If /proc can't be read.
pub(crate) fn mount_at(point: &Path) -> Result<Option<MountInfo>> {
    // The last of those at one place is the one to be seen.
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

/// What a mount of ours has as its source.
pub(crate) fn source_of(mount: &MountInfo) -> Option<PathBuf> {
    mount
        .mount_source
        .as_ref()
        .map(|source| unescaped(Path::new(source)))
}

/// Where a directory is in its file system, which is so by whatever path it is reached.
pub(crate) struct Place {
    pub(crate) device: String,
    pub(crate) path: PathBuf,
}

impl Place {
    /// `path` has no links.
    pub(crate) fn of(path: &Path, mounts: &[MountInfo]) -> Option<Place> {
        let points = mounts.iter().map(|mount| (mount, unescaped(&mount.mount_point)));
        // The longest, and of those the last, is the one that is seen.
        let around = points.filter(|(_, point)| path.starts_with(point));
        let (mount, point) = around.max_by_key(|(_, point)| point.as_os_str().len())?;
        Some(Place {
            device: mount.majmin.clone(),
            path: unescaped(Path::new(&mount.root)).join(path.strip_prefix(point).ok()?),
        })
    }
}

/// Whose lock keeps others from locking a file, if /proc says so.
pub(crate) fn locked_by(stat: &Stat) -> Option<i32> {
    let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let is_it = |lock: &Lock| (lock.devmaj, lock.devmin) == device && lock.inode == stat.st_ino;
    let locks = procfs::locks().ok()?;
    locks.into_iter().find(is_it).and_then(|lock| lock.pid)
}

/// Whether a process serves a FUSE mount, as far as may be seen.
pub(crate) fn serves(process: i32) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd"));
    let mut links = open
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.any(|link| link == Path::new("/dev/fuse"))
}

/// A path as it is: the kernel writes blanks, tabs, ends of lines and backslashes as three octal digits (`mangle` in
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

/// Takes a mount away; `lazily`: also if it is in use or its process is gone.
///
/// # Errors
/// `EBUSY` if it is in use; the system's.
pub(crate) fn unmount(point: &Path, lazily: bool) -> io::Result<()> {
    let flags = match lazily {
        true => UnmountFlags::DETACH,
        false => UnmountFlags::empty(),
    };
    match rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW) {
        // Whoever is not root has a helper for it.
        Err(Errno::PERM) => {
            let how = if lazily { "-uz" } else { "-u" };
            let output = Command::new("fusermount3")
                .arg(how)
                .arg("--")
                .arg(point)
                .output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.success() {
                true => Ok(()),
                false if said.contains("busy") => Err(Errno::BUSY.into()),
                false => Err(io::Error::other(said.trim().to_owned())),
            }
        }
        other => Ok(other?),
    }
}

/// Lets this process have as many files open as it may; how many those are.
pub(crate) fn raise_descriptors() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raise = |to: Rlimit| {
        let most = to.current;
        rustix::process::setrlimit(Resource::Nofile, to).ok().and(most)
    };
    // Root may more than it was given.
    let wanted = Rlimit {
        current: Some(DESCRIPTORS_MAX),
        maximum: Some(
            limit
                .maximum
                .map_or(DESCRIPTORS_MAX, |most| most.max(DESCRIPTORS_MAX)),
        ),
    };
    let allowed = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    raise(wanted)
        .or_else(|| raise(allowed))
        .or(limit.current)
        .unwrap_or(DESCRIPTORS_MAX)
}

/// Why mounting failed, with what it needs.
pub(crate) fn unavailable(point: &Path, source: io::Error) -> MountError {
    let is_root = rustix::process::geteuid().is_root();
    let hint = match Path::new("/dev/fuse").exists() {
        false => "there is no /dev/fuse: `modprobe fuse`, or start the container with that device",
        true if is_root => "mounting needs CAP_SYS_ADMIN, which a container may lack",
        true => {
            "mounting needs root or a working fusermount3 (package fuse3), and --allow-other needs user_allow_other in \
             /etc/fuse.conf"
        }
    };
    MountError::Unavailable {
        path: point.to_owned(),
        source,
        hint,
    }
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
