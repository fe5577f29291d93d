//! Closed files whose data stay in the cache, where the next open finds them.
//!
//! Each of them costs descriptors, so their number is limited; the one closed longest ago is evicted first. The queue
//! holds (inode, generation) pairs: a file that was reopened has another generation, and its old entry is ignored. An
//! entry does not keep an evicted inode alive, whose descriptor would keep the blocks of a removed file.

use super::Inode;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub(crate) struct ClosedInodes {
    queue: Mutex<VecDeque<Closed>>,
    count_max: usize,
}

struct Closed {
    inode: Weak<Inode>,
    generation: u64,
    since: Instant,
    /// [`ClosedInodes::older_than`] has given it.
    was_given: bool,
}

impl Closed {
    /// The inode, if it was not opened since and its data are still there.
    fn still_closed(&self) -> Option<Arc<Inode>> {
        let inode = self.inode.upgrade()?;
        let data = inode.data.lock();
        let is_closed = data.opens == 0 && data.generation == self.generation && data.content.is_some();
        drop(data);
        is_closed.then_some(inode)
    }
}

impl ClosedInodes {
    pub(crate) fn new(count_max: usize) -> ClosedInodes {
        ClosedInodes {
            queue: Mutex::default(),
            count_max,
        }
    }

    /// The file was closed in this generation. If there are too many now: the one to be evicted.
    pub(crate) fn add(&self, inode: &Arc<Inode>, generation: u64) -> Option<Arc<Inode>> {
        let mut queue = self.queue.lock();
        queue.push_back(Closed {
            inode: Arc::downgrade(inode),
            generation,
            since: Instant::now(),
            was_given: false,
        });
        // Two entries for each file at most, before those that mean nothing are thrown out.
        if queue.len() > 2 * self.count_max {
            queue.retain(|closed| closed.still_closed().is_some());
        }
        while queue.len() > self.count_max {
            let oldest = queue.pop_front()?;
            if let Some(inode) = oldest.still_closed() {
                return Some(inode);
            }
        }
        None
    }

    /// Files that were closed longer ago than `age`, each of them given once.
    pub(crate) fn older_than(&self, age: Duration) -> Vec<Arc<Inode>> {
        let mut queue = self.queue.lock();
        let old = queue
            .iter_mut()
            .take_while(|closed| closed.since.elapsed() >= age);
        let mut found = Vec::new();
        for closed in old.filter(|closed| !closed.was_given) {
            closed.was_given = true;
            found.extend(closed.still_closed());
        }
        found
    }
}
