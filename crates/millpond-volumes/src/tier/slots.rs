//! Which page each slot of a disk tier has, which pages get one, and which go.
//!
//! ```text
//!   a page that was fetched ──► a slot is empty? ─────────────────────────────────► it gets that
//!                                   │ no
//!                                   ▼
//!                               seen before, within as many misses as there are slots? ── no ──► remembered
//!                                   │ yes
//!                                   ▼
//!                     hand ──► the slot there was used since the last lap? ── yes ──► its bit is cleared, remembered
//!                                   │ no
//!                                   ▼
//!                               it gets that slot; the page that had it is remembered
//! ```
//!
//! So a tier fills once, and from then on a page is written when it was used twice, within the reach that replacement with
//! so many pages has (Linux' refault distance), and if the page that it replaces was not (CLOCK). A scan is read once: it
//! takes empty slots and nothing else. A loop over more pages than there are slots keeps the ones that have a slot.
//!
//! Memory is 9 bytes a slot, 6 to 12 for the index, and 16 for what is remembered.

use hashbrown::HashTable;

/// Uses of a page within so many misses count as one (the correlated references of LRU-K): callers with small buffers, and
/// caches with smaller pages, come back for the rest of a page. A chunk of pages of 64 KiB.
const CORRELATED: u32 = 64;

/// A slot's number.
pub(super) type Slot = u32;

/// A page in an object: a hash of where it is and of its checksum, never 0.
///
/// Where it is makes pages differ; the checksum makes it differ from what a store that was made anew has there. The hash alone
/// does not vouch for bytes: whoever reads a slot compares them with the page's checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PageHash(pub(super) u64);

/// No page.
pub(super) const NO_PAGE: u64 = 0;

/// Used since the hand was here.
const USED: u8 = 1;
/// Its bytes are on their way to it.
const COMING: u8 = 2;

#[derive(Debug)]
pub(super) struct Slots {
    pages: Vec<u64>,
    flags: Vec<u8>,
    index: HashTable<Slot>,
    empty: u32,
    hand: Slot,
    ghosts: Ghosts,
}

impl Slots {
    /// Slots that have these pages.
    pub(super) fn new(pages: Vec<u64>) -> Slots {
        let count = pages.len();
        let mut slots = Slots {
            flags: vec![0; count],
            index: HashTable::with_capacity(count),
            empty: count as u32,
            hand: 0,
            ghosts: Ghosts::new(count),
            pages: vec![NO_PAGE; count],
        };
        for (slot, &page) in pages.iter().enumerate() {
            // A page that is there twice has its newer bytes anywhere: they are the same.
            if page != NO_PAGE && slots.slot_of(PageHash(page)).is_none() {
                slots.put(slot as Slot, PageHash(page));
            }
        }
        slots
    }

    pub(super) fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    pub(super) fn used(&self) -> u32 {
        self.len() - self.empty
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let index = self.index.capacity() as u64 * 8 / 7 * 5;
        self.pages.len() as u64 * 9 + index + self.ghosts.buckets.len() as u64 * size_of::<Bucket>() as u64
    }

    /// Of this group of the file.
    pub(super) fn pages(&self, slots: std::ops::Range<usize>) -> &[u64] {
        &self.pages[slots.start..slots.end.min(self.pages.len())]
    }

    fn slot_of(&self, page: PageHash) -> Option<Slot> {
        let is_it = |slot: &Slot| self.pages[*slot as usize] == page.0;
        self.index.find(page.0, is_it).copied()
    }

    /// The slot with a page's bytes. That is a use of it.
    pub(super) fn find(&mut self, page: PageHash) -> Option<Slot> {
        let slot = self.slot_of(page)?;
        let flags = &mut self.flags[slot as usize];
        let is_here = *flags & COMING == 0;
        *flags |= USED;
        is_here.then_some(slot)
    }

    /// Whether a page that was fetched is to get a slot; `None`: it has one. That is a use of it, and a miss.
    pub(super) fn admits(&mut self, page: PageHash) -> Option<bool> {
        if self.slot_of(page).is_some() {
            return None;
        }
        if self.empty > 0 {
            return Some(true);
        }
        if !self.ghosts.used_again(page) {
            return Some(false);
        }
        let flags = &mut self.flags[self.hand as usize];
        let is_idle = *flags == 0;
        if !is_idle {
            *flags &= !USED;
            self.step();
        }
        Some(is_idle)
    }

    fn step(&mut self) {
        self.hand = (self.hand + 1) % self.len();
    }

    /// Gives a page a slot, and whether another page had it. `None`: it has one by now, or this one's bytes are on their way.
    pub(super) fn take(&mut self, page: PageHash) -> Option<(Slot, bool)> {
        if self.slot_of(page).is_some() {
            return None;
        }
        if self.empty > 0 {
            while self.pages[self.hand as usize] != NO_PAGE {
                self.step();
            }
        }
        let slot = self.hand;
        self.step();
        if self.flags[slot as usize] & COMING != 0 {
            return None;
        }
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

    /// A page's bytes are in its slot.
    pub(super) fn arrived(&mut self, slot: Slot) {
        self.flags[slot as usize] &= !COMING;
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
        self.empty -= 1;
        let pages = &self.pages;
        self.index
            .insert_unique(page.0, slot, |slot| pages[*slot as usize]);
    }

    fn remove(&mut self, slot: Slot, page: PageHash) {
        if let Ok(entry) = self.index.find_entry(page.0, |of| *of == slot) {
            entry.remove();
        }
        self.pages[slot as usize] = NO_PAGE;
        self.flags[slot as usize] = 0;
        self.empty += 1;
    }

    #[cfg(test)]
    pub(super) fn validate(&self) {
        let there = self.pages.iter().filter(|page| **page != NO_PAGE).count();
        assert_eq!(there as u32 + self.empty, self.len());
        assert_eq!(self.index.len(), there);
        assert!(self.hand < self.len());
        for (slot, &page) in self.pages.iter().enumerate() {
            match page {
                NO_PAGE => assert_eq!(self.flags[slot], 0),
                page => assert_eq!(self.slot_of(PageHash(page)), Some(slot as Slot)),
            }
        }
    }
}

/// As many as fit a cache line.
const BUCKET_GHOSTS: usize = 8;

/// Pages without a slot: a part of the hash of each, 0 for none, and the miss at which it was seen.
type Bucket = [(u32, u32); BUCKET_GHOSTS];

/// Pages that were missed, or evicted. There is room for twice as many as there are slots: in a full bucket the oldest goes, so
/// that pages that come in turns would all be forgotten in the buckets that have one too many.
#[derive(Debug)]
struct Ghosts {
    buckets: Vec<Bucket>,
    /// Misses. Differences count, so it may wrap.
    now: u32,
    reach: u32,
}

impl Ghosts {
    fn new(slots: usize) -> Ghosts {
        Ghosts {
            buckets: vec![[(0, 0); BUCKET_GHOSTS]; (2 * slots).div_ceil(BUCKET_GHOSTS)],
            now: 0,
            reach: slots as u32,
        }
    }

    /// The page's bucket, and its mark there.
    fn of(&mut self, page: PageHash) -> (&mut Bucket, u32) {
        let (high, low) = ((page.0 >> 32) as u32, page.0 as u32);
        let bucket = (u64::from(low) * self.buckets.len() as u64) >> 32;
        (&mut self.buckets[bucket as usize], high.max(1))
    }

    fn remember(&mut self, page: PageHash) {
        let now = self.now;
        let (bucket, mark) = self.of(page);
        let age = |ghost: &&mut (u32, u32)| match ghost.0 {
            of if of == mark => u64::MAX,
            0 => u64::from(u32::MAX) + 1,
            _ => u64::from(now.wrapping_sub(ghost.1)),
        };
        if let Some(ghost) = bucket.iter_mut().max_by_key(age) {
            *ghost = (mark, now);
        }
    }

    fn forget(&mut self, page: PageHash) {
        let (bucket, mark) = self.of(page);
        if let Some(ghost) = bucket.iter_mut().find(|ghost| ghost.0 == mark) {
            *ghost = (0, 0);
        }
    }

    /// Counts a miss. Whether the page was seen before, not too long ago and not just now.
    fn used_again(&mut self, page: PageHash) -> bool {
        self.now = self.now.wrapping_add(1);
        let (now, reach) = (self.now, self.reach);
        let (bucket, mark) = self.of(page);
        let seen = bucket.iter().find(|ghost| ghost.0 == mark);
        let distance = seen.map(|ghost| now.wrapping_sub(ghost.1));
        match distance {
            // Its first use stays its first.
            Some(distance) if distance <= CORRELATED.min(reach / 4) => false,
            distance => {
                self.remember(page);
                distance.is_some_and(|distance| distance <= reach)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            slots.arrived(slot);
        }
        slots.validate();
        (false, is_admitted)
    }

    fn reads(slots: &mut Slots, pages: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let done: Vec<_> = pages.into_iter().map(|n| read(slots, n)).collect();
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
    fn a_use_that_comes_at_once_is_the_same_one() {
        let mut slots = full(1000);
        let calls = (5000..9000).flat_map(|n| [n; 4]);
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
    fn bytes_that_are_on_their_way_are_no_hit_and_their_slot_is_not_taken() {
        let mut slots = Slots::new(vec![NO_PAGE; 1]);
        let (slot, evicted) = slots.take(page(1)).unwrap();
        assert!(!evicted && slots.find(page(1)).is_none() && slots.admits(page(1)).is_none());
        assert_eq!(slots.take(page(2)), None);
        slots.arrived(slot);
        assert_eq!(slots.find(page(1)), Some(slot));
        assert_eq!(slots.take(page(2)), Some((slot, true)));
        assert!(!slots.drop_page(slot, page(1)), "it is another's by now");
        assert!(slots.drop_page(slot, page(2)));
        slots.validate();
    }

    #[test]
    fn a_table_that_names_a_page_twice_has_it_once() {
        let slots = Slots::new(vec![page(1).0, NO_PAGE, page(1).0, page(2).0]);
        assert_eq!(slots.used(), 2);
        slots.validate();
    }

    #[test]
    fn memory_is_less_than_forty_bytes_a_slot() {
        for count in [1000, 10_000, 1_000_000, 1_638_400] {
            let slots = Slots::new(vec![NO_PAGE; count]);
            let each = slots.memory_bytes() as f64 / count as f64;
            assert!((30.0..37.0).contains(&each), "{each} of {count}");
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
            let (_, used, coming) = self.slots[self.hand].as_mut().unwrap();
            let is_idle = !*used && !*coming;
            if !is_idle {
                *used = false;
                self.hand = (self.hand + 1) % self.slots.len();
            }
            Some(is_idle)
        }

        fn take(&mut self, n: u64) -> Option<(usize, bool)> {
            if self.at(n).is_some() {
                return None;
            }
            if self.slots.contains(&None) {
                while self.slots[self.hand].is_some() {
                    self.hand = (self.hand + 1) % self.slots.len();
                }
            }
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            if self.slots[at].is_some_and(|(.., coming)| coming) {
                return None;
            }
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
    fn any_calls_do_what_a_naive_model_does() {
        for seed in 0..300_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = move |n: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(seed | 1);
                (state >> 33) % n
            };
            let count = 1 + below(4);
            let different = 1 + below(5 * count);
            let mut slots = Slots::new(vec![NO_PAGE; count as usize]);
            let mut naive = Naive {
                slots: vec![None; count as usize],
                hand: 0,
                ghosts: Vec::new(),
                now: 0,
            };
            for step in 0..400 {
                let n = below(different);
                let what = format!("seed {seed}, step {step}, page {n}");
                match below(6) {
                    0 | 1 => assert_eq!(slots.find(page(n)), naive.find(n).map(|at| at as u32), "{what}"),
                    2 | 3 => {
                        let admitted = naive.admits(n);
                        assert_eq!(slots.admits(page(n)), admitted, "{what}");
                        if admitted == Some(true) {
                            let taken = naive.take(n).map(|(at, evicted)| (at as u32, evicted));
                            assert_eq!(slots.take(page(n)), taken, "{what}");
                        }
                    }
                    4 => {
                        let slot = below(count) as u32;
                        if let Some((_, _, coming)) = &mut naive.slots[slot as usize] {
                            *coming = false;
                            slots.arrived(slot);
                        }
                    }
                    _ => {
                        let slot = below(count) as u32;
                        let has = naive.slots[slot as usize].is_some_and(|(of, ..)| of == n);
                        if has {
                            naive.slots[slot as usize] = None;
                        }
                        assert_eq!(slots.drop_page(slot, page(n)), has, "{what}");
                    }
                }
                slots.validate();
            }
        }
    }
}
