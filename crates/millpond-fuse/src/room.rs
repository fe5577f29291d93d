//! Disk space about to be freed: a removed file's blocks are free when its last descriptor is closed, some time after
//! the call that removed it has returned.
//!
//! ```text
//!   rm ─ unlink, answered ──► the kernel forgets the file ──► its data are evicted ──► its descriptor is closed: room
//!            └──────────────── leaving ───────────────────────────────────────────────────────────┘
//! ```
//!
//! A write that finds no space in the meantime waits until no file is leaving, and is retried. A file that stays,
//! because a program keeps it without having it open, is waited for once.

use parking_lot::{Condvar, Mutex};
use rustix::io::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// For so long at most: a large file's blocks take the file system below seconds.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What is leaving.
#[derive(Default)]
pub(crate) struct Room {
    leaving: Mutex<Files>,
    gone: Condvar,
    /// How often a call has given room back, or will.
    given: AtomicU64,
}

#[derive(Default)]
struct Files {
    count: usize,
    /// So many of them were waited for in vain.
    given_up: usize,
}

/// A file that is leaving; dropped when its descriptor is closed.
pub(crate) struct Leaving(Arc<Room>);

impl Room {
    /// A call makes room: by removing a file, cutting it or punching a hole.
    pub(crate) fn note_given(&self) {
        self.given.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes whenever a call makes room.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::SeqCst)
    }

    /// A file without a name that no program has open.
    pub(crate) fn leave(self: &Arc<Room>) -> Leaving {
        self.leaving.lock().count += 1;
        Leaving(self.clone())
    }

    /// Does `work`, and again if it finds no room while a file is leaving.
    pub(crate) fn wait_for<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        // First: what has left by now has left its room.
        let is_leaving = self.leaving.lock().is_any();
        let done = work();
        if !is_leaving || !is_no_room(&done) {
            return done;
        }
        self.wait_until_gone();
        work()
    }

    fn wait_until_gone(&self) {
        let until = Instant::now() + WAIT_MAX;
        let mut files = self.leaving.lock();
        while files.is_any() {
            if self.gone.wait_until(&mut files, until).timed_out() {
                files.given_up = files.count;
            }
        }
    }
}

impl Files {
    fn is_any(&self) -> bool {
        self.count > self.given_up
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut files = self.0.leaving.lock();
        files.count -= 1;
        files.given_up = files.given_up.min(files.count);
        self.0.gone.notify_all();
    }
}

/// Whether something could not be done for want of room.
pub(crate) fn is_no_room<T>(done: &Result<T>) -> bool {
    matches!(done, Err(Errno::NOSPC | Errno::DQUOT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn what_finds_no_room_waits_for_what_is_leaving_and_else_for_nothing() {
        let room = Arc::new(Room::default());
        let is_there = Arc::new(AtomicBool::new(false));
        let write = || match is_there.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(Errno::NOSPC),
        };
        assert_eq!(room.wait_for(write), Err(Errno::NOSPC));
        let leaving = room.leave();
        let leaves = thread::spawn({
            let is_there = is_there.clone();
            move || {
                is_there.store(true, Ordering::SeqCst);
                drop(leaving);
            }
        });
        assert_eq!(room.wait_for(write), Ok(()));
        leaves.join().unwrap();
        assert!(!room.leaving.lock().is_any());
    }

    #[test]
    fn other_errors_wait_for_nothing() {
        let room = Arc::new(Room::default());
        let _leaving = room.leave();
        let done: Result<()> = room.wait_for(|| Err(Errno::IO));
        assert_eq!(done, Err(Errno::IO));
    }
}
