//! What to hold a policy against: one list in order of last use, and the optimum that knows the future (Belady 1966).
//!
//! Both take one page at a time and read nothing ahead. A page that is overwritten whole comes in without a miss; as the
//! optimum chooses without looking at that, it is the least only of loads that read.

use std::collections::{BTreeMap, BinaryHeap};

/// Misses of the optimum with room for `frames` pages.
pub(super) fn optimum(uses: &[(u32, bool)], frames: u64) -> u64 {
    let pages = uses.iter().map(|&(page, _)| page as usize + 1).max().unwrap_or(0);
    // When each use's page is used next.
    let mut next = vec![u32::MAX; uses.len()];
    let mut seen = vec![u32::MAX; pages];
    for (at, &(page, _)) in uses.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut seen[page as usize], at as u32);
    }
    // Of each page that is there, when it is used next.
    let mut there: Vec<Option<u32>> = vec![None; pages];
    let (mut count, mut misses) = (0, 0);
    let mut by_next = BinaryHeap::new();
    for (at, &(page, is_needed)) in uses.iter().enumerate() {
        if there[page as usize].is_none() {
            misses += u64::from(is_needed);
            while count >= frames
                && let Some((at, victim)) = by_next.pop()
            {
                // What is in the heap of earlier uses is no more.
                if there[victim as usize] == Some(at) {
                    there[victim as usize] = None;
                    count -= 1;
                }
            }
            count += 1;
        }
        there[page as usize] = Some(next[at]);
        by_next.push((next[at], page));
    }
    misses
}

/// Misses of one list in order of last use.
pub(super) fn lru(uses: &[(u32, bool)], frames: u64) -> u64 {
    let (mut used_at, mut by_use, mut misses) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (at, &(page, is_needed)) in uses.iter().enumerate() {
        match used_at.insert(page, at) {
            Some(before) => {
                by_use.remove(&before);
            }
            None => {
                misses += u64::from(is_needed);
                if by_use.len() as u64 == frames
                    && let Some((_, victim)) = by_use.pop_first()
                {
                    used_at.remove(&victim);
                }
            }
        }
        by_use.insert(at, page);
    }
    misses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(pages: impl IntoIterator<Item = u32>) -> Vec<(u32, bool)> {
        pages.into_iter().map(|page| (page, true)).collect()
    }

    #[test]
    fn a_loop_longer_than_memory_misses_always_or_as_little_as_can_be() {
        let uses = reads((0..100).map(|n| n % 4));
        assert_eq!(lru(&uses, 3), 100);
        // 0 1 2 come in, 3 takes 2's place; from then on every third read misses.
        assert_eq!(optimum(&uses, 3), 4 + 96 / 3);
        assert_eq!((lru(&uses, 4), optimum(&uses, 4)), (4, 4));
    }

    #[test]
    fn the_optimum_keeps_what_is_used_sooner() {
        // With room for two: 1 and 2 come in, 3 takes the place of 2 as 1 is used sooner, 2 that of any other.
        let uses = reads([1, 2, 3, 1, 2]);
        assert_eq!(optimum(&uses, 2), 4);
        assert_eq!(lru(&uses, 2), 5);
    }

    #[test]
    fn a_page_that_is_overwritten_whole_is_no_miss() {
        let uses = [(0, false), (0, true), (1, true), (0, true)];
        assert_eq!((lru(&uses, 1), optimum(&uses, 1)), (2, 2));
        assert_eq!((lru(&uses, 2), optimum(&uses, 2)), (1, 1));
    }
}
