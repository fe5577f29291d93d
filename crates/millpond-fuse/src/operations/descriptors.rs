//! Descriptor pressure: each file that the kernel knows costs a descriptor and some memory beyond the budget, and a
//! process has a limited number of descriptors.
//!
//! The kernel keeps dentries as long as it has memory for them, and does not know that a descriptor is more expensive.
//! When the number of known files reaches half of the limit, dentries of closed files are invalidated, for any quarter
//! of the files. The kernel then forgets these files, and looks them up again when a program needs them.
//!
//! A file that another program removes in the source keeps its blocks as long as a descriptor of it exists. The kernel
//! does not know of the removal, so that dentry is invalidated too.
//!
//! An invalidation drops the name whatever it refers to by then. A process whose working directory has that name no
//! longer knows where it is, and mounts on it are gone. So a name that another file has taken is not invalidated, and
//! directories stay as long as there are enough descriptors.

use crate::inode::{Dentry, Inode};
use crate::state::MountState;
use fuser::INodeNo;
use rustix::io::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How often, and after which pause, an open that finds no descriptor left is tried again: a second all together, since the
/// kernel forgets nothing of the directory in which it waits for an answer.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// How often what finds no room has files looked for that others have removed in the source.
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_secs(1);

impl MountState {
    /// To be called before one more file becomes known. Returns at once: another thread invalidates.
    pub(crate) fn relieve_descriptors(self: &Arc<MountState>) {
        let is_enough = (self.inodes.count() as u64) < self.files_max() / 2;
        if is_enough || self.invalidating.swap(true, Ordering::AcqRel) {
            return;
        }
        let state = self.clone();
        // Never by this thread: the kernel may wait for its answer before it forgets a name of that directory.
        self.pool.defer(move || {
            state.invalidate_dentries();
            state.invalidating.store(false, Ordering::Release);
        });
    }

    fn invalidate_dentries(&self) {
        let Some(_notifying) = self.gate.notify() else {
            return;
        };
        let inodes = self.inodes.all();
        let wanted = inodes.len() / 4;
        let files = inodes.iter().filter(|inode| !inode.is_directory);
        let done = self.invalidate_some(files, wanted);
        // Nearly no descriptors are left: then better a directory than no more files.
        if inodes.len() as u64 >= self.files_max() / 4 * 3 {
            let directories = inodes.iter().filter(|inode| inode.is_directory);
            self.invalidate_some(directories, wanted - done);
        }
    }

    /// Invalidates the dentries of up to `wanted` closed inodes. How many it were.
    fn invalidate_some<'a>(&self, inodes: impl Iterator<Item = &'a Arc<Inode>>, wanted: usize) -> usize {
        let closed = inodes.filter(|inode| is_closed(inode));
        let invalidated = closed.filter(|inode| {
            let dentry = inode.dentry.lock().clone();
            dentry.is_some_and(|dentry| self.invalidate_entry(inode, &dentry))
        });
        invalidated.take(wanted).count()
    }

    /// Invalidates the dentries of closed files that have no name any more below, each once.
    pub(crate) fn invalidate_unlinked(&self) {
        let _one_at_a_time = self.looked_for_unlinked.lock();
        self.let_go_of_unlinked();
    }

    /// The same because something finds no room, which such a file may have; not more often than once a second. Whether it
    /// was done. Not to be called for a call that holds a directory, which the kernel needs to drop a name there.
    pub(super) fn invalidate_unlinked_for_room(&self) -> bool {
        let Some(mut looked) = self.looked_for_unlinked.try_lock() else {
            return false;
        };
        if looked.is_some_and(|at| at.elapsed() < LOOK_FOR_ROOM_EVERY) {
            return false;
        }
        self.let_go_of_unlinked();
        *looked = Some(Instant::now());
        true
    }

    fn let_go_of_unlinked(&self) {
        let Some(_notifying) = self.gate.notify() else {
            return;
        };
        for inode in self.inodes.all() {
            let is_unlinked = || rustix::fs::fstat(&inode.fd).is_ok_and(|stat| stat.st_nlink == 0);
            if inode.dentry.lock().is_none() || !is_closed(&inode) || !is_unlinked() {
                continue;
            }
            let dentry = inode.dentry.lock().take();
            if let Some(dentry) = dentry {
                self.note_removed(&inode);
                self.invalidate_entry(&inode, &dentry);
            }
        }
    }

    /// Has the kernel drop a dentry that was the inode's, unless the name is another file's by now. Whether it was asked to;
    /// it may have dropped it before.
    fn invalidate_entry(&self, inode: &Arc<Inode>, dentry: &Dentry) -> bool {
        let (Some(notifier), Some(directory)) = (self.notifier.get(), self.inodes.find(dentry.parent)) else {
            return false;
        };
        let now = self.known_inode_at(&directory, &dentry.name);
        if now.is_some_and(|now| !Arc::ptr_eq(&now, inode)) {
            return false;
        }
        let _ = notifier.inval_entry(INodeNo(dentry.parent), &dentry.name);
        true
    }

    /// Calls `open`, and again for a while if no descriptor is left.
    ///
    /// # Errors
    /// Those of `open`; `ENFILE` in place of `EMFILE`: the system, not the program, has too many files open.
    pub(crate) fn retrying_emfile<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 0..TRIES {
            match open() {
                Err(Errno::MFILE) => thread::sleep(PAUSE),
                other => return other,
            }
        }
        Err(Errno::NFILE)
    }
}

/// Whether no program has it open. A file that is just being opened counts as open: its lock is not waited for.
fn is_closed(inode: &Inode) -> bool {
    inode.data.try_lock().is_some_and(|data| data.opens == 0)
}
