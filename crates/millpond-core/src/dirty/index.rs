//! The dirty pages of a file, so that one write takes neighbors together.
//!
//! A map from runs of 64 pages to bitmaps: 16 bytes for each run that holds a dirty page, whatever the file's length.
//! The next dirty page in file order takes one lookup.

use crate::units::PageIndex;
use alloc::collections::BTreeMap;

/// A set of page numbers, in order.
#[derive(Clone, Debug, Default)]
pub struct PageSet {
    runs: BTreeMap<u64, u64>,
    len: u64,
}

impl PageSet {
    /// How many pages are in the set.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a page; `false` if it was there.
    pub fn insert(&mut self, page: PageIndex) -> bool {
        let bits = self.runs.entry(page.0 / 64).or_insert(0);
        let bit = 1 << (page.0 % 64);
        let new = *bits & bit == 0;
        *bits |= bit;
        self.len += u64::from(new);
        new
    }

    /// Takes a page out; `false` if it was not there.
    pub fn remove(&mut self, page: PageIndex) -> bool {
        let Some(bits) = self.runs.get_mut(&(page.0 / 64)) else {
            return false;
        };
        let bit = 1 << (page.0 % 64);
        let there = *bits & bit != 0;
        *bits &= !bit;
        if *bits == 0 {
            self.runs.remove(&(page.0 / 64));
        }
        self.len -= u64::from(there);
        there
    }

    /// Whether `page` is in the set.
    pub fn contains(&self, page: PageIndex) -> bool {
        self.runs
            .get(&(page.0 / 64))
            .is_some_and(|bits| bits >> (page.0 % 64) & 1 != 0)
    }

    /// The first page of the set at or after `from`.
    pub fn next(&self, from: PageIndex) -> Option<PageIndex> {
        let first = from.0 / 64;
        self.runs.range(first..).find_map(|(&run, &bits)| {
            let bits = if run == first {
                bits & (u64::MAX << (from.0 % 64))
            } else {
                bits
            };
            (bits != 0).then(|| PageIndex(run * 64 + u64::from(bits.trailing_zeros())))
        })
    }

    /// How many pages from `from` on are in the set without a gap, at most `max`.
    pub fn contiguous(&self, from: PageIndex, max: u64) -> u64 {
        let mut len = 0;
        while len < max {
            let at = from.0 + len;
            let Some(bits) = self.runs.get(&(at / 64)) else {
                break;
            };
            let ones = u64::from((bits >> (at % 64)).trailing_ones());
            len += ones;
            if ones < 64 - at % 64 {
                break;
            }
        }
        len.min(max)
    }

    /// How many pages right before `page` are in the set without a gap, at most `max`.
    pub fn contiguous_before(&self, page: PageIndex, max: u64) -> u64 {
        let mut len = 0;
        while len < max.min(page.0) {
            let last = page.0 - len - 1;
            let Some(bits) = self.runs.get(&(last / 64)) else {
                break;
            };
            let ones = u64::from((bits << (63 - last % 64)).leading_ones());
            len += ones;
            if ones < last % 64 + 1 {
                break;
            }
        }
        len.min(max)
    }

    /// Adds all pages of `other`.
    pub fn merge(&mut self, other: &PageSet) {
        for (&run, &more) in &other.runs {
            let bits = self.runs.entry(run).or_insert(0);
            self.len += u64::from((more & !*bits).count_ones());
            *bits |= more;
        }
    }

    /// All pages, in order.
    pub fn iter(&self) -> impl Iterator<Item = PageIndex> {
        self.runs.iter().flat_map(|(&run, &bits)| {
            (0..64)
                .filter(move |n| bits >> n & 1 != 0)
                .map(move |n| PageIndex(run * 64 + n))
        })
    }

    /// Takes out and returns all pages from `from` on.
    pub fn split_off(&mut self, from: PageIndex) -> PageSet {
        let mut tail = PageSet {
            runs: self.runs.split_off(&(from.0 / 64)),
            len: 0,
        };
        if let Some(bits) = tail.runs.get_mut(&(from.0 / 64)) {
            let keep = *bits & !(u64::MAX << (from.0 % 64));
            *bits ^= keep;
            if *bits == 0 {
                tail.runs.remove(&(from.0 / 64));
            }
            if keep != 0 {
                self.runs.insert(from.0 / 64, keep);
            }
        }
        tail.len = tail.runs.values().map(|bits| u64::from(bits.count_ones())).sum();
        self.len -= tail.len;
        tail
    }

    /// Bytes that the set holds, about: a map's node has 11 places and is two thirds full.
    pub fn metadata_bytes(&self) -> u64 {
        self.runs.len() as u64 * 26
    }

    /// Re-derives the length.
    ///
    /// # Panics
    /// If it is wrong or an empty run was kept.
    pub fn validate(&self) {
        assert!(self.runs.values().all(|&bits| bits != 0), "an empty run was kept");
        assert_eq!(
            self.len,
            self.runs
                .values()
                .map(|bits| u64::from(bits.count_ones()))
                .sum::<u64>()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn contiguous_crosses_runs_and_stops_at_gaps() {
        let mut set = PageSet::default();
        for page in (60..200).chain([201]) {
            assert!(set.insert(PageIndex(page)));
        }
        assert!(!set.insert(PageIndex(60)));
        assert_eq!(set.contiguous(PageIndex(60), 1000), 140);
        assert_eq!(set.contiguous(PageIndex(60), 100), 100);
        assert_eq!(set.contiguous(PageIndex(200), 100), 0);
        assert_eq!(set.next(PageIndex(200)), Some(PageIndex(201)));
        assert_eq!(set.next(PageIndex(202)), None);
    }

    #[test]
    fn random_operations_agree_with_a_plain_set() {
        let (mut set, mut model) = (PageSet::default(), BTreeSet::new());
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let page = seed >> 40 & 511;
            match seed >> 61 {
                0..4 => assert_eq!(set.insert(PageIndex(page)), model.insert(page)),
                4..6 => assert_eq!(set.remove(PageIndex(page)), model.remove(&page)),
                6 => assert_eq!(
                    set.next(PageIndex(page)).map(|p| p.0),
                    model.range(page..).next().copied()
                ),
                _ if seed >> 50 & 63 == 0 => {
                    let tail = set.split_off(PageIndex(page));
                    tail.validate();
                    let model_tail = model.split_off(&page);
                    assert!(tail.iter().map(|p| p.0).eq(model_tail.iter().copied()));
                    if seed >> 48 & 1 == 0 {
                        set.merge(&tail);
                        // Once more changes nothing.
                        set.merge(&tail);
                        model.extend(model_tail);
                    }
                }
                _ => {
                    let run = (page..).take_while(|p| model.contains(p)).count() as u64;
                    assert_eq!(set.contiguous(PageIndex(page), 600), run);
                    let run = (0..page).rev().take_while(|p| model.contains(p)).count() as u64;
                    assert_eq!(set.contiguous_before(PageIndex(page), 600), run);
                    assert_eq!(set.contains(PageIndex(page)), model.contains(&page));
                }
            }
            set.validate();
            assert_eq!(set.len(), model.len() as u64);
        }
    }
}
