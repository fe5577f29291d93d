//! A folder for the trials, removed with all that is in it.
//!
//! Dropping it removes it. A doctor that is killed leaves it, perhaps with a dead mount in it. So the folder is locked for as
//! long as its process lives, and the next one in the same directory removes those that are not locked.

use millpond_fuse::Mount;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "millpond-doctor-";

/// Below it, where a mount is tried.
pub(super) const MOUNT_POINT: &str = "fuse-point";

/// A folder that is locked until it is dropped.
pub(super) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// A new folder in `dir`.
    ///
    /// # Errors
    /// The system's, if no folder can be made there.
    pub(super) fn create(dir: &Path) -> io::Result<Scratch> {
        let dir = dir.canonicalize()?;
        remove_dead(&dir);
        let path = dir.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path)?;
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Scratch { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let path = self.path.display();
            say!("could not remove {path}: {error}; remove it by hand");
        }
    }
}

/// Removes what doctors that were killed have left. What can't be removed stays.
fn remove_dead(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_scratch = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_dead = |path: &Path| {
            File::open(path).is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
        };
        if is_scratch && is_dead(&entry.path()) {
            let _ = Mount::unmount_at(&entry.path().join(MOUNT_POINT), true);
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_doctor_has_left_is_removed_and_what_a_living_one_has_is_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["millpond-doctor-1", "millpond-doctor-2", "millpond-lab-1"] {
            fs::create_dir_all(dir.path().join(name).join(MOUNT_POINT)).unwrap();
        }
        let living = File::open(dir.path().join("millpond-doctor-2")).unwrap();
        flock(&living, FlockOperation::NonBlockingLockExclusive).unwrap();
        let scratch = Scratch::create(dir.path()).unwrap();
        let is_there = |name| dir.path().join(name).exists();
        assert!(!is_there("millpond-doctor-1"));
        assert!(is_there("millpond-doctor-2") && is_there("millpond-lab-1") && scratch.path().exists());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
