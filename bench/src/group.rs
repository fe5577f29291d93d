//! A memory group for the time of one run, in either version of control groups: below this process's own, which takes root or
//! a group that was handed down.

use anyhow::{Context, Result, bail};
use millpond::internal::{self, GroupVersion};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A group with a limit, removed when it is dropped.
pub(crate) struct Group {
    path: PathBuf,
    version: GroupVersion,
}

/// What a process needs to be in a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry(PathBuf);

impl Group {
    /// A new one that may hold `limit` bytes, the kernel's page cache of its files included.
    ///
    /// # Errors
    /// Why there can be none.
    pub(crate) fn new(limit: u64) -> Result<Group> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut why = anyhow::anyhow!("no memory control group is mounted");
        for group in internal::control_groups() {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("millpond-bench-{}-{count}", std::process::id());
            let (path, version) = (group.path.join(name), group.version);
            if let Err(error) = fs::create_dir(&path) {
                why = anyhow::Error::new(error).context(format!("can't make {}", path.display()));
                continue;
            }
            let group = Group { path, version };
            let file = match version {
                GroupVersion::One => "memory.limit_in_bytes",
                GroupVersion::Two => "memory.max",
            };
            match fs::write(group.path.join(file), limit.to_string()) {
                Ok(()) => return Ok(group),
                Err(error) => why = anyhow::Error::new(error).context(format!("can't set {file}")),
            }
        }
        bail!("it takes root, or `systemd-run --user --scope -p Delegate=yes` ({why:#})")
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry(self.path.join("cgroup.procs"))
    }

    /// The version of control groups: one of the first has no limits for dirty pages of its own.
    pub(crate) fn version(&self) -> u8 {
        match self.version {
            GroupVersion::One => 1,
            GroupVersion::Two => 2,
        }
    }

    /// The most that it has held, in MiB.
    pub(crate) fn peak_mib(&self) -> Option<f64> {
        let file = match self.version {
            GroupVersion::One => "memory.max_usage_in_bytes",
            GroupVersion::Two => "memory.peak",
        };
        let bytes = fs::read_to_string(self.path.join(file)).ok()?;
        Some(bytes.trim().parse::<u64>().ok()? as f64 / (1 << 20) as f64)
    }
}

impl Entry {
    /// Puts this process into the group.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn enter(&self) -> Result<()> {
        let written = fs::write(&self.0, std::process::id().to_string());
        written.with_context(|| format!("can't enter {}", self.0.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It stays busy for a moment after its last process has ended.
        for _ in 0..40 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        crate::say(&format!(
            "remove the memory group {} with rmdir",
            self.path.display()
        ));
    }
}
