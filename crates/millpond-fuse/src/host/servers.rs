//! Finds which process serves which mount without asking either one: a hanging or stopped process answers nothing, and
//! a call to its mount may not return.
//!
//! A serving process has /dev/fuse open. Since Linux 6.16 the kernel reports the connection (`fuse_connection` in
//! fdinfo), whose number is the minor number of the mount's device. Before that, the source is searched for among the
//! directories that the process has open. This can't distinguish several read-only mounts of one source.

use super::{DEVICE, FS_TYPE, mountinfo};
use millpond::internal::MountEntry;
use procfs::process::Process;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

/// The processes that serve what is mounted there, as far as they are to be seen: not those of other users, or of another PID
/// namespace. None if no mount of this program is there.
pub fn processes_serving(point: &Path) -> Vec<u32> {
    let mount = mountinfo::mount_at(point).ok().flatten();
    let Some(mount) = mount.filter(|mount| mount.fs_type == FS_TYPE) else {
        return Vec::new();
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| serves(process, &mount)).collect()
}

/// Whether all processes that serve what is mounted there were killed, and have not ended yet. False if none is to be seen.
pub(super) fn is_ending(point: &Path) -> bool {
    let processes = processes_serving(point);
    !processes.is_empty() && processes.into_iter().all(was_killed)
}

/// The signal stays among those of the process until it is gone.
fn was_killed(process: u32) -> bool {
    let kill = 1 << (Signal::KILL.as_raw() - 1);
    let status = i32::try_from(process)
        .ok()
        .and_then(|process| Process::new(process).ok());
    let status = status.and_then(|process| process.status().ok());
    status.is_none_or(|status| (status.shdpnd | status.sigpnd) & kill != 0)
}

/// Where the mounts are that a process serves, as far as they are to be seen from here.
pub fn served_by(process: u32) -> Vec<PathBuf> {
    let mounts = mountinfo::mounts().unwrap_or_default().into_iter();
    let ours = mounts.filter(|mount| mount.fs_type == FS_TYPE && serves(process, mount));
    ours.map(|mount| mount.point).collect()
}

/// A mount whose process is gone: the kernel keeps its name, and all calls there fail with `ENOTCONN`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadMount {
    /// Where it is.
    pub point: PathBuf,
    /// What it showed.
    pub source: PathBuf,
}

/// The mounts of this program whose process is gone, as far as they are to be seen. Not those of other users, unless root asks.
pub fn dead_mounts() -> Vec<DeadMount> {
    let user = format!("user_id={}", rustix::process::geteuid().as_raw());
    let is_root = rustix::process::geteuid().is_root();
    let mounts = mountinfo::mounts().unwrap_or_default().into_iter();
    let ours = mounts.filter(|mount| mount.fs_type == FS_TYPE && (is_root || mount.options.contains(&user)));
    let dead = ours.filter(|mount| !super::is_alive(&mount.point));
    dead.map(|mount| DeadMount {
        source: mount.source.into(),
        point: mount.point,
    })
    .collect()
}

/// Whether a mount of this program is there, by what the kernel lists.
pub fn is_mounted(point: &Path) -> bool {
    mountinfo::is_ours(point).unwrap_or(false)
}

fn serves(process: u32, mount: &MountEntry) -> bool {
    let minor = mount.device.split_once(':').map(|(_, minor)| minor);
    let (mut is_fuse, mut has_source) = (false, false);
    for open in fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(link) = fs::read_link(open.path()) else {
            continue;
        };
        if link == Path::new(DEVICE) {
            is_fuse = true;
            match connection(process, &open.file_name().to_string_lossy()) {
                Some(connection) if Some(connection.as_str()) == minor => return true,
                // Of another mount: a process may serve several.
                Some(_) => is_fuse = false,
                None => {}
            }
        }
        has_source |= link.as_os_str() == mount.source;
    }
    is_fuse && has_source
}

/// The number of the connection that this descriptor of /dev/fuse is of, if the kernel says so.
fn connection(process: u32, number: &str) -> Option<String> {
    let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).ok()?;
    let lines = info.lines();
    let of = lines
        .filter_map(|line| line.strip_prefix("fuse_connection:"))
        .next()?;
    Some(of.trim().to_owned())
}
