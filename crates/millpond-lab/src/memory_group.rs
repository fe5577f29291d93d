//! A memory control group for the time of one run.
//!
//! Made beside or below this process's own group, whichever allows it, in either version of control groups;
//! removed when dropped. The run's process puts itself in before it touches memory, so that the page cache
//! that it fills counts against the limit. Where nothing allows it, the reason says what would.

use crate::error::{LabError, Result};
use millpond::internal::GroupVersion as Version;
use millpond_core::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The requirements of a memory group, for messages.
const NEEDED: &str = "it needs a memory control group that it may create, so run as root, or under \
     `systemd-run --user --scope -p Delegate=yes`";

/// What to know about a group of the first version.
pub const WITHOUT_THROTTLING: &str = "a memory group of version 1 has no limits for dirty pages of its own, so writers fill it \
     with them and reclaim waits until they are written; version 2 holds the writers back before.";

const PREFIX: &str = "millpond-lab-";

/// A memory control group with a limit, removed on drop.
pub struct MemoryGroup {
    path: PathBuf,
    version: Version,
}

/// What a process needs to join a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    procs: PathBuf,
}

impl MemoryGroup {
    /// A new group that may hold `limit` bytes.
    ///
    /// # Errors
    /// Why there can be none, as a part of a sentence.
    pub fn create(limit: Bytes) -> Result<MemoryGroup, String> {
        let mut why = None;
        for (parent, version) in parents() {
            match create_below(&parent, version, limit) {
                Ok(group) => return Ok(group),
                Err(error) => why = why.or(Some(error.to_string())),
            }
        }
        let why = why.unwrap_or_else(|| "no memory control group is mounted".into());
        Err(format!("{NEEDED} ({why})"))
    }

    /// For the process that is to join the group.
    pub fn entry(&self) -> Entry {
        Entry {
            procs: self.path.join("cgroup.procs"),
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The most that the group has held, in MiB, page cache included. Linux 5.19 or newer in the second version.
    pub fn peak_mib(&self) -> Option<f64> {
        let name = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        let bytes: u64 = fs::read_to_string(self.path.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Some(bytes as f64 / (1 << 20) as f64)
    }

    /// "v1" or "v2".
    pub fn version(&self) -> &'static str {
        match self.version {
            Version::One => "v1",
            Version::Two => "v2",
        }
    }
}

/// The version of the groups that can be made here: "v1" or "v2".
///
/// # Errors
/// Why there can be none, as a part of a sentence.
pub fn available() -> Result<&'static str, String> {
    MemoryGroup::create(Bytes::from_mib(64)).map(|group| group.version())
}

impl Entry {
    /// Puts this process into the group.
    ///
    /// # Errors
    /// The system's, if it does not allow it.
    pub fn enter(&self) -> Result<()> {
        fs::write(&self.procs, std::process::id().to_string())
            .map_err(|e| LabError::path("cannot enter the memory group through", &self.procs, e))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        if self.version == Version::One {
            // else the cache of deleted files keeps the group alive as an offline one
            let _ = fs::write(self.path.join("memory.force_empty"), "0");
        }
        // the group stays busy for a moment after its last process has been waited for
        for _ in 0..40 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        say!(
            "the memory group {} could not be removed; remove it with rmdir",
            self.path.display()
        );
    }
}

fn create_below(parent: &Path, version: Version, limit: Bytes) -> Result<MemoryGroup> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    sweep(parent);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("{PREFIX}{}-{count}", std::process::id()));
    fs::create_dir(&path).map_err(|e| LabError::path("cannot create", &path, e))?;
    // from here on the drop removes it
    let group = MemoryGroup { path, version };
    let name = match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    let file = group.path.join(name);
    fs::write(&file, limit.0.to_string()).map_err(|e| LabError::path("cannot set", &file, e))?;
    Ok(group)
}

/// Removes groups of programs that were killed. A group with processes in it cannot be removed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(maker_of);
        if maker.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made a group of this name.
fn maker_of(name: &str) -> Option<u32> {
    let (pid, count) = name.strip_prefix(PREFIX)?.split_once('-')?;
    count.parse::<u32>().ok()?;
    pid.parse().ok()
}

/// Groups below which one may be made, the best first.
fn parents() -> Vec<(PathBuf, Version)> {
    let groups = millpond::internal::control_groups().into_iter();
    groups
        .map(|group| (group.path, group.version))
        .filter(|(dir, version)| *version == Version::One || hands_memory_down(dir))
        .collect()
}

/// Whether groups below `dir` have limits of memory. In the second version a group with processes of its own
/// cannot hand controllers down, so this is mostly a parent of one's own.
fn hands_memory_down(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.subtree_control"))
        .is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_second_version_the_nearest_group_that_hands_memory_down_is_taken() {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("user.slice/session.scope");
        fs::create_dir_all(&own).unwrap();
        fs::write(mount.path().join("cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        fs::write(
            mount.path().join("user.slice/cgroup.subtree_control"),
            "memory_not pids\n",
        )
        .unwrap();
        fs::write(own.join("cgroup.subtree_control"), "").unwrap();
        let dirs = own.ancestors().take(3).map(Path::to_owned);
        let able: Vec<_> = dirs.filter(|dir| hands_memory_down(dir)).collect();
        assert_eq!(able, [mount.path()]);
    }

    #[test]
    fn groups_of_the_dead_are_swept_and_those_of_the_living_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let living = format!("{PREFIX}{}-0", std::process::id());
        // process numbers end at 2^22
        let dead = format!("{PREFIX}4194305-7");
        for name in [&living, &dead, "millpond-lab-4194305", "other-4194305-7"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        sweep(parent.path());
        let left = |name: &str| parent.path().join(name).exists();
        assert!(left(&living) && left("millpond-lab-4194305") && left("other-4194305-7"));
        assert!(!left(&dead));
    }

    #[test]
    fn a_group_holds_its_limit_and_goes_away() {
        let group = match MemoryGroup::create(Bytes::from_mib(64)) {
            Ok(group) => group,
            Err(why) => {
                assert!(why.contains("run as root"), "{why}");
                println!("skipped: {why}");
                return;
            }
        };
        let path = group.path.clone();
        let name = match group.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        assert_eq!(
            fs::read_to_string(path.join(name)).unwrap().trim(),
            (64 << 20).to_string()
        );
        assert!(group.entry().procs.exists());
        drop(group);
        assert!(!path.exists());
    }
}
