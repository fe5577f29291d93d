//! The nodes that the kernel knows, or whose bytes are in no commit.

use crate::replies::errno;
use fuser::Errno;
use millpond::File;
use millpond_volumes::CacheStore;
use millpond_volumes::tree::{Ino, data_name};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

// Tests try all orders of steps between two locks.
#[cfg(test)]
use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicU64};
#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};

/// A node.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    lookups: AtomicU64,
    /// Its bytes, once something of them was read or written.
    bytes: Mutex<Bytes>,
}

#[derive(Default, Debug)]
struct Bytes {
    file: Option<Arc<File>>,
    handles: u64,
}

/// All of them.
#[derive(Default, Debug)]
pub(crate) struct Inodes {
    known: Mutex<HashMap<Ino, Arc<Inode>>>,
    /// Those with bytes that are in no commit: their files stay open.
    dirty: Mutex<HashSet<Ino>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inode {
    /// Its bytes.
    pub(crate) fn file(&self, files: &CacheStore) -> Result<Arc<File>, Errno> {
        let mut bytes = lock(&self.bytes);
        if let Some(file) = &bytes.file {
            return Ok(file.clone());
        }
        let file = files.open(&data_name(self.ino)).map_err(|error| match error {
            millpond_volumes::CacheError::Cache(error) => errno(&error),
            _ => Errno::EIO,
        })?;
        Ok(bytes.file.insert(Arc::new(file)).clone())
    }

    /// Its length, if that is known without the store.
    pub(crate) fn len(&self) -> Option<u64> {
        lock(&self.bytes).file.as_ref().map(|file| file.len())
    }

    /// One more has it open.
    pub(crate) fn opened(&self) {
        lock(&self.bytes).handles += 1;
    }

    /// It is of no use any more: what of it is in memory is given up.
    fn discard(&self) {
        if let Some(file) = lock(&self.bytes).file.take() {
            // Nothing of it is to be written.
            let _ = file.set_len(0);
        }
    }
}

impl Inodes {
    /// The node, which the kernel knows.
    pub(crate) fn get(&self, ino: Ino) -> Arc<Inode> {
        Inodes::entry(&mut lock(&self.known), ino).clone()
    }

    fn entry(known: &mut HashMap<Ino, Arc<Inode>>, ino: Ino) -> &Arc<Inode> {
        let new = || {
            Arc::new(Inode {
                ino,
                lookups: AtomicU64::new(0),
                bytes: Mutex::default(),
            })
        };
        known.entry(ino).or_insert_with(new)
    }

    /// Its length, if it is known without the store.
    pub(crate) fn len(&self, ino: Ino) -> Option<u64> {
        lock(&self.known).get(&ino)?.len()
    }

    /// The kernel was told of it once more.
    pub(crate) fn looked_up(&self, ino: Ino) {
        // Under the lock: a forget of the earlier times may run beside this.
        let mut known = lock(&self.known);
        Inodes::entry(&mut known, ino)
            .lookups
            .fetch_add(1, Ordering::Relaxed);
    }

    /// The kernel has forgotten it so often; whether that was all.
    pub(crate) fn forget(&self, ino: Ino, count: u64) -> bool {
        let known = lock(&self.known);
        let Some(inode) = known.get(&ino) else { return true };
        let before = inode.lookups.fetch_sub(count, Ordering::Relaxed);
        drop(known);
        if before > count {
            return false;
        }
        self.drop_unused(ino);
        true
    }

    /// Whether the kernel knows it.
    pub(crate) fn is_known(&self, ino: Ino) -> bool {
        let known = lock(&self.known);
        known
            .get(&ino)
            .is_some_and(|inode| inode.lookups.load(Ordering::Relaxed) > 0)
    }

    fn drop_unused(&self, ino: Ino) {
        let mut known = lock(&self.known);
        let Some(inode) = known.get(&ino) else { return };
        let is_used = inode.lookups.load(Ordering::Relaxed) > 0 || lock(&inode.bytes).handles > 0;
        if !is_used && !lock(&self.dirty).contains(&ino) {
            let dropped = known.remove(&ino);
            drop(known);
            // Its file is closed here, not under the lock.
            drop(dropped);
        }
    }

    /// It has bytes that are in no commit. How many have.
    pub(crate) fn is_dirty(&self, ino: Ino) -> usize {
        let mut dirty = lock(&self.dirty);
        dirty.insert(ino);
        dirty.len()
    }

    /// Those with bytes that are in no commit.
    pub(crate) fn dirty(&self) -> Vec<Ino> {
        let mut dirty: Vec<_> = lock(&self.dirty).iter().copied().collect();
        dirty.sort_unstable();
        dirty
    }

    /// One less has it open.
    pub(crate) fn closed(&self, inode: &Arc<Inode>) {
        let mut bytes = lock(&inode.bytes);
        bytes.handles -= 1;
        // Asked here: who closed it just before may have written to it.
        let is_dirty = lock(&self.dirty).contains(&inode.ino);
        let closed = match bytes.handles == 0 && !is_dirty {
            true => bytes.file.take(),
            false => None,
        };
        drop(bytes);
        drop(closed);
        self.drop_unused(inode.ino);
    }

    /// A commit has the bytes of all. Nothing changes meanwhile.
    pub(crate) fn committed(&self) {
        let clean = std::mem::take(&mut *lock(&self.dirty));
        for ino in clean {
            let inode = lock(&self.known).get(&ino).cloned();
            if let Some(inode) = inode {
                let mut bytes = lock(&inode.bytes);
                let closed = match bytes.handles {
                    0 => bytes.file.take(),
                    _ => None,
                };
                drop(bytes);
                drop(closed);
            }
            self.drop_unused(ino);
        }
    }

    /// Its node is gone.
    pub(crate) fn discard(&self, ino: Ino) {
        lock(&self.dirty).remove(&ino);
        let gone = lock(&self.known).remove(&ino);
        if let Some(inode) = gone {
            inode.discard();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use millpond::{PageCache, device};
    use millpond_volumes::{StoreOptions, Volumes};
    use shuttle::thread;

    const INO: Ino = 7;

    #[test]
    fn a_lookup_beside_a_forget_is_counted() {
        let act = || {
            let inodes = Arc::new(Inodes::default());
            inodes.looked_up(INO);
            let other = inodes.clone();
            let forgets = thread::spawn(move || other.forget(INO, 1));
            inodes.looked_up(INO);
            forgets.join().unwrap();
            assert!(inodes.is_known(INO), "told of it twice, it forgot it once");
        };
        shuttle::check_dfs(act, None);
    }

    #[test]
    fn of_two_closes_beside_one_another_neither_gives_up_what_no_commit_has() {
        let volumes = Volumes::new(device::best()).unwrap();
        let builder = PageCache::builder().memory(16 << 20).device(volumes.clone());
        let cache = builder.build().unwrap();
        let store = volumes.store(&cache, "memory://closes", StoreOptions::new());
        let file = Arc::new(store.unwrap().create("a").unwrap());
        let act = move || {
            let inodes = Arc::new(Inodes::default());
            inodes.looked_up(INO);
            let inode = inodes.get(INO);
            inode.opened();
            inode.opened();
            lock(&inode.bytes).file = Some(file.clone());
            let (others, other) = (inodes.clone(), inode.clone());
            let writes = thread::spawn(move || {
                others.is_dirty(INO);
                others.closed(&other);
            });
            inodes.closed(&inode);
            writes.join().unwrap();
            assert!(inode.len().is_some(), "its bytes are in no commit");
        };
        shuttle::check_dfs(act, None);
    }
}
