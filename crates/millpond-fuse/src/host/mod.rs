//! The host: preconditions of a mount, unmounting, descriptors, locks.

pub(crate) mod mountinfo;
pub(crate) mod servers;

use crate::error::{MountError, Result};
use crate::options::Options;
use millpond::internal::quantity::{size, size_typed};
use millpond::internal::{Limits, MountEntry, resource_limits};
use millpond::units::Bytes;
use mountinfo::is_ours;
use procfs::Lock;
use rustix::fs::Stat;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The file system type of our mounts in /proc/self/mountinfo.
pub(crate) const FS_TYPE: &str = "fuse.millpond";

/// The subtype in it.
pub(crate) const SUBTYPE: &str = "millpond";

/// By which a process serves.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// A mount that has not answered for so long is taken for one whose process hangs.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// For so long at most a killed process is waited for: it gives its memory back before it ends.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// How often it is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What Linux gives unless told otherwise.
const DESCRIPTORS_USUAL: u64 = 1024;

/// The most descriptors that a process may have by default (`sysctl_nr_open`, Linux 6.18).
const DESCRIPTORS_MAX: u64 = 1 << 20;

fn bad(path: &Path, role: &'static str, why: impl Into<String>) -> MountError {
    MountError::Directory {
        path: path.to_owned(),
        role,
        why: why.into(),
    }
}

/// Why a directory can't be opened, and the way out.
pub(crate) fn not_opened(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "the user that mounts must be allowed to read and search it, and to search each directory on the way to it".into()
        }
        io::ErrorKind::NotFound => "it does not exist: mkdir -p makes it".into(),
        _ => error.to_string(),
    }
}

/// The source, by its canonical path.
pub(crate) fn check_source(options: &Options) -> Result<PathBuf> {
    let bad = |why: String| bad(&options.source, "the source", why);
    let source = fs::canonicalize(&options.source).map_err(|e| bad(not_opened(&e)))?;
    match source.is_dir() {
        true => Ok(source),
        false => Err(bad("it is not a directory".into())),
    }
}

/// Checks that the mount point can be one. Its canonical path; and what had to be cleared away for it, in a sentence.
pub(crate) fn check_mount_point(
    given: &Path,
    nonempty: bool,
    source: Option<&Path>,
) -> Result<(PathBuf, Option<String>)> {
    let bad = |why: String| bad(given, "the mount point", why);
    // For a mount whose process was killed the kernel may still resolve the path, or not.
    let mut point = fs::canonicalize(given);
    let mut cleared = None;
    let absolute = std::path::absolute(given).map_err(|e| bad(e.to_string()))?;
    let whole = point.as_deref().unwrap_or(&absolute).to_owned();
    let began = Instant::now();
    while servers::is_ending(&whole) && began.elapsed() < ENDS_WITHIN {
        thread::sleep(LOOK_EVERY);
    }
    if !is_alive(&whole) {
        let dead = whole;
        if !is_ours(&dead)? {
            return Err(bad(format!(
                "another program's mount there has lost its process: umount {}",
                dead.display()
            )));
        }
        let kind = mountinfo::kind(&dead);
        unmount(&dead, true).map_err(|e| bad(format!("cannot unmount what a killed process left: {e}")))?;
        cleared = Some(format!(
            "cleared away what a killed mount had left at {}: {}",
            dead.display(),
            kind.after_kill()
        ));
        point = fs::canonicalize(given);
    }
    let point = point.map_err(|e| bad(not_opened(&e)))?;
    if let Some(source) = source
        && point != source
        && point.starts_with(source)
    {
        return Err(bad(format!(
            "it lies within the source {}, which would then contain itself: choose a place outside",
            source.display()
        )));
    }
    if is_ours(&point)? {
        return Err(bad(
            "a millpond mount is already there: millpond umount it first".into()
        ));
    }
    let mut entries = fs::read_dir(&point).map_err(|e| bad(not_opened(&e)))?;
    if !nonempty && entries.next().is_some() {
        return Err(bad(
            "it is not empty; --nonempty mounts over its contents and hides them".into(),
        ));
    }
    Ok((point, cleared))
}

/// The canonical path of a mount point at which a process serves a mount of this program.
pub(crate) fn check_taken_over(options: &Options) -> Result<PathBuf> {
    let given = &options.mount_point;
    let bad = |why: String| bad(given, "taken over", why);
    let absolute = std::path::absolute(given).map_err(|e| bad(e.to_string()))?;
    let point = match is_alive(&absolute) {
        true => fs::canonicalize(given).map_err(|e| bad(not_opened(&e)))?,
        false => {
            return Err(bad("its process is gone: mount it anew, without --replace".into()));
        }
    };
    match is_ours(&point)? {
        true => Ok(point),
        false => Err(bad(
            "no millpond mount is there: mount it without --replace".into()
        )),
    }
}

/// Whether the process that serves what is mounted there, if anything is, lives. One that is to be seen is not asked: a call
/// that it has begun to answer and does not end can't be given up, and who has made it can't end. One that does not answer
/// is there.
pub(crate) fn is_alive(point: &Path) -> bool {
    if !servers::processes_serving(point).is_empty() {
        return true;
    }
    let (tell, answer) = mpsc::channel();
    let point = point.to_owned();
    let asks = thread::Builder::new().spawn(move || tell.send(rustix::fs::statfs(&point).err()));
    let answer = asks.ok().and_then(|_| answer.recv_timeout(ANSWERS_WITHIN).ok());
    answer != Some(Some(Errno::NOTCONN))
}

/// The process whose lock keeps others from locking a file, if /proc says so.
pub(crate) fn locked_by(stat: &Stat) -> Option<i32> {
    let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let is_it = |lock: &Lock| (lock.devmaj, lock.devmin) == device && lock.inode == stat.st_ino;
    let locks = procfs::locks().ok()?;
    locks.into_iter().find(is_it).and_then(|lock| lock.pid)
}

/// Whether a process serves a FUSE mount, as far as may be seen.
pub fn serves(process: i32) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd"));
    let mut links = open
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.any(|link| link == Path::new(DEVICE))
}

/// Whether the mount with this device number is what is mounted there; also if that can't be seen.
pub(crate) fn is_at(point: &Path, device: Option<&str>) -> bool {
    let there = mountinfo::mount_at(point).ok();
    match (there, device) {
        (Some(there), Some(device)) => there.is_some_and(|mount| mount.device == device),
        _ => true,
    }
}

/// Unmounts; `lazily`: also if it is in use or its process is gone.
///
/// # Errors
/// `EBUSY` if it is in use; the system's.
pub(crate) fn unmount(point: &Path, lazily: bool) -> io::Result<()> {
    let flags = match lazily {
        true => UnmountFlags::DETACH,
        false => UnmountFlags::empty(),
    };
    match rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW) {
        // For users other than root there is a helper.
        Err(Errno::PERM) => {
            let how = if lazily { "-uz" } else { "-u" };
            let output = Command::new("fusermount3")
                .arg(how)
                .arg("--")
                .arg(point)
                .output()?;
            let message = String::from_utf8_lossy(&output.stderr);
            match output.status.success() {
                true => Ok(()),
                false if message.contains("busy") => Err(Errno::BUSY.into()),
                false => Err(io::Error::other(message.trim().to_owned())),
            }
        }
        other => Ok(other?),
    }
}

/// What this process needs besides the cache's budget, with some thousand files known: its program (10 MB, shared by all that
/// run it), stacks, tables, and what the kernel counts for it. 7 to 12 MB were measured; more with many writers
/// (docs/experiments/mount.md).
const BESIDES_BUDGET_BYTES: u64 = 16 << 20;

/// If a control group can't hold the process with this budget: what to do about it, in a sentence.
pub fn memory_notice(options: &Options) -> Option<String> {
    let is_fixed = options.cached && options.memory_auto.is_none();
    let limit = millpond::host::memory_limit().filter(|_| is_fixed)?;
    let left = limit.bytes.saturating_sub(options.memory);
    let fits = limit.bytes.saturating_sub(BESIDES_BUDGET_BYTES) >> 20 << 20;
    (left < BESIDES_BUDGET_BYTES).then(|| {
        format!(
            "the control group {} may have {} of memory, which leaves {} besides the budget; the mount needs {}, and 3 KiB \
             for each file that it knows. The kernel may kill it, and what is not synced is lost then: {}raise {}",
            limit.group.display(),
            size(Bytes(limit.bytes)),
            size(Bytes(left)),
            size(Bytes(BESIDES_BUDGET_BYTES)),
            match fits {
                0 => String::new(),
                fits => format!("give --memory {}, or ", size_typed(Bytes(fits))),
            },
            limit.file.display()
        )
    })
}

/// Takes a mount away whose process does not answer: all calls that wait for it end with an error.
///
/// # Errors
/// The system's.
pub(crate) fn abort(mount: &MountEntry) -> io::Result<()> {
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(&mount.point, flags) {
        // The kernel lets whoever has mounted it end the connection.
        Err(Errno::PERM) => {
            let minor = mount.device.split_once(':').map_or("", |(_, minor)| minor);
            fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1")?;
            unmount(&mount.point, true)
        }
        other => Ok(other?),
    }
}

/// Raises the limit of open files of this process as far as it may. The limit then.
pub fn raise_descriptors() -> u64 {
    // Where a filter refuses the question it is as it usually is.
    let limit = resource_limits(millpond::internal::Resource::Descriptors).unwrap_or(Limits {
        current: Some(DESCRIPTORS_USUAL),
        maximum: Some(DESCRIPTORS_USUAL),
    });
    let raise = |to: Rlimit| {
        let most = to.current;
        rustix::process::setrlimit(Resource::Nofile, to).ok().and(most)
    };
    // Root may exceed its hard limit.
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
