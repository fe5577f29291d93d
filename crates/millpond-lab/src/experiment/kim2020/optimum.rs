//! The bound of every policy: Belady's optimum, which knows the future; and least recently used, for comparison.
//!
//! The optimum may let the very page go that was just used, if that is used last of all: a bound, not a policy.

use std::collections::BinaryHeap;

/// Pages that come back missing from use `from` on, with memory for `frames`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Misses {
    /// The optimum's.
    pub(super) optimum: u64,
    /// Least recently used.
    pub(super) lru: u64,
}

/// A page that was never in memory is not a miss: it is new.
pub(super) fn misses(uses: &[u32], from: usize, frames: u64) -> Misses {
    Misses {
        optimum: optimum(uses, from, frames),
        lru: lru(uses, from, frames),
    }
}

fn pages_of(uses: &[u32]) -> usize {
    uses.iter().max().map_or(0, |&last| last as usize + 1)
}

fn optimum(uses: &[u32], from: usize, frames: u64) -> u64 {
    let pages = pages_of(uses);
    // when each use's page is used next
    let mut next = vec![u32::MAX; uses.len()];
    let mut seen = vec![u32::MAX; pages];
    for (n, &page) in uses.iter().enumerate().rev() {
        next[n] = std::mem::replace(&mut seen[page as usize], n as u32);
    }
    let mut known = vec![false; pages];
    // what a page in memory is used next at; `None`: it is not there
    let mut inside: Vec<Option<u32>> = vec![None; pages];
    let (mut len, mut misses) = (0, 0);
    let mut heap: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    for (n, &page) in uses.iter().enumerate() {
        let slot = page as usize;
        if inside[slot].is_none() {
            misses += u64::from(n >= from && known[slot]);
            len += 1;
        }
        known[slot] = true;
        inside[slot] = Some(next[n]);
        heap.push((next[n], page));
        while len > frames {
            let Some((at, victim)) = heap.pop() else {
                break;
            };
            if inside[victim as usize] == Some(at) {
                inside[victim as usize] = None;
                len -= 1;
            }
        }
    }
    misses
}

fn lru(uses: &[u32], from: usize, frames: u64) -> u64 {
    use millpond_core::list::Lists;
    use millpond_core::units::FrameNo;
    let pages = pages_of(uses);
    let mut list = Lists::<1>::new(pages);
    let (mut inside, mut known) = (vec![false; pages], vec![false; pages]);
    let mut misses = 0;
    for (n, &page) in uses.iter().enumerate() {
        let slot = page as usize;
        if inside[slot] {
            list.remove(0, FrameNo(page));
        } else {
            misses += u64::from(n >= from && known[slot]);
            if list.len(0) == frames
                && let Some(victim) = list.pop_cold(0)
            {
                inside[victim.index()] = false;
            }
        }
        (inside[slot], known[slot]) = (true, true);
        list.push_warm(0, FrameNo(page));
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_longer_than_memory_misses_always_or_as_little_as_can_be() {
        let uses: Vec<u32> = (0..100).map(|n| n % 4).collect();
        let misses = misses(&uses, 4, 3);
        assert_eq!(misses.lru, 96);
        assert_eq!(misses.optimum, 24, "one of the four, which is let go at once");
    }

    #[test]
    fn a_set_that_fits_never_misses() {
        let uses: Vec<u32> = (0..100).map(|n| n * 7 % 10).collect();
        assert_eq!(misses(&uses, 10, 10), Misses::default());
    }
}
