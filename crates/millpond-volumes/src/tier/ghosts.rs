//! Remembers pages that have no slot of a disk tier, and says which of them are used again.

use crate::mutation::{Mutation, is};

/// The hash of a page's place and checksum, never 0.
///
/// The place tells pages apart. The checksum tells a page from that of a store that was made anew in the same place. A
/// reader still compares the bytes in a slot with the page's checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PageHash(pub(super) u64);

/// Uses of a page within this many misses count as one (LRU-K's correlated references): callers with small buffers, and
/// caches with smaller pages, read a page in parts. 64 pages of 64 KiB are a chunk. A tier of more than 4096 slots takes
/// a 64th of them, so that many scans at a time do not look like a second use.
const CORRELATED: u32 = 64;

/// As many as a cache line takes.
pub(super) const BUCKET_GHOSTS: usize = 8;

/// Pages without a slot: a part of each page's hash, 0 for none, and the miss at which the page was seen.
type Bucket = [(u32, u32); BUCKET_GHOSTS];

/// Pages that were missed or replaced, twice as many as there are slots. The oldest of a full bucket goes. With room for
/// only as many as there are slots, a loop over them would be forgotten in every bucket that has one too many.
#[derive(Debug)]
pub(super) struct Ghosts {
    buckets: Vec<Bucket>,
    /// Misses. It may wrap: only differences count.
    now: u32,
    reach: u32,
    /// [`CORRELATED`] for this many slots.
    correlated: u32,
}

impl Ghosts {
    pub(super) fn new(slots: usize) -> Ghosts {
        let reach = slots as u32;
        Ghosts {
            buckets: vec![[(0, 0); BUCKET_GHOSTS]; (2 * slots).div_ceil(BUCKET_GHOSTS)],
            now: 0,
            reach,
            correlated: CORRELATED.max(reach / 64).min(reach / 4),
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.buckets.capacity() * size_of::<Bucket>()) as u64
    }

    /// The page's bucket, and its mark there.
    fn of(&self, page: PageHash) -> (usize, u32) {
        let (high, low) = ((page.0 >> 32) as u32, page.0 as u32);
        let bucket = (u64::from(low) * self.buckets.len() as u64) >> 32;
        (bucket as usize, high.max(1))
    }

    /// When the page was seen.
    fn seen(&self, page: PageHash) -> Option<u32> {
        let (bucket, mark) = self.of(page);
        let ghost = self.buckets[bucket].iter().find(|ghost| ghost.0 == mark);
        ghost.map(|ghost| ghost.1)
    }

    pub(super) fn has(&self, page: PageHash) -> bool {
        self.seen(page).is_some()
    }

    pub(super) fn remember(&mut self, page: PageHash) {
        let (now, (bucket, mark)) = (self.now, self.of(page));
        let age = |ghost: &&mut (u32, u32)| match ghost.0 {
            of if of == mark => u64::MAX,
            0 => u64::from(u32::MAX) + 1,
            _ => u64::from(now.wrapping_sub(ghost.1)),
        };
        if let Some(ghost) = self.buckets[bucket].iter_mut().max_by_key(age) {
            *ghost = (mark, now);
        }
    }

    pub(super) fn forget(&mut self, page: PageHash) {
        let (bucket, mark) = self.of(page);
        if let Some(ghost) = self.buckets[bucket].iter_mut().find(|ghost| ghost.0 == mark) {
            *ghost = (0, 0);
        }
    }

    /// Counts a miss. Whether the page was seen before, within reach but not just now.
    pub(super) fn used_again(&mut self, page: PageHash) -> bool {
        self.now = self.now.wrapping_add(1);
        let distance = self.seen(page).map(|seen| self.now.wrapping_sub(seen));
        // The first of several uses that count as one stays the first.
        if distance.is_some_and(|distance| distance <= self.correlated) {
            return false;
        }
        self.remember(page);
        distance.is_some_and(|distance| distance <= self.reach || is(Mutation::TierReachIgnored))
    }
}
