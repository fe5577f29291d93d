//! A directory for a run's files, removed whatever happens.
//!
//! Dropping it removes it. If the program is killed outright it stays; so it holds a lock file, and the next
//! run in the same place removes every scratch directory whose lock no process holds any more.

use crate::error::{LabError, Result};
use millpond_core::units::Bytes;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PREFIX: &str = "millpond-lab-";
const LOCK: &str = ".lock";

/// A scratch directory.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// A new empty directory in `dir`, after removing what killed runs left there.
    ///
    /// # Errors
    /// If `dir` is no directory that can be written to.
    pub fn create(dir: &Path) -> Result<Scratch> {
        let unusable = |e: io::Error| LabError::BadValue {
            option: "--dir",
            value: dir.display().to_string(),
            allowed: e.to_string(),
            instead: "give a directory that exists and that you may write to".into(),
        };
        let dir = dir.canonicalize().map_err(unusable)?;
        sweep(&dir);
        let path = dir.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(unusable)?;
        match lock(&path) {
            Ok(lock) => Ok(Scratch { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            say!(
                "could not remove {}: {error}; remove it by hand",
                self.path.display()
            );
        }
    }
}

fn lock(path: &Path) -> Result<File> {
    let path = path.join(LOCK);
    let file = File::create(&path).map_err(|e| LabError::path("cannot create", &path, e))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| LabError::path("cannot lock", &path, e))?;
    Ok(file)
}

/// Removes scratch directories that no running program holds. What cannot be removed is left: it is not ours.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_scratch = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // without a lock file another run is just creating it, or it is not ours
        if is_scratch
            && let Ok(file) = File::open(path.join(LOCK))
            && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            detach(&path);
            remove_stubborn(&path);
        }
    }
}

/// Takes away what the killed run has mounted below it, which would be in the way.
fn detach(path: &Path) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    // What is mounted last lies within what is mounted first.
    let within: Vec<_> = points
        .map(Path::new)
        .filter(|point| point.starts_with(path))
        .collect();
    for point in within.into_iter().rev() {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        if rustix::mount::unmount(point, flags) == Err(Errno::PERM) {
            // For a user other than root there is a helper. What it can't remove stays in the way.
            let _ = Command::new("fusermount3")
                .args(["-uz", "--"])
                .arg(point)
                .output();
        }
    }
}

/// Removes a directory in which an orphan of the killed run may just be making its last file.
fn remove_stubborn(path: &Path) {
    for _ in 0..20 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many bytes may still be written in `dir` by this user.
pub fn free_bytes(dir: &Path) -> Option<Bytes> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// For the tests beside the code: a folder on the disk where the build is. Below it, as a test that dies leaves its folder
/// there: in the sources it would end up under version control.
#[cfg(test)]
pub(crate) fn for_tests() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_removes_everything() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(dir.path()).unwrap();
        fs::create_dir(scratch.path().join("sub")).unwrap();
        fs::write(scratch.path().join("sub/file"), "x").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_a_running_one_holds_is_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["millpond-lab-1", "millpond-lab-2", "millpond-lab-notes", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("millpond-lab-1/.lock"), "").unwrap();
        let held = lock(&dir.path().join("millpond-lab-2")).unwrap();
        let scratch = Scratch::create(dir.path()).unwrap();
        assert!(!dir.path().join("millpond-lab-1").exists());
        assert!(dir.path().join("millpond-lab-2").exists());
        assert!(dir.path().join("millpond-lab-notes").exists());
        assert!(scratch.path().exists());
        drop(held);
    }

    /// As of a trial of FUSE that was interrupted: a dead mount stayed there for good.
    #[test]
    fn what_a_killed_run_has_mounted_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().join("millpond-lab-1/fuse-point");
        fs::create_dir_all(&point).unwrap();
        fs::write(dir.path().join("millpond-lab-1/.lock"), "").unwrap();
        let kept = dir.path().join("kept");
        fs::create_dir_all(kept.join("in")).unwrap();
        if rustix::mount::mount_bind(&kept, &point).is_err() {
            println!("skipped: a mount needs root");
            return;
        }
        let _scratch = Scratch::create(dir.path()).unwrap();
        assert!(!dir.path().join("millpond-lab-1").exists());
        assert!(kept.join("in").exists());
    }

    #[test]
    fn a_directory_that_is_none_is_named() {
        let error = Scratch::create(Path::new("/proc/no/such/place")).unwrap_err();
        assert!(error.to_string().contains("/proc/no/such/place"), "{error}");
    }
}
