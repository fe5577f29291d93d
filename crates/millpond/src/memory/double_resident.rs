//! The double-resident pages of regions, in the order in which they became so.
//!
//! ```text
//!   new    ◄─ was read, and is write-protected   its turn comes when there are too many
//!   old    ◄─ the others, or written meanwhile   as soon as there is a batch
//!   met    ◄─ the core wants to see their uses   as soon as there is a batch
//! ```
//!
//! A queue may hold pages that are no longer double-resident, or a page twice: that is checked when the page's turn comes.
//! `driver/double_resident.rs` then takes one of its memories.

use millpond_core::units::{PageCount, PageKey};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// One in this many of a cache's frames may have a second memory, and at most `MOST`: four batches of new pages, one of old
/// ones, and one whose second memories are being freed. Each further thread that frees some adds a batch.
const SHARE: u64 = 80;
const MOST: u64 = 6 * BATCH_MAX;
/// A batch is one frame in this many, and at most `BATCH_MAX`: at that size the work done once per batch is a tenth of the
/// whole.
const BATCH_SHARE: u64 = 1024;
const BATCH_MAX: u64 = 32;

/// The memory that second copies take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DoubleResidentBytes {
    /// A frame's share.
    pub(crate) frame: u64,
    /// The maximum for all frames.
    pub(crate) most: u64,
}

impl DoubleResidentBytes {
    /// For regions with pages of this many bytes.
    pub(crate) fn of(page_bytes: u64) -> DoubleResidentBytes {
        DoubleResidentBytes {
            frame: page_bytes.div_ceil(SHARE),
            most: MOST * page_bytes,
        }
    }
}

/// The queues.
pub(crate) struct DoubleResident(Mutex<Lines>);

struct Lines {
    /// The number in `new` and `old` together.
    most: usize,
    batch: usize,
    new: VecDeque<PageKey>,
    old: Vec<PageKey>,
    met: Vec<PageKey>,
}

impl DoubleResident {
    pub(crate) fn new() -> DoubleResident {
        DoubleResident(Mutex::new(Lines {
            most: 1,
            batch: 1,
            new: VecDeque::new(),
            old: Vec::new(),
            met: Vec::new(),
        }))
    }

    /// Sets the number of frames.
    pub(crate) fn fit(&self, frames: PageCount) {
        let lines = &mut *self.0.lock();
        lines.most = (frames.0 / SHARE).clamp(1, MOST) as usize;
        lines.batch = (frames.0 / BATCH_SHARE).clamp(1, BATCH_MAX) as usize;
        lines.met.reserve(2 * BATCH_MAX as usize);
    }

    /// Returns how many pages may come with one that was touched, all double-resident: a twelfth of those allowed, 16 at most.
    /// Of more, the first would lose a memory to the last before the thread touches it.
    pub(crate) fn together(&self) -> u64 {
        self.0.lock().most as u64 / 12
    }

    /// Queues a page that has become double-resident, as new or old. Returns the pages whose turn it is, never a new one just
    /// queued.
    pub(crate) fn enqueue(&self, key: PageKey, is_new: bool) -> Vec<PageKey> {
        let Lines {
            most,
            batch,
            new,
            old,
            ..
        } = &mut *self.0.lock();
        match is_new {
            true => {
                let is_due = new.len() + 2 * *batch >= *most;
                let due = if is_due { new.len().min(*batch) } else { 0 };
                let due = new.drain(..due).collect();
                new.push_back(key);
                due
            }
            false => {
                old.push(key);
                let due = if old.len() >= *batch { old.len() } else { 0 };
                old.drain(..due).collect()
            }
        }
    }

    /// Queues a page again whose turn came while another thread had it in hand.
    pub(crate) fn enqueue_again(&self, key: PageKey) {
        self.0.lock().old.push(key);
    }

    /// Queues pages whose uses the core wants to see. Afterwards `keys` has the pages whose turn it is.
    pub(crate) fn enqueue_sampled(&self, keys: &mut Vec<PageKey>) {
        let Lines { batch, met, .. } = &mut *self.0.lock();
        met.append(keys);
        if met.len() >= *batch {
            std::mem::swap(met, keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_core::units::{FileId, PageIndex};

    fn key(n: u64) -> PageKey {
        PageKey::new(FileId(1), PageIndex(n))
    }

    #[test]
    fn new_ones_wait_until_one_frame_in_80_has_two_memories_and_old_ones_until_there_is_a_batch() {
        let doubles = DoubleResident::new();
        doubles.fit(PageCount(8192));
        let count = |is_new: bool| move |n| (n, is_new);
        let enter = |(n, is_new): (u64, bool)| doubles.enqueue(key(n), is_new).len();
        let new: Vec<_> = (0..300).map(count(true)).map(enter).collect();
        // 102, less the 8 of a batch of old ones, and 8 that are being parted.
        assert!(new[..86].iter().all(|&due| due == 0), "{new:?}");
        assert_eq!((new[86], new[87], new.iter().sum::<usize>()), (8, 0, 216));
        let old: Vec<_> = (0..16).map(count(false)).map(enter).collect();
        assert_eq!(old, [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8]);
        let due: Vec<_> = (300..308).flat_map(|n| doubles.enqueue(key(n), true)).collect();
        assert_eq!(due, (216..224).map(key).collect::<Vec<_>>(), "the oldest first");
    }

    #[test]
    fn in_a_large_pool_no_more_have_two_memories_than_batches_ask_for() {
        let doubles = DoubleResident::new();
        doubles.fit(PageCount(1 << 20));
        assert_eq!(doubles.together(), 16);
        let due: Vec<_> = (0..200).map(|n| doubles.enqueue(key(n), true).len()).collect();
        let first = due.iter().position(|&due| due > 0);
        assert_eq!((first, due.iter().sum::<usize>()), (Some(128), 96));
    }

    #[test]
    fn in_the_smallest_pool_a_new_one_stays_until_the_next_comes_and_an_old_one_takes_its_turn_at_once() {
        let doubles = DoubleResident::new();
        doubles.fit(PageCount(64));
        assert_eq!(doubles.together(), 0);
        assert_eq!(doubles.enqueue(key(1), true), []);
        assert_eq!(doubles.enqueue(key(3), true), [key(1)]);
        assert_eq!(doubles.enqueue(key(1), false), [key(1)]);
        let mut met = vec![key(2)];
        doubles.enqueue_sampled(&mut met);
        assert_eq!(met, [key(2)]);
    }

    #[test]
    fn uses_are_seen_a_batch_at_a_time() {
        let doubles = DoubleResident::new();
        doubles.fit(PageCount(4096));
        let mut met: Vec<_> = (0..3).map(key).collect();
        doubles.enqueue_sampled(&mut met);
        assert!(met.is_empty());
        met.push(key(3));
        doubles.enqueue_sampled(&mut met);
        assert_eq!(met, [0, 1, 2, 3].map(key));
        doubles.enqueue_sampled(&mut met);
        assert_eq!(met.len(), 4, "none of them twice");
    }
}
