//! How much memory this process may use: the limits of its control groups, and the free memory.
//!
//! ```text
//!   /proc/self/cgroup      4:memory:/box/17/job     which group, in each hierarchy (`0::` is version 2)
//!   /proc/self/mountinfo   … /box/17 /sys/fs/cgroup/memory … cgroup … rw,memory
//!                            what the mount shows of the hierarchy, and where
//!   own group  = mount point + (/box/17/job without /box/17); its parents up to the mount point have limits as well
//!   version 2: memory.max, memory.high ("max": none)   version 1: memory.limit_in_bytes (about 2^63: none), and in
//!   memory.stat hierarchical_memory_limit, which knows of parents that a container does not see
//! ```
//!
//! A process in a cgroup namespace sees itself in `/`. If the mount does not show its path (a bind mount of another
//! group, or `/..`), the group at the mount point is used.

use super::mounts::mounts_in;
use super::{Notice, field};
use crate::size::Size;
use millpond_core::units::Bytes;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Values from here on mean no limit: version 1 reports 2^63 minus a page.
const UNLIMITED: u64 = 1 << 62;

/// The version of control groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupVersion {
    /// Version 1: one hierarchy per controller.
    One,
    /// Version 2: a single hierarchy.
    Two,
}

/// A control group that contains this process, directly or through a child group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlGroup {
    /// Its directory.
    pub path: PathBuf,
    /// The version of its hierarchy.
    pub version: GroupVersion,
}

/// A memory limit that applies to this process. `Display` names the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// The limit, in bytes.
    pub bytes: u64,
    /// The group that sets it.
    pub group: PathBuf,
    /// The file that contains it.
    pub file: PathBuf,
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the control group {}, {}",
            self.group.display(),
            Size(self.bytes)
        )
    }
}

/// Returns the control groups of this process that account for memory: its own first, then their parents, in each
/// version.
pub fn control_groups() -> Vec<ControlGroup> {
    groups_below(Path::new("/"))
}

/// Returns the smallest memory limit of this process's control groups, if there is one.
pub fn memory_limit() -> Option<MemoryLimit> {
    limit_below(Path::new("/"))
}

/// Returns the maximum memory of this process in bytes: the machine's, or the smallest limit of its control groups.
pub fn memory_allowed() -> u64 {
    let machine = crate::sys::machine_memory_bytes();
    memory_limit().map_or(machine, |limit| limit.bytes.min(machine))
}

/// Returns the number of bytes that the machine could give to a program without swapping (`MemAvailable`).
pub fn memory_available() -> Option<u64> {
    available_below(Path::new("/"))
}

/// Returns the number of bytes that this process could allocate now: the machine's available memory, or less if a
/// control group above it has less left.
pub fn memory_free() -> Option<u64> {
    free_below(Path::new("/")).map(|(free, _)| free)
}

fn available_below(root: &Path) -> Option<u64> {
    field(&root.join("proc/meminfo"), "MemAvailable")?.checked_mul(1024)
}

pub(super) fn groups_below(root: &Path) -> Vec<ControlGroup> {
    let own = root.join("proc/self");
    let (Ok(groups), Ok(mounts)) = (fs::read(own.join("cgroup")), mounts_in(&own)) else {
        return Vec::new();
    };
    let mut found: Vec<ControlGroup> = Vec::new();
    for mount in mounts {
        let version = match mount.fs_type.as_str() {
            "cgroup" if mount.options.iter().any(|option| option == "memory") => GroupVersion::One,
            "cgroup2" => GroupVersion::Two,
            _ => continue,
        };
        let Some(group) = own_group(&groups, version) else {
            continue;
        };
        let point = under(root, &mount.point);
        for path in upwards(&point, &mount.root, group) {
            let group = ControlGroup { path, version };
            if !found.contains(&group) {
                found.push(group);
            }
        }
    }
    found
}

/// Returns the path in `/proc/self/cgroup`, from lines such as `4:memory:/box` and `0::/box`.
fn own_group(groups: &[u8], version: GroupVersion) -> Option<&Path> {
    let lines = groups.split(|&byte| byte == b'\n');
    let paths = lines.filter_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (number, controllers) = (fields.next()?, fields.next()?);
        let is_it = match version {
            GroupVersion::One => controllers
                .split(|&byte| byte == b',')
                .any(|name| name == b"memory"),
            GroupVersion::Two => number == b"0",
        };
        fields.next().filter(|_| is_it)
    });
    let mut paths = paths.map(|path| Path::new(OsStr::from_bytes(path)));
    paths.next()
}

/// Returns the directories from a process's own group up to the mount, which shows only what lies below `shown`.
fn upwards(mount: &Path, shown: &Path, own: &Path) -> Vec<PathBuf> {
    let below = own
        .strip_prefix(shown)
        .or_else(|_| own.strip_prefix("/"))
        .unwrap_or(Path::new(""));
    // `/..` is a group outside of the namespace.
    let is_inside = below
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let deepest = mount.join(if is_inside { below } else { Path::new("") });
    let within = deepest.ancestors().take_while(|dir| dir.starts_with(mount));
    within.filter(|dir| dir.is_dir()).map(Path::to_owned).collect()
}

fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

impl ControlGroup {
    /// Returns the group's memory limits: none, one, or in version 2 also the softer `memory.high`, above which the
    /// kernel slows the processes down.
    pub fn limits(&self) -> Vec<MemoryLimit> {
        let limit = |name: &str, bytes: Option<u64>| {
            bytes.filter(|&bytes| bytes < UNLIMITED).map(|bytes| MemoryLimit {
                bytes,
                group: self.path.clone(),
                file: self.path.join(name),
            })
        };
        let limits = match self.version {
            GroupVersion::Two => [
                limit("memory.max", self.number("memory.max")),
                limit("memory.high", self.number("memory.high")),
            ],
            GroupVersion::One => [
                limit("memory.limit_in_bytes", self.number("memory.limit_in_bytes")),
                limit("memory.stat", self.statistic("hierarchical_memory_limit")),
            ],
        };
        limits.into_iter().flatten().collect()
    }

    /// Returns the number of bytes that the group holds and can't drop, which excludes its processes' cached file
    /// pages.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        let (held, file, shared) = match self.version {
            GroupVersion::Two => ("memory.current", "file", "shmem"),
            GroupVersion::One => ("memory.usage_in_bytes", "total_cache", "total_shmem"),
        };
        let statistic = |name| self.statistic(name).unwrap_or(0);
        let files = statistic(file).saturating_sub(statistic(shared));
        Some(self.number(held)?.saturating_sub(files))
    }

    /// `max`, as no number, is none.
    fn number(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.path.join(name)).ok()?.trim().parse().ok()
    }

    fn statistic(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.path.join("memory.stat")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse().ok()
    }
}

fn limit_below(root: &Path) -> Option<MemoryLimit> {
    let limits = groups_below(root).into_iter().flat_map(|group| group.limits());
    // The first of equal ones: what says it most directly.
    limits.min_by_key(|limit| limit.bytes)
}

/// Why a budget is refused: the numbers of [`Error::MemoryLimit`](crate::Error::MemoryLimit) and related errors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MemoryRefusal {
    Limit { given: u64, limit: MemoryLimit },
    Machine { given: u64, machine: u64 },
    Tables { given: u64, tables: u64, free: u64 },
}

/// Refuses a budget of `given` bytes above a limit, or returns a notice where it is `allowed`. Its `tables` must fit
/// there as well.
///
/// # Errors
/// Why the budget is refused.
pub(crate) fn check_memory(
    given: u64,
    tables: Bytes,
    allowed: bool,
) -> Result<Option<Notice>, MemoryRefusal> {
    check_machine(Path::new("/"), given, allowed)?;
    if let Some(refusal) = no_tables(Path::new("/"), given, tables.0).filter(|_| allowed) {
        return Err(refusal);
    }
    match memory_limit().filter(|limit| limit.bytes < given) {
        None => Ok(None),
        Some(limit) if allowed => Ok(Some(Notice::MemoryBeyondLimit { given, limit })),
        Some(limit) => Err(MemoryRefusal::Limit { given, limit }),
    }
}

fn check_machine(root: &Path, given: u64, allowed: bool) -> Result<(), MemoryRefusal> {
    let total = field(&root.join("proc/meminfo"), "MemTotal").and_then(|kib| kib.checked_mul(1024));
    match total.filter(|&machine| machine < given && !allowed) {
        Some(machine) => Err(MemoryRefusal::Machine { given, machine }),
        None => Ok(()),
    }
}

/// Returns why a budget is refused whose tables exceed the free memory.
fn no_tables(root: &Path, given: u64, tables: u64) -> Option<MemoryRefusal> {
    let (free, _) = free_below(root).filter(|(free, _)| *free < tables)?;
    Some(MemoryRefusal::Tables { given, tables, free })
}

/// Returns a notice if `added` bytes exceed the free memory.
pub(crate) fn free_memory(added: u64) -> Option<Notice> {
    free_memory_below(Path::new("/"), added)
}

fn free_memory_below(root: &Path, added: u64) -> Option<Notice> {
    let (free, group) = free_below(root)?;
    (free < added).then_some(Notice::MemoryShort {
        given: added,
        free,
        group,
    })
}

/// Returns the free memory where there is least: of the machine, or of a control group.
fn free_below(root: &Path) -> Option<(u64, Option<PathBuf>)> {
    let machine = available_below(root).map(|free| (free, None));
    let groups = groups_below(root).into_iter().filter_map(|group| {
        let limit = group.limits().into_iter().map(|limit| limit.bytes).min()?;
        Some((limit.saturating_sub(group.held_bytes()?), Some(group.path)))
    });
    machine.into_iter().chain(groups).min_by_key(|(free, _)| *free)
}

#[cfg(test)]
pub(super) mod tests;
