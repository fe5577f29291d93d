//! A directory for temporary files that are always removed.
//!
//! Dropping it removes it. If the program is killed, the directory stays. It therefore holds a lock file: the next
//! `ScratchDir` with the same prefix in the same place removes every such directory whose lock no process holds, and
//! unmounts what is mounted there.

use super::mounts::mounts;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LOCK: &str = ".lock";

/// A private directory of this process.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    _lock: File,
}

impl ScratchDir {
    /// Creates a new empty directory in `dir`, named after `prefix` and this process, after removing what killed
    /// processes left there.
    ///
    /// # Errors
    /// If `dir` is not a writable directory.
    pub fn create(dir: &Path, prefix: &str) -> io::Result<ScratchDir> {
        let dir = dir.canonicalize()?;
        sweep(&dir, prefix);
        let path = dir.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&path)?;
        match lock(&path) {
            Ok(lock) => Ok(ScratchDir { path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let path = self.path.display();
            let _ = writeln!(
                io::stderr(),
                "could not remove {path}: {error}; remove it by hand"
            );
        }
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let file = File::create(path.join(LOCK))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes scratch directories that no running program holds. Leaves what it can't remove: it is not ours.
fn sweep(dir: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_scratch = entry.file_name().to_string_lossy().starts_with(prefix);
        // Without a lock file another process is just creating it, or it is not ours
        if is_scratch
            && let Ok(file) = File::open(path.join(LOCK))
            && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            detach(&path);
            remove_stubborn(&path);
        }
    }
}

/// Unmounts what the killed process mounted below it, which would prevent removal.
fn detach(path: &Path) {
    let mounts = mounts().unwrap_or_default();
    let points = mounts.iter().map(|mount| &mount.point);
    // What is mounted last lies within what is mounted first.
    for point in points.rev().filter(|point| point.starts_with(path)) {
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

/// Removes a directory in which an orphan of the killed process may still be creating its last file.
fn remove_stubborn(path: &Path) {
    for _ in 0..20 {
        if fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_removes_everything() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = ScratchDir::create(dir.path(), "millpond-lab-").unwrap();
        fs::create_dir(scratch.path().join("sub")).unwrap();
        fs::write(scratch.path().join("sub/file"), "x").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn remains_of_a_killed_process_are_removed_and_files_of_a_running_one_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["millpond-lab-1", "millpond-lab-2", "millpond-lab-notes", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("millpond-lab-1/.lock"), "").unwrap();
        let held = lock(&dir.path().join("millpond-lab-2")).unwrap();
        let scratch = ScratchDir::create(dir.path(), "millpond-lab-").unwrap();
        assert!(!dir.path().join("millpond-lab-1").exists());
        assert!(dir.path().join("millpond-lab-2").exists());
        assert!(dir.path().join("millpond-lab-notes").exists());
        assert!(scratch.path().exists());
        drop(held);
    }

    /// As with an interrupted trial of FUSE: a dead mount stayed there for good.
    #[test]
    fn mounts_of_a_killed_process_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().join("millpond-lab-1/fuse point");
        fs::create_dir_all(&point).unwrap();
        fs::write(dir.path().join("millpond-lab-1/.lock"), "").unwrap();
        let kept = dir.path().join("kept");
        fs::create_dir_all(kept.join("in")).unwrap();
        if rustix::mount::mount_bind(&kept, &point).is_err() {
            println!("skipped: a mount needs root");
            return;
        }
        let _scratch = ScratchDir::create(dir.path(), "millpond-lab-").unwrap();
        assert!(!dir.path().join("millpond-lab-1").exists());
        assert!(kept.join("in").exists());
    }
}
