//! A run in a process of its own: this program once more, in a memory group of its own.

use crate::group::{Entry, Group};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// For what a process has beside its caches: the program itself, stacks, the allocator, what is in hand.
pub(crate) const PROCESS_BYTES: u64 = 48 << 20;

/// Where a run's files are, and the group that limits it. Both are gone when it is dropped.
pub(crate) struct Place {
    // Files go first: a group whose pages are still in memory would live on without a name.
    folder: TempDir,
    group: Result<Group>,
}

impl Place {
    /// In `dir`, for caches of `memory` bytes.
    pub(crate) fn new(dir: &Path, memory: u64) -> Result<Place> {
        let folder = tempfile::Builder::new().prefix("millpond-bench-").tempdir_in(dir);
        let folder = folder.with_context(|| format!("can't make files in {}", dir.display()))?;
        let group = Group::new(memory + PROCESS_BYTES);
        Ok(Place { folder, group })
    }

    /// The file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the run needs to be limited.
    pub(crate) fn entry(&self) -> Option<Entry> {
        self.group.as_ref().ok().map(Group::entry)
    }

    /// The most that the run has held, in MiB.
    pub(crate) fn peak_mib(&self) -> Option<f64> {
        self.group.as_ref().ok().and_then(Group::peak_mib)
    }

    /// What limits a run of caches of `memory` bytes, as a line for people.
    pub(crate) fn told(&self, memory: u64) -> String {
        let mib = (memory + PROCESS_BYTES) >> 20;
        match &self.group {
            Ok(group) => format!(
                "each process in a memory group (version {}) of {mib} MiB, page cache included",
                group.version()
            ),
            Err(why) => format!("NOT at equal memory: the kernel's page cache is not limited; {why:#}"),
        }
    }
}

/// Runs `command` of this program with `run`, and gives what it has printed.
///
/// # Errors
/// If it fails.
pub(crate) fn in_child<D: DeserializeOwned>(command: &str, run: &impl Serialize) -> Result<D> {
    let run = serde_json::to_string(run)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(command).arg(&run).stderr(Stdio::inherit());
    let output = child.output().context("can't start a run")?;
    let status = output.status;
    ensure!(status.success(), "a run has failed, {status}: {command} '{run}'");
    serde_json::from_slice(&output.stdout).context("a run has printed something else than its figures")
}
