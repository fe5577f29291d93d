//! Files that nobody has open, but whose data stay in the cache: the next one who opens them finds them there.
//!
//! Each of them costs descriptors, so there is a limit; the one that was closed longest ago goes first. A queue of
//! (file, turn): a file that was opened again since has another turn, and its old entry means nothing. Nor does it keep a file
//! that was let go of, whose descriptor would keep the blocks of one that was removed.

use crate::inode::Node;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub(crate) struct Idle {
    queue: Mutex<VecDeque<Closed>>,
    count_max: usize,
}

struct Closed {
    node: Weak<Node>,
    turn: u64,
    since: Instant,
    is_settled: bool,
}

impl Closed {
    /// The file, if nobody has opened it since and its data are still there.
    fn still(&self) -> Option<Arc<Node>> {
        let node = self.node.upgrade()?;
        let data = node.data.lock();
        let is_still = data.opens == 0 && data.turn == self.turn && data.content.is_some();
        drop(data);
        is_still.then_some(node)
    }
}

impl Idle {
    pub(crate) fn new(count_max: usize) -> Idle {
        Idle {
            queue: Mutex::default(),
            count_max,
        }
    }

    /// Nobody has the file open since `turn`. What is to be let go of instead, if there are too many.
    pub(crate) fn add(&self, node: &Arc<Node>, turn: u64) -> Option<Arc<Node>> {
        let mut queue = self.queue.lock();
        queue.push_back(Closed {
            node: Arc::downgrade(node),
            turn,
            since: Instant::now(),
            is_settled: false,
        });
        // Two entries for each file at most, before those that mean nothing are thrown out.
        if queue.len() > 2 * self.count_max {
            queue.retain(|closed| closed.still().is_some());
        }
        while queue.len() > self.count_max {
            let first = queue.pop_front()?;
            if let Some(node) = first.still() {
                return Some(node);
            }
        }
        None
    }

    /// Files that were closed longer ago than `age`, each of them given once.
    pub(crate) fn since(&self, age: Duration) -> Vec<Arc<Node>> {
        let mut queue = self.queue.lock();
        let due = queue
            .iter_mut()
            .take_while(|closed| closed.since.elapsed() >= age);
        let mut found = Vec::new();
        for closed in due.filter(|closed| !closed.is_settled) {
            closed.is_settled = true;
            found.extend(closed.still());
        }
        found
    }
}
