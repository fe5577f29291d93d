//! The parts of a file that its mappings have covered, for the budget: page states take memory where pages were used.

use std::ops::Range;

/// The number of pages whose states fill one page of memory.
pub(crate) const BLOCK: u64 = 1024;
/// The memory of their states.
pub(crate) const BLOCK_BYTES: u64 = BLOCK * 4;

/// Parts of a file, by blocks of pages.
#[derive(Default)]
pub(crate) struct Covered(Vec<Range<u64>>);

impl Covered {
    /// Returns these parts with `pages` added.
    pub(crate) fn with(&self, pages: &Range<u64>) -> Covered {
        let new = pages.start / BLOCK..pages.end.div_ceil(BLOCK);
        let mut all: Vec<_> = self.0.iter().cloned().chain([new]).collect();
        all.sort_unstable_by_key(|part| part.start);
        let mut parts: Vec<Range<u64>> = Vec::with_capacity(all.len());
        for part in all {
            match parts.last_mut() {
                Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
                _ => parts.push(part),
            }
        }
        Covered(parts)
    }

    /// Returns the memory that the states of these pages take.
    pub(crate) fn bytes(&self) -> u64 {
        self.0
            .iter()
            .map(|part| (part.end - part.start) * BLOCK_BYTES)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_costs_once_however_often_it_is_covered() {
        let mut covered = Covered::default();
        for (pages, blocks) in [
            (5000..5001, 1),
            (5000..5100, 1),
            (0..1, 2),
            (1 << 30..(1 << 30) + 2048, 4),
            (1023..1025, 5),
            (2048..4096, 7),
            (0..10_000, 12),
        ] {
            covered = covered.with(&pages);
            assert_eq!(covered.bytes(), blocks * 4096, "{pages:?}");
        }
    }
}
