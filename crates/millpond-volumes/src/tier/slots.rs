//! Decides which pages have a slot of a disk tier.
//!
//! ```text
//!   a fetched page ──► is a slot empty? ── yes ──► it takes the slot
//!                           │ no
//!                           ▼
//!                      was it missed before, at most as many misses ago as there are slots? ── no ──► remembered
//!                           │ yes
//!                           ▼
//!              hand ──► was the page in this slot used since the last lap? ── yes ──► its bit is cleared, the hand moves on
//!                           │ no
//!                           ▼
//!                      it takes the slot; the page that had it is remembered
//! ```
//!
//! A tier fills once. After that, a page is written only when it is used again within the refault distance of a list of
//! as many pages (Linux), and only over a page that was not used (CLOCK). A scan fills empty slots and writes nothing
//! else. A loop over more pages than there are slots keeps those that have one.
//!
//! Memory is 33 bytes a slot, however often pages come and go: 9 here, 8 for the index, 16 for pages without a slot.

use super::ghosts::{Ghosts, PageHash};
use crate::mutation::{Mutation, is};

/// The number of a slot.
pub(super) type Slot = u32;

/// An empty slot.
pub(super) const NO_PAGE: u64 = 0;
/// The end of a chain.
const NO_SLOT: Slot = Slot::MAX;

/// The page was used since the hand passed.
const USED: u8 = 1;
/// The page's bytes are queued for the disk.
const COMING: u8 = 2;

#[derive(Debug)]
pub(super) struct Slots {
    pages: Vec<u64>,
    flags: Vec<u8>,
    index: Index,
    empty: u32,
    hand: Slot,
    ghosts: Ghosts,
}

impl Slots {
    /// Slots that have these pages; there is at least one.
    pub(super) fn new(pages: Vec<u64>) -> Slots {
        let count = pages.len();
        let mut slots = Slots {
            flags: vec![0; count],
            index: Index::new(count),
            empty: count as u32,
            hand: 0,
            ghosts: Ghosts::new(count),
            pages,
        };
        for slot in 0..count {
            let page = std::mem::replace(&mut slots.pages[slot], NO_PAGE);
            // Two slots with one page have the same bytes: the first will do.
            if page != NO_PAGE && slots.slot_of(PageHash(page)).is_none() {
                slots.put(slot as Slot, PageHash(page));
            }
        }
        slots
    }

    pub(super) fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Slots that have a page.
    pub(super) fn used(&self) -> u32 {
        self.len() - self.empty
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let index = (self.index.first.capacity() + self.index.next.capacity()) * size_of::<Slot>();
        let own = self.pages.capacity() * size_of::<u64>() + self.flags.capacity();
        (own + index) as u64 + self.ghosts.memory_bytes()
    }

    /// The pages in a range of slots, which may go beyond the last one.
    pub(super) fn pages(&self, slots: std::ops::Range<usize>) -> &[u64] {
        &self.pages[slots.start..slots.end.min(self.pages.len())]
    }

    fn slot_of(&self, page: PageHash) -> Option<Slot> {
        self.index
            .chain(page)
            .find(|slot| self.pages[*slot as usize] == page.0)
    }

    /// The slot that has a page's bytes. Counts as a use of the page.
    pub(super) fn find(&mut self, page: PageHash) -> Option<Slot> {
        let slot = self.slot_of(page)?;
        let flags = &mut self.flags[slot as usize];
        let is_here = *flags & COMING == 0 || is(Mutation::TierComingRead);
        *flags |= USED;
        is_here.then_some(slot)
    }

    /// Whether a fetched page should get a slot; `None` if it has one. Counts as a miss, and as a use of the page.
    pub(super) fn admits(&mut self, page: PageHash) -> Option<bool> {
        if self.slot_of(page).is_some() {
            return None;
        }
        if self.empty > 0 {
            return Some(true);
        }
        let is_again = self.ghosts.used_again(page) || is(Mutation::TierFirstUseAdmitted);
        Some(is_again && self.may_replace())
    }

    /// Whether the slot at the hand is free to be taken. If not, the hand clears its bit and moves on.
    fn may_replace(&mut self) -> bool {
        let flags = &mut self.flags[self.hand as usize];
        let is_idle = *flags == 0 || *flags == USED && is(Mutation::TierUsedReplaced);
        if !is_idle {
            *flags &= !USED;
            self.step();
        }
        is_idle
    }

    fn step(&mut self) {
        self.hand = (self.hand + 1) % self.len();
    }

    /// Gives an admitted page a slot. Returns the slot, and whether another page had it. `None` if others were faster:
    /// the page has a slot, the empty slots are gone, or the slot at the hand is in use.
    pub(super) fn take(&mut self, page: PageHash) -> Option<(Slot, bool)> {
        if self.slot_of(page).is_some() {
            return None;
        }
        if self.empty > 0 {
            while self.pages[self.hand as usize] != NO_PAGE {
                self.step();
            }
        } else if !self.ghosts.has(page) || !self.may_replace() {
            return None;
        }
        let slot = self.hand;
        self.step();
        self.ghosts.forget(page);
        let had = self.pages[slot as usize];
        if had != NO_PAGE {
            self.remove(slot, PageHash(had));
            self.ghosts.remember(PageHash(had));
        }
        self.put(slot, page);
        self.flags[slot as usize] = COMING;
        Some((slot, had != NO_PAGE))
    }

    /// A page's bytes were written to its slot.
    pub(super) fn arrived(&mut self, slot: Slot, page: PageHash) {
        // Another page that got the slot since then is still to come.
        if self.pages[slot as usize] == page.0 {
            self.flags[slot as usize] &= !COMING;
        }
    }

    /// Empties a slot if it still has this page. Returns whether it had.
    pub(super) fn drop_page(&mut self, slot: Slot, page: PageHash) -> bool {
        let has = self.pages[slot as usize] == page.0;
        if has {
            self.remove(slot, page);
        }
        has
    }

    fn put(&mut self, slot: Slot, page: PageHash) {
        self.pages[slot as usize] = page.0;
        self.index.insert(page, slot);
        self.empty -= 1;
    }

    fn remove(&mut self, slot: Slot, page: PageHash) {
        self.index.remove(page, slot);
        self.pages[slot as usize] = NO_PAGE;
        self.flags[slot as usize] = 0;
        self.empty += 1;
    }

    #[cfg(test)]
    pub(super) fn validate(&self) {
        let there = self.pages.iter().filter(|page| **page != NO_PAGE).count();
        assert_eq!(there as u32 + self.empty, self.len());
        let chained = self.index.first.iter().filter(|slot| **slot != NO_SLOT).count();
        assert!(chained <= there);
        assert!(self.hand < self.len());
        for (slot, &page) in self.pages.iter().enumerate() {
            match page {
                NO_PAGE => assert_eq!(self.flags[slot], 0),
                page => assert_eq!(self.slot_of(PageHash(page)), Some(slot as Slot)),
            }
        }
    }
}

/// Slots by page, in chains. A table with open addresses would grow beyond the budget while pages come and go.
#[derive(Debug)]
struct Index {
    /// The first slot of each chain.
    first: Vec<Slot>,
    /// The slot behind each slot.
    next: Vec<Slot>,
}

impl Index {
    fn new(slots: usize) -> Index {
        Index {
            first: vec![NO_SLOT; slots],
            next: vec![NO_SLOT; slots],
        }
    }

    fn bucket(&self, page: PageHash) -> usize {
        (((page.0 >> 32) * self.first.len() as u64) >> 32) as usize
    }

    /// All slots whose pages have this page's bucket.
    fn chain(&self, page: PageHash) -> impl Iterator<Item = Slot> {
        let known = |slot: Slot| (slot != NO_SLOT).then_some(slot);
        std::iter::successors(known(self.first[self.bucket(page)]), move |slot| {
            known(self.next[*slot as usize])
        })
    }

    fn insert(&mut self, page: PageHash, slot: Slot) {
        let bucket = self.bucket(page);
        self.next[slot as usize] = std::mem::replace(&mut self.first[bucket], slot);
    }

    fn remove(&mut self, page: PageHash, slot: Slot) {
        let bucket = self.bucket(page);
        let before = self
            .chain(page)
            .find(|before| self.next[*before as usize] == slot);
        let behind = std::mem::replace(&mut self.next[slot as usize], NO_SLOT);
        let link = match before {
            Some(before) => &mut self.next[before as usize],
            None => &mut self.first[bucket],
        };
        assert_eq!(*link, slot, "slot {slot} is not in its chain");
        *link = behind;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::tier::ghosts::BUCKET_GHOSTS;

    /// Pages by small numbers, with the hashes that real ones have.
    fn page(n: u64) -> PageHash {
        PageHash(xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()))
    }

    /// Reads a page as a tier does. Whether it was there, and whether it was written.
    fn read(slots: &mut Slots, n: u64) -> (bool, bool) {
        if slots.find(page(n)).is_some() {
            return (true, false);
        }
        let is_admitted = slots.admits(page(n)).unwrap();
        if is_admitted {
            let (slot, _) = slots.take(page(n)).unwrap();
            slots.arrived(slot, page(n));
        }
        (false, is_admitted)
    }

    /// Reads pages. How many were there, and how many were written.
    fn reads(slots: &mut Slots, pages: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let done: Vec<_> = pages.into_iter().map(|n| read(slots, n)).collect();
        slots.validate();
        let count = |of: fn(&(bool, bool)) -> bool| done.iter().filter(|done| of(done)).count();
        (count(|done| done.0), count(|done| done.1))
    }

    fn full(count: u64) -> Slots {
        let mut slots = Slots::new(vec![NO_PAGE; count as usize]);
        assert_eq!(reads(&mut slots, 0..count), (0, count as usize));
        slots
    }

    #[test]
    fn the_first_reading_fills_empty_slots_and_the_second_finds_all() {
        let mut slots = full(1000);
        assert_eq!(reads(&mut slots, 0..1000), (1000, 0));
        assert_eq!(slots.used(), 1000);
    }

    #[test]
    fn a_scan_writes_nothing_into_a_full_tier() {
        let mut slots = full(1000);
        assert_eq!(reads(&mut slots, 5000..50_000), (0, 0));
        assert_eq!(reads(&mut slots, 0..1000), (1000, 0));
    }

    #[test]
    fn a_page_that_is_used_again_within_reach_gets_the_slot_of_one_that_is_not() {
        let mut slots = full(1000);
        assert_eq!(reads(&mut slots, 5000..5250), (0, 0));
        assert_eq!(reads(&mut slots, 5000..5250), (0, 250));
        assert_eq!(reads(&mut slots, 5000..5250), (250, 0));
        assert_eq!(
            reads(&mut slots, 250..1000),
            (750, 0),
            "those behind the hand stay"
        );
    }

    #[test]
    fn uses_that_come_at_once_count_as_one() {
        let mut slots = full(1000);
        let calls = (5000..9000).flat_map(|n| [n; 4]);
        assert_eq!(reads(&mut slots, calls), (0, 0));
    }

    /// Forty scans that read each page in four parts, in turns.
    #[test]
    fn scans_beside_each_other_write_nothing_into_a_large_tier() {
        let mut slots = full(10_000);
        let scans = |page: u64| (1..41).map(move |scan| scan * 100_000 + page);
        let calls = (0..500).flat_map(|page| (0..4).flat_map(move |_| scans(page)));
        assert_eq!(reads(&mut slots, calls), (0, 0));
    }

    #[test]
    fn a_use_beyond_reach_is_a_first_one() {
        let mut slots = full(1000);
        for _ in 0..3 {
            assert_eq!(reads(&mut slots, 5000..6500), (0, 0));
        }
    }

    #[test]
    fn a_slot_that_was_used_has_a_second_chance() {
        let mut slots = full(1000);
        reads(&mut slots, 5000..5250);
        assert_eq!(reads(&mut slots, 0..100), (100, 0));
        // The hand is at the first slot: the first hundred newcomers meet used ones, which are idle from then on.
        assert_eq!(reads(&mut slots, 5000..5250), (0, 150));
        assert_eq!(reads(&mut slots, 0..100), (100, 0));
    }

    #[test]
    fn a_loop_over_more_than_fits_keeps_what_has_a_slot() {
        let mut slots = full(1000);
        for _ in 0..10 {
            assert_eq!(reads(&mut slots, 0..1500), (1000, 0));
        }
    }

    #[test]
    fn a_new_working_set_replaces_the_old_one_in_a_few_rounds() {
        let mut slots = full(1000);
        reads(&mut slots, 0..1000);
        for _ in 0..8 {
            reads(&mut slots, 5000..5800);
        }
        let (hits, _) = reads(&mut slots, 5000..5800);
        assert!(hits > 760, "{hits} of 800");
    }

    #[test]
    fn an_evicted_page_that_comes_back_soon_needs_no_further_use() {
        let mut slots = full(1000);
        reads(&mut slots, 5000..5100);
        reads(&mut slots, 5000..5100);
        // 0 to 99 went; others are between them and now.
        reads(&mut slots, 7000..7100);
        let (_, written) = reads(&mut slots, 0..100);
        assert_eq!(written, 100);
    }

    #[test]
    fn a_page_whose_bytes_are_queued_is_no_hit_and_keeps_its_slot() {
        let mut slots = Slots::new(vec![NO_PAGE; 1]);
        let (slot, evicted) = slots.take(page(1)).unwrap();
        assert!(!evicted && slots.find(page(1)).is_none() && slots.admits(page(1)).is_none());
        slots.ghosts.remember(page(2));
        assert_eq!(slots.take(page(2)), None);
        slots.arrived(slot, page(1));
        assert_eq!(slots.find(page(1)), Some(slot));
        assert_eq!(slots.take(page(2)), None, "it was used");
        assert_eq!(slots.take(page(2)), Some((slot, true)));
        // What is written late is the page that had the slot before.
        slots.arrived(slot, page(1));
        assert_eq!(slots.find(page(2)), None);
        assert!(!slots.drop_page(slot, page(1)), "it is another's by now");
        assert!(slots.drop_page(slot, page(2)));
        slots.validate();
    }

    #[test]
    fn of_many_that_are_admitted_at_once_only_those_that_were_used_again_replace_a_page() {
        let mut slots = Slots::new(vec![NO_PAGE; 2]);
        assert!((0..9).all(|n| slots.admits(page(n)) == Some(true)));
        let taken = (0..9).filter(|n| slots.take(page(*n)).is_some()).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn a_table_that_names_a_page_twice_has_it_once() {
        let slots = Slots::new(vec![page(1).0, NO_PAGE, page(1).0, page(2).0]);
        assert_eq!(slots.used(), 2);
        slots.validate();
    }

    /// 7/8 of a power of two: a table with open addresses would double.
    #[test]
    fn memory_is_33_bytes_a_slot_however_often_pages_come_and_go() {
        for count in [1000, 7 << 10, 1_638_400] {
            let mut slots = full(count);
            let before = slots.memory_bytes();
            assert_eq!(before, 33 * count);
            let pages = (0..20_000).flat_map(|n| [n % 20_000 + count, n % 300 + count]);
            for n in pages {
                slots.ghosts.remember(page(n));
                if let Some((slot, _)) = slots.take(page(n)) {
                    slots.arrived(slot, page(n));
                }
            }
            slots.validate();
            assert_eq!(slots.memory_bytes(), before);
        }
    }

    /// The same by lists that are searched from their beginning.
    struct Naive {
        slots: Vec<Option<(u64, bool, bool)>>,
        hand: usize,
        /// With the miss at which each was seen.
        ghosts: Vec<(u64, u32)>,
        now: u32,
    }

    impl Naive {
        fn at(&self, n: u64) -> Option<usize> {
            self.slots
                .iter()
                .position(|slot| slot.is_some_and(|(of, ..)| of == n))
        }

        fn remember(&mut self, n: u64) {
            self.ghosts.retain(|ghost| ghost.0 != n);
            self.ghosts.push((n, self.now));
            // All are in one bucket.
            if self.ghosts.len() > BUCKET_GHOSTS {
                self.ghosts.remove(0);
            }
        }

        fn find(&mut self, n: u64) -> Option<usize> {
            let at = self.at(n)?;
            let (_, used, coming) = self.slots[at].as_mut().unwrap();
            *used = true;
            (!*coming).then_some(at)
        }

        fn admits(&mut self, n: u64) -> Option<bool> {
            if self.at(n).is_some() {
                return None;
            }
            if self.slots.contains(&None) {
                return Some(true);
            }
            self.now += 1;
            let distance = self
                .ghosts
                .iter()
                .find(|ghost| ghost.0 == n)
                .map(|ghost| self.now - ghost.1);
            let reach = self.slots.len() as u32;
            if distance.is_some_and(|distance| distance <= (reach / 4).min(64)) {
                return Some(false);
            }
            self.remember(n);
            if distance.is_none_or(|distance| distance > reach) {
                return Some(false);
            }
            Some(self.may_replace())
        }

        fn may_replace(&mut self) -> bool {
            let (_, used, coming) = self.slots[self.hand].as_mut().unwrap();
            let is_idle = !*used && !*coming;
            if !is_idle {
                *used = false;
                self.hand = (self.hand + 1) % self.slots.len();
            }
            is_idle
        }

        fn take(&mut self, n: u64) -> Option<(usize, bool)> {
            if self.at(n).is_some() {
                return None;
            }
            if self.slots.contains(&None) {
                while self.slots[self.hand].is_some() {
                    self.hand = (self.hand + 1) % self.slots.len();
                }
            } else if !self.ghosts.iter().any(|ghost| ghost.0 == n) || !self.may_replace() {
                return None;
            }
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            self.ghosts.retain(|ghost| ghost.0 != n);
            let had = self.slots[at];
            if let Some((had, ..)) = had {
                self.remember(had);
            }
            self.slots[at] = Some((n, false, true));
            Some((at, had.is_some()))
        }
    }

    /// So few slots that there is one bucket of ghosts.
    #[test]
    pub(in crate::tier) fn any_calls_do_what_a_naive_model_does() {
        for seed in 0..300 {
            let mut draw = Draw(seed);
            let count = 1 + draw.below(4);
            let different = 1 + draw.below(5 * count);
            let mut slots = Slots::new(vec![NO_PAGE; count as usize]);
            let mut naive = Naive {
                slots: vec![None; count as usize],
                hand: 0,
                ghosts: Vec::new(),
                now: 0,
            };
            for step in 0..400 {
                let slot = draw.below(count) as usize;
                let n = match naive.slots[slot] {
                    Some((n, ..)) if draw.one_in(2) => n,
                    _ => draw.below(different),
                };
                let what = format!("seed {seed}, step {step}, page {n}, slot {slot}");
                match draw.below(7) {
                    0 | 1 => assert_eq!(slots.find(page(n)), naive.find(n).map(|at| at as u32), "{what}"),
                    2 | 3 => assert_eq!(slots.admits(page(n)), naive.admits(n), "{what}"),
                    4 => {
                        let taken = naive.take(n).map(|(at, evicted)| (at as u32, evicted));
                        assert_eq!(slots.take(page(n)), taken, "{what}");
                    }
                    5 => {
                        slots.arrived(slot as u32, page(n));
                        if let Some((of, _, coming)) = &mut naive.slots[slot] {
                            *coming &= *of != n;
                        }
                    }
                    _ => {
                        let has = naive.slots[slot].is_some_and(|(of, ..)| of == n);
                        naive.slots[slot] = naive.slots[slot].filter(|_| !has);
                        assert_eq!(slots.drop_page(slot as u32, page(n)), has, "{what}");
                    }
                }
                slots.validate();
            }
        }
    }
}
