//! Commits of a mount: each is the mount at one instant.
//!
//! ```text
//!   changes  ──── one after the other, beside one another ────┐ gate
//!   fsync, the flusher ──► written out ──► alone: written out, ▼ committed ──► told
//! ```
//!
//! Changes wait while a commit is made, so that it has all of each and nothing of later ones. Most bytes are written out
//! before that. Those that ask for a commit while one is made share the next one.

use crate::handles::lock;
use crate::inodes::Inodes;
use fuser::Errno;
use millpond::contents::Order;
use millpond::internal::quantity::size;
use millpond::units::Bytes;
use millpond_volumes::layout::SyncError;
use millpond_volumes::tree::{Ino, Listed, ROOT};
use millpond_volumes::{CacheStore, Error};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// So many files with uncommitted bytes are committed without waiting.
const DIRTY_FILES_MAX: u64 = 2048;

/// They have so many descriptors each, and all of them may have half of the process'.
const DESCRIPTORS: u64 = 4;

/// Why a commit failed: what the caller gets, and what people are told.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) errno: i32,
    pub(crate) why: String,
    pub(crate) is_fenced: bool,
}

#[derive(Default, Debug)]
struct Progress {
    is_running: bool,
    /// Commits that were begun, the last of them that is done, and the last that succeeded.
    begun: u64,
    done: u64,
    succeeded: u64,
    refused: Option<Refused>,
    /// Since when something waits to be committed.
    changed: Option<Instant>,
    has_many: bool,
    is_ended: bool,
}

/// Gets what goes wrong, in sentences.
pub(crate) struct Say(pub(crate) Box<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Say {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Say")
    }
}

/// The commits of a mount.
#[derive(Debug)]
pub(crate) struct Commits {
    say: Say,
    dirty_files_max: u64,
    pub(crate) files: CacheStore,
    pub(crate) inodes: Inodes,
    /// Held by a change, and alone by a commit.
    gate: RwLock<()>,
    progress: Mutex<Progress>,
    moved: Condvar,
    is_given_up: AtomicBool,
}

/// How many files are named of those that are in no commit, and in how many directories they are looked for.
const NAMED_MAX: usize = 3;
const DIRECTORIES_MAX: usize = 1000;

fn refused(error: &Error) -> Refused {
    let is_fenced = error.is_fenced();
    Refused {
        errno: match error {
            _ if is_fenced => rustix::io::Errno::STALE.raw_os_error(),
            Error::TimedOut(..) => rustix::io::Errno::TIMEDOUT.raw_os_error(),
            _ => rustix::io::Errno::IO.raw_os_error(),
        },
        why: match error {
            // What becomes of the data is not for the store to say: it is retried, or the mount ends.
            Error::Sync(SyncError::Store(why)) => format!("the store can't be written: {why}"),
            Error::Sync(SyncError::NoRoom(why)) => format!("the store has no room: {why}"),
            error => error.to_string(),
        },
        is_fenced,
    }
}

impl Commits {
    pub(crate) fn new(files: CacheStore, say: Say, descriptors: u64) -> Commits {
        Commits {
            say,
            dirty_files_max: DIRTY_FILES_MAX.min(descriptors / 2 / DESCRIPTORS).max(1),
            files,
            inodes: Inodes::default(),
            gate: RwLock::default(),
            progress: Mutex::default(),
            moved: Condvar::new(),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// To be held by a change of names, attributes or bytes.
    pub(crate) fn change(&self) -> RwLockReadGuard<'_, ()> {
        let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut progress = lock(&self.progress);
        if progress.changed.is_none() {
            progress.changed = Some(Instant::now());
            self.moved.notify_all();
        }
        drop(progress);
        gate
    }

    /// So many files have uncommitted bytes.
    pub(crate) fn dirty(&self, files: usize) {
        if files as u64 >= self.dirty_files_max {
            lock(&self.progress).has_many = true;
            self.moved.notify_all();
        }
    }

    /// Commits all that was changed before.
    pub(crate) fn commit(&self) -> Result<(), Refused> {
        let mut progress = lock(&self.progress);
        let wanted = progress.begun + 1;
        loop {
            if progress.succeeded >= wanted {
                return Ok(());
            }
            if progress.done >= wanted {
                let refused = progress.refused.clone();
                return Err(refused.unwrap_or_else(|| Refused {
                    errno: rustix::io::Errno::IO.raw_os_error(),
                    why: String::from("the commit failed"),
                    is_fenced: false,
                }));
            }
            if progress.is_running {
                progress = self.moved.wait(progress).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            progress.is_running = true;
            progress.begun += 1;
            let this = progress.begun;
            drop(progress);
            let result = self.run();
            progress = lock(&self.progress);
            progress.is_running = false;
            progress.done = this;
            match result {
                Ok(()) => progress.succeeded = this,
                Err(refused) => {
                    let was_fenced = progress.refused.as_ref().is_some_and(|before| before.is_fenced);
                    if refused.is_fenced && !was_fenced {
                        (self.say.0)(&format!(
                            "{}: nothing can be changed here any more; unmount it",
                            refused.why
                        ));
                    }
                    progress.refused = Some(refused);
                }
            }
            self.moved.notify_all();
        }
    }

    fn run(&self) -> Result<(), Refused> {
        // Most of it, while changes go on. What fails is tried once more below.
        let _ = millpond::internal::write_out_all(self.files.cache());
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let written = millpond::internal::write_out_all(self.files.cache());
        written.map_err(|error| self.unwritten_pages(&error))?;
        self.files.store().sync().map_err(|error| refused(&error))?;
        self.inodes.committed();
        self.files.forget_closed();
        let mut progress = lock(&self.progress);
        (progress.changed, progress.has_many) = (None, false);
        Ok(())
    }

    /// The cache knows the number of an error only. The store knows why.
    fn unwritten_pages(&self, error: &millpond::Error) -> Refused {
        let store = self.files.store();
        let why = match store.fence() {
            Some(fence) => Some(fence.to_string()),
            None => store.trouble(),
        };
        Refused {
            errno: error.errno(),
            why: why.unwrap_or_else(|| error.to_string()),
            is_fenced: store.fence().is_some(),
        }
    }

    /// What can't be committed is lost when the mount ends.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Why the last commit failed, if it did.
    pub(crate) fn refused(&self) -> Option<Refused> {
        let progress = lock(&self.progress);
        let has_failed = progress.succeeded < progress.done;
        progress.refused.clone().filter(|_| has_failed)
    }

    /// What is in no commit, in words; `None` if all is.
    pub(crate) fn unwritten(&self) -> Option<String> {
        lock(&self.progress).changed?;
        let files = self.inodes.dirty();
        let contents = self.files.cache().contents(usize::MAX, Order::Dirty);
        let pages = contents.of_files.unsaved() + contents.of_files.writing;
        let bytes = pages.0 * self.files.cache().options().page_size.bytes();
        let bytes = bytes + self.files.store().usage().layout.uncommitted_bytes;
        let mut said = match files.len() {
            0 => String::from("names or attributes"),
            _ => size(Bytes(bytes)),
        };
        let named = self.paths(&files);
        for (n, path) in named.iter().enumerate() {
            said += if n == 0 { " of " } else { ", " };
            said += path;
        }
        match (named.len(), files.len() - named.len()) {
            (_, 0) => {}
            (0, 1) => said += " of a file",
            (0, others) => said += &format!(" of {others} files"),
            (_, 1) => said += " and another file",
            (_, others) => said += &format!(" and {others} other files"),
        }
        if let Some(refused) = self.refused() {
            said += &format!(": {}", refused.why);
        }
        Some(said)
    }

    /// The paths of some of these files, as far as they are found soon.
    fn paths(&self, files: &[Ino]) -> Vec<String> {
        let store = self.files.store();
        let (mut found, mut directories) = (Vec::new(), vec![(String::new(), ROOT)]);
        for _ in 0..DIRECTORIES_MAX {
            let Some((path, directory)) = directories.pop() else {
                break;
            };
            for Listed { name, ino, kind } in store.tree(|tree| tree.list(directory)) {
                let path = format!("{path}{}", String::from_utf8_lossy(&name));
                if kind == rustix::fs::FileType::Directory {
                    directories.push((path + "/", ino));
                } else if files.binary_search(&ino).is_ok() {
                    found.push(path);
                    if found.len() == NAMED_MAX {
                        return found;
                    }
                }
            }
        }
        found
    }

    /// Commits what has waited for `expire`, until the mount ends. Tells what goes wrong, and when that is over.
    pub(crate) fn flush(&self, expire: Duration) {
        let mut is_refused = false;
        loop {
            let mut progress = lock(&self.progress);
            loop {
                if progress.is_ended {
                    return;
                }
                let due = progress.changed.map(|since| since + expire);
                let left = due.map(|due| due.saturating_duration_since(Instant::now()));
                match left {
                    None => progress = self.moved.wait(progress).unwrap_or_else(PoisonError::into_inner),
                    Some(left) if left.is_zero() || progress.has_many && !is_refused => break,
                    Some(left) => {
                        let waited = self.moved.wait_timeout(progress, left);
                        progress = waited.unwrap_or_else(PoisonError::into_inner).0;
                    }
                }
            }
            drop(progress);
            match self.commit() {
                Ok(()) if is_refused => {
                    is_refused = false;
                    (self.say.0)("what could not be committed is in the store now");
                }
                Ok(()) => {}
                Err(refused) => {
                    if refused.is_fenced {
                        return;
                    }
                    if !is_refused {
                        (self.say.0)(&format!("{}; it is tried again", refused.why));
                    }
                    is_refused = true;
                    // Later, not at once.
                    lock(&self.progress).changed = Some(Instant::now());
                }
            }
        }
    }

    /// The last commit, after which the store is closed: of what processes had open without a name, nothing is left.
    pub(crate) fn last(&self) -> Result<(), Refused> {
        let store = self.files.store();
        let orphans = store.tree(|tree| tree.orphans());
        for ino in orphans {
            self.inodes.discard(ino);
            // If another writer has the store, that one drops it.
            let _ = store.tree(|tree| tree.drop_orphan(ino));
        }
        self.commit()?;
        store.close().map_err(|error| refused(&error))
    }

    /// The flusher is to end.
    pub(crate) fn end(&self) {
        lock(&self.progress).is_ended = true;
        self.moved.notify_all();
    }
}

impl From<Refused> for Errno {
    fn from(refused: Refused) -> Errno {
        Errno::from_i32(refused.errno)
    }
}
