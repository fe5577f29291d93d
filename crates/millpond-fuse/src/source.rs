//! The source: a directory whose files only one mount at a time may change.
//!
//! Two caches of one file overwrite each other's changes, and each reports that everything is on the disk. So a writing
//! mount locks the directory (`flock`) for the life of its process. The lock is found under any path to the directory,
//! in any namespace. A source inside another one is detected by their paths within the file system, as far as the
//! mounts are visible from here.

use crate::error::{MountError, Result, system};
use crate::host;
use crate::host::mountinfo::{self, FsPath};
use crate::options::Options;
use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// For how long a mount waits for the lock of one whose mount point is gone, and which still writes what it has or is being
/// killed.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(3);
const LOCK_RETRY_EVERY: Duration = Duration::from_millis(20);

/// The source of a mount.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The directory, open for reading and perhaps locked: until the process ends, or this is dropped.
    pub(crate) directory: Arc<SourceLock>,
    /// Why it could not be locked, in a sentence, if it should be.
    pub(crate) notice: Option<String>,
}

/// The source directory, open, and perhaps locked. Forked children have the same open file: they don't end the lock, and it
/// does not live on with them when this is dropped.
pub(crate) struct SourceLock {
    directory: File,
    /// Which has the lock: 0 until a process has taken the mount over that it came from.
    process: AtomicU32,
}

impl SourceLock {
    /// The lock is this process' from now on.
    pub(crate) fn own(&self) {
        self.process.store(std::process::id(), Ordering::SeqCst);
    }
}

impl AsFd for SourceLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for SourceLock {
    fn drop(&mut self) {
        if self.process.load(Ordering::SeqCst) == std::process::id() {
            // What can't be given up here ends with the open file.
            let _ = rustix::fs::flock(&self.directory, FlockOperation::Unlock);
        }
    }
}

fn refused(path: &Path, why: String) -> MountError {
    MountError::Directory {
        path: path.to_owned(),
        role: "the source",
        why,
    }
}

impl Source {
    /// Opens the directory.
    pub(crate) fn open(options: &Options) -> Result<Source> {
        let path = host::check_source(options)?;
        let directory = open(&path).map_err(|error| refused(&path, host::not_opened(&error.into())))?;
        Ok(Source {
            path,
            directory: Arc::new(SourceLock {
                directory,
                process: std::process::id().into(),
            }),
            notice: None,
        })
    }

    /// With the directory as another process has it open, and its lock.
    pub(crate) fn go_on_from(self, directory: OwnedFd) -> Source {
        let directory = SourceLock {
            directory: directory.into(),
            process: AtomicU32::new(0),
        };
        Source {
            directory: Arc::new(directory),
            ..self
        }
    }

    /// Locks it, if the mount writes through a cache.
    pub(crate) fn lock(&mut self, options: &Options) -> Result<()> {
        // Mounts that only read may be many, and without a cache each sees at once what the other writes.
        if options.cached && !options.read_only {
            self.notice = self.wait_for_lock()?;
        }
        Ok(())
    }

    /// Locks it. Where the file system has no locks: why not, in a sentence.
    fn wait_for_lock(&self) -> Result<Option<String>> {
        let began = Instant::now();
        loop {
            match rustix::fs::flock(&self.directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => {
                    return Ok(Some(format!(
                        "{} can't be locked ({error}): make sure that no other mount or program with a cache of its own \
                         changes files there",
                        self.path.display()
                    )));
                }
            }
            let is_mounted = self.others()?.into_iter().find(|other| other.is_same);
            if let Some(other) = is_mounted.filter(|other| host::is_alive(&other.point)) {
                return Err(refused(&self.path, taken(&other.point, "is already there")));
            }
            if began.elapsed() >= LOCK_WAIT_MAX {
                return Err(refused(&self.path, self.locked_by_other()));
            }
            thread::sleep(LOCK_RETRY_EVERY);
        }
        self.check_overlap().map(|()| None)
    }

    /// To be called once it is mounted: of two mounts that were made at the same time neither has seen the other before.
    pub(crate) fn recheck(&self, options: &Options) -> Result<()> {
        if options.cached && !options.read_only && self.notice.is_none() {
            self.check_overlap()?;
        }
        Ok(())
    }

    /// Refuses a source if a mount that writes has one within it or around it.
    fn check_overlap(&self) -> Result<()> {
        let mut others = self.others()?.into_iter();
        if let Some(other) = others.find(|other| !other.is_same && other.is_locked()) {
            return Err(refused(&self.path, taken(&other.point, &other.how())));
        }
        match self.path.ancestors().skip(1).find_map(locked_around) {
            Some(why) => Err(refused(&self.path, why)),
            None => Ok(()),
        }
    }

    /// Mounts of this program whose source has files of this one.
    fn others(&self) -> Result<Vec<Other>> {
        let mounts = mountinfo::mounts()?;
        let Some(ours) = FsPath::of(&self.path, &mounts) else {
            return Ok(Vec::new());
        };
        let millponds = mounts.iter().filter(|mount| mount.fs_type == host::FS_TYPE);
        let others = millponds.filter_map(|mount| {
            let source = PathBuf::from(&mount.source);
            let theirs = FsPath::of(&source, &mounts)?;
            (theirs.device == ours.device).then_some(())?;
            let (within, around) = (
                theirs.path.starts_with(&ours.path),
                ours.path.starts_with(&theirs.path),
            );
            (within || around).then(|| Other {
                point: mount.point.clone(),
                source,
                is_same: within && around,
                is_within: within,
            })
        });
        Ok(others.collect())
    }

    /// The refusal when no mount is to be seen that has the lock.
    fn locked_by_other(&self) -> String {
        let who = rustix::fs::fstat(&self.directory)
            .ok()
            .and_then(|stat| host::locked_by(&stat))
            .map_or("another process".into(), |process| format!("process {process}"));
        format!(
            "{who} has it locked (flock): a mount that still writes what it has or serves files that are open, one of another \
             name space, or another program; wait for its end, or mount with --read-only"
        )
    }
}

/// Another mount that has files of this source.
struct Other {
    point: PathBuf,
    source: PathBuf,
    is_same: bool,
    is_within: bool,
}

impl Other {
    /// Whether its process lives and writes. One that can't be opened may.
    fn is_locked(&self) -> bool {
        match open(&self.source) {
            Ok(directory) => rustix::fs::flock(directory, FlockOperation::NonBlockingLockShared).is_err(),
            // It has gone since, or is of another name space: then it is not that directory.
            Err(error) => !matches!(error, Errno::NOENT | Errno::NOTDIR),
        }
    }

    fn how(&self) -> String {
        let how = if self.is_within {
            "lies within this"
        } else {
            "contains this"
        };
        format!("has {} as its source, which {how}", self.source.display())
    }
}

/// The refusal for the sake of another mount. The way out is to have one cache.
fn taken(point: &Path, how: &str) -> String {
    let point = point.display();
    format!(
        "a millpond mount at {point} {how}, and two caches would write over each other's changes; use that one, or end it \
         first (`millpond umount {point}`), or mount this with --read-only"
    )
}

/// The refusal if a process has a directory locked and serves FUSE: a mount that has no name any more, as after
/// `umount --lazy`. Other programs may lock what they like.
fn locked_around(path: &Path) -> Option<String> {
    let directory = open(path).ok()?;
    let locked = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockShared);
    (locked == Err(Errno::WOULDBLOCK)).then_some(())?;
    let process = host::locked_by(&rustix::fs::fstat(&directory).ok()?)?;
    host::serves(process).then(|| {
        format!(
            "process {process} is a mount of {}, which contains this, and is still used or writes what it has; wait for its \
             end, or mount with --read-only",
            path.display()
        )
    })
}

/// Opens a directory for reading, if it may be searched as well.
fn open(path: &Path) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::openat(&directory, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    Ok(directory.into())
}

/// The root's inode, open with `O_PATH`, so that it is there whatever is mounted over it, and what stat says.
pub(crate) fn root(source: &Source) -> Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(&source.directory, ".", flags, Mode::empty());
    let failed = |e: Errno| system("can't open the source")(e.into());
    let root = root.map_err(failed)?;
    let stat = rustix::fs::fstat(&root).map_err(failed)?;
    Ok((root, stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_can_not_be_looked_at_may_be_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let other = |name: &str| Other {
            point: PathBuf::new(),
            source: folder.path().join(name),
            is_same: false,
            is_within: true,
        };
        std::fs::create_dir(folder.path().join("in")).unwrap();
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
        assert!(!other("in").is_locked());
        assert!(!other("gone").is_locked());
        assert!(other("loop").is_locked());
        let held = open(&folder.path().join("in")).unwrap();
        rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
        assert!(other("in").is_locked());
    }
}
