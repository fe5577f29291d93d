//! The shared memory of a WAL: its index, in memory of the process, and the eight locks on it.
//!
//! With SQLite's own VFS this is a mapped file, `data.db-shm`, that processes share. Here one process has the database, so
//! it is memory of its own, and no such file is made. It begins as zeros, from which SQLite recovers the index by reading the
//! WAL.

use crate::locks::Busy;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// `SQLITE_SHM_NLOCK`.
pub(crate) const LOCKS: usize = 8;

/// Of these a transaction has one, shared: `WAL_READ_LOCK`.
pub(crate) const READ_LOCKS: Range<usize> = 3..LOCKS;

/// The locks that a connection has.
#[derive(Default, Debug)]
pub(crate) struct Held {
    shared: [bool; LOCKS],
    exclusive: [bool; LOCKS],
}

impl Held {
    /// Whether the connection is in a transaction.
    pub(crate) fn reads(&self) -> bool {
        self.shared[READ_LOCKS].contains(&true)
    }
}

/// For all connections to a database.
#[derive(Default)]
pub(crate) struct Shm {
    /// Never moved, and kept until the last connection has let go of all. Words that SQLite reads and writes by its own
    /// rules.
    regions: Vec<Box<[AtomicU64]>>,
    /// Connections with a lock for sharing; -1: one alone.
    locks: [i32; LOCKS],
    /// Connections that have mapped it.
    users: usize,
}

impl Shm {
    pub(crate) fn enter(&mut self) {
        self.users += 1;
    }

    /// A connection needs it no more.
    pub(crate) fn leave(&mut self, held: &mut Held) {
        self.unlock(held, 0..LOCKS);
        self.users -= 1;
        if self.users == 0 {
            self.regions.clear();
        }
    }

    /// The address of region number `index`, of `bytes`; `None` if it does not exist and is not to be made.
    pub(crate) fn region(&mut self, index: usize, bytes: usize, make: bool) -> Option<*mut c_void> {
        while make && self.regions.len() <= index {
            let words = std::iter::repeat_with(AtomicU64::default).take(bytes.div_ceil(8));
            self.regions.push(words.collect());
        }
        let region = self.regions.get(index)?;
        Some(region.as_ptr().cast::<c_void>().cast_mut())
    }

    /// Makes it zeros again: SQLite recovers the index before it reads anything else. Of a connection that is alone with it.
    pub(crate) fn forget(&self) {
        for word in self.regions.iter().flatten() {
            word.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn unlock(&mut self, held: &mut Held, locks: Range<usize>) {
        for n in locks {
            if std::mem::take(&mut held.exclusive[n]) {
                self.locks[n] = 0;
            } else if std::mem::take(&mut held.shared[n]) {
                self.locks[n] -= 1;
            }
        }
    }

    /// # Errors
    /// [`Busy`], with none of them taken.
    pub(crate) fn lock_shared(&mut self, held: &mut Held, locks: Range<usize>) -> Result<(), Busy> {
        if locks.clone().any(|n| self.locks[n] < 0 && !held.exclusive[n]) {
            return Err(Busy);
        }
        for n in locks {
            if !held.shared[n] && !held.exclusive[n] {
                held.shared[n] = true;
                self.locks[n] += 1;
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Busy`], with none of them taken.
    pub(crate) fn lock_exclusive(&mut self, held: &mut Held, locks: Range<usize>) -> Result<(), Busy> {
        if locks.clone().any(|n| self.locks[n] != 0 && !held.exclusive[n]) {
            return Err(Busy);
        }
        for n in locks {
            held.exclusive[n] = true;
            self.locks[n] = -1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_shared_by_many_or_had_by_one_and_goes_with_its_connection() {
        let (mut shm, mut a, mut b) = (Shm::default(), Held::default(), Held::default());
        shm.enter();
        shm.enter();
        assert_eq!(shm.lock_shared(&mut a, 3..4), Ok(()));
        assert_eq!(shm.lock_shared(&mut b, 3..4), Ok(()));
        assert_eq!(shm.lock_exclusive(&mut b, 2..5), Err(Busy));
        assert_eq!(shm.locks, [0, 0, 0, 2, 0, 0, 0, 0]);
        shm.unlock(&mut b, 3..4);
        assert_eq!(shm.lock_exclusive(&mut b, 3..4), Err(Busy), "of another");
        assert_eq!(shm.lock_exclusive(&mut b, 0..3), Ok(()));
        assert_eq!(shm.lock_shared(&mut a, 2..3), Err(Busy));
        shm.leave(&mut b);
        assert_eq!(shm.lock_exclusive(&mut a, 0..3), Ok(()));
        shm.leave(&mut a);
        assert_eq!(shm.locks, [0; LOCKS]);
    }

    #[test]
    fn a_region_is_zeros_and_stays_where_it_is() {
        let mut shm = Shm::default();
        shm.enter();
        assert_eq!(shm.region(0, 32768, false), None);
        let first = shm.region(0, 32768, true);
        assert!(first.is_some() && shm.region(9, 32768, true).is_some());
        assert_eq!(shm.region(0, 32768, false), first);
        shm.leave(&mut Held::default());
        assert_eq!(shm.region(0, 32768, false), None, "nothing is left for the next");
    }
}
