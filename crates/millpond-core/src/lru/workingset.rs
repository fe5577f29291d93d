//! Shadows: what is remembered about evicted pages, and how long ago they were evicted.
//!
//! Time is counted in evictions (and, for Linux, activations): `age`. An evicted page stores `age` in a shadow. When it
//! is refaulted, the difference is its *distance*: how many more pages of memory would have kept it. One more age for
//! each class of evicted pages (never active, once active) gives the same for the part of memory that held the class.
//!
//! The table has one 16-byte slot for each frame, in buckets of one cache line. A page may use two buckets; if both are
//! full it replaces the oldest of the eight slots, so mostly old shadows are lost. Only [`Workingset::new`] and
//! [`Workingset::resize`] allocate, no operation looks at more than two buckets, and nothing is random: the same keys
//! give the same table. Ages are 32 bits and wrap. Distances are differences, so a wrap affects only a shadow that
//! outlives 2^32 evictions, each of which replaces the oldest of eight.
//!
//! A shadow of a closed file is harmless. If its number goes to another file, a page of that file may be mistaken for a
//! refault. The shadow ages out like any other.

use crate::units::PageKey;
use alloc::vec::Vec;

/// As many as fit a cache line with their ages. Twice as many, or second buckets anywhere in the table, keep the oldest
/// better (976 or 868 instead of 849 per mille at seven tenths of the table's reach); the miss ratios of decision 0002
/// do not show it, and it costs twice the memory touched, or a new table four times as long to build.
const BUCKET_SLOTS: usize = 4;
/// How many buckets on from its first the second may be: half a KiB.
const HOMES_APART_MAX: u64 = 8;
/// The packed form of [`PageKey::NONE`].
const EMPTY: u64 = u64::MAX;
/// Class ages share their word with the class.
const CLASS_AGE_MASK: u32 = u32::MAX >> 1;

/// A page's memory of its eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shadow {
    age: u32,
    /// Age of its class, shifted by one; the class (once active) in the lowest bit.
    class: u32,
}

/// How long ago a refaulted page was evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Distance {
    /// Evictions (and what else ages) since.
    pub(super) pages: u32,
    /// Evictions of pages of its class since.
    pub(super) of_class: u32,
    /// It had been active.
    pub(super) workingset: bool,
}

/// One cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket {
    keys: [u64; BUCKET_SLOTS],
    shadows: [Shadow; BUCKET_SLOTS],
}

const EMPTY_BUCKET: Bucket = Bucket {
    keys: [EMPTY; BUCKET_SLOTS],
    shadows: [Shadow { age: 0, class: 0 }; BUCKET_SLOTS],
};

/// Ages, and the shadows of pages that left.
#[derive(Clone, Debug)]
pub(super) struct Workingset {
    buckets: Vec<Bucket>,
    len: u64,
    age: u32,
    /// Evictions of pages that never were active, and of pages that were.
    class_ages: [u32; 2],
}

impl Workingset {
    /// No shadows yet, and room for about `frames` of them.
    pub(super) fn new(frames: usize) -> Self {
        Workingset {
            buckets: alloc::vec![EMPTY_BUCKET; bucket_count(frames)],
            len: 0,
            age: 0,
            class_ages: [0; 2],
        }
    }

    /// Room for about `frames` shadows; as many of the present ones as find a place stay. Builds a new table: its
    /// cost is proportional to the number of frames.
    pub(super) fn resize(&mut self, frames: usize) {
        let count = bucket_count(frames);
        if count == self.buckets.len() {
            return;
        }
        let old = core::mem::replace(&mut self.buckets, alloc::vec![EMPTY_BUCKET; count]);
        self.len = 0;
        for bucket in &old {
            for (&key, &shadow) in bucket.keys.iter().zip(&bucket.shadows) {
                if key != EMPTY {
                    self.store(PageKey::from_bits(key), shadow);
                }
            }
        }
    }

    /// Counts something other than an eviction that makes evicted pages older: an activation.
    #[inline]
    pub(super) fn age_by_activation(&mut self) {
        self.age = self.age.wrapping_add(1);
    }

    /// A page is evicted. Its shadow keeps the age that this eviction is counted in, or the one `before` it.
    pub(super) fn evicted(&mut self, key: PageKey, workingset: bool, before: bool) {
        let age = self.age;
        self.age = age.wrapping_add(1);
        let class_age = &mut self.class_ages[usize::from(workingset)];
        *class_age = class_age.wrapping_add(1);
        let shadow = Shadow {
            age: if before { age } else { self.age },
            class: (*class_age << 1) | u32::from(workingset),
        };
        self.store(key, shadow);
    }

    /// A refault: takes its shadow, if it left one that is still there.
    pub(super) fn take(&mut self, key: PageKey) -> Option<Distance> {
        let (bucket, slot) = self.find(key)?;
        let bucket = &mut self.buckets[bucket];
        bucket.keys[slot] = EMPTY;
        self.len -= 1;
        let shadow = bucket.shadows[slot];
        let workingset = shadow.class & 1 == 1;
        let class_age = self.class_ages[usize::from(workingset)];
        Some(Distance {
            pages: self.age.wrapping_sub(shadow.age),
            of_class: class_age.wrapping_sub(shadow.class >> 1) & CLASS_AGE_MASK,
            workingset,
        })
    }

    /// These pages are about to come or go: fetches their buckets, all at the same time. Without it a run of pages waits
    /// for memory once a page, which takes longer than all the rest of it.
    pub(super) fn fetch(&self, keys: impl Iterator<Item = PageKey>) {
        let look = |key| {
            let [first, second] = self.homes(key);
            self.buckets[first].keys[0] ^ self.buckets[second].keys[0]
        };
        core::hint::black_box(keys.map(look).fold(0, u64::wrapping_add));
    }

    /// How many shadows there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn metadata_bytes(&self) -> u64 {
        (self.buckets.capacity() * size_of::<Bucket>()) as u64
    }

    /// Whether the page's shadow is there, without taking it.
    #[cfg(test)]
    pub(super) fn remembers(&self, key: PageKey) -> bool {
        self.find(key).is_some()
    }

    fn find(&self, key: PageKey) -> Option<(usize, usize)> {
        self.find_at(self.homes(key), key.to_bits())
    }

    /// Looks into both buckets before it decides, so that the memory of both is fetched at a time.
    #[inline]
    fn find_at(&self, homes: [usize; 2], bits: u64) -> Option<(usize, usize)> {
        let slots = homes.map(|home| self.buckets[home].keys.iter().position(|&k| k == bits));
        match slots {
            [Some(slot), _] => Some((homes[0], slot)),
            [None, Some(slot)] => Some((homes[1], slot)),
            [None, None] => None,
        }
    }

    /// Puts a shadow in the emptier of its two buckets, or in place of the oldest of both.
    fn store(&mut self, key: PageKey, shadow: Shadow) {
        let homes = self.homes(key);
        let empty = homes.map(|home| self.buckets[home].keys.iter().filter(|&&k| k == EMPTY).count());
        let (home, slot) = if let Some(present) = self.find_at(homes, key.to_bits()) {
            present
        } else if empty == [0, 0] {
            self.oldest_of(homes)
        } else {
            let home = homes[usize::from(empty[1] > empty[0])];
            let slot = self.buckets[home].keys.iter().position(|&k| k == EMPTY);
            self.len += 1;
            (home, slot.unwrap_or_default())
        };
        let bucket = &mut self.buckets[home];
        bucket.keys[slot] = key.to_bits();
        bucket.shadows[slot] = shadow;
    }

    fn oldest_of(&self, homes: [usize; 2]) -> (usize, usize) {
        let mut oldest = (0, (homes[0], 0));
        for home in homes {
            for (slot, shadow) in self.buckets[home].shadows.iter().enumerate() {
                let distance = self.age.wrapping_sub(shadow.age);
                if distance > oldest.0 {
                    oldest = (distance, (home, slot));
                }
            }
        }
        oldest.1
    }

    /// The two different buckets that a page may use. The first rises with the hash whatever the number of buckets, and
    /// the second is near: a new table is built from an old one in order, and a lookup touches one or two pages.
    fn homes(&self, key: PageKey) -> [usize; 2] {
        let hash = mix(key.to_bits());
        let count = self.buckets.len() as u64;
        // 32 bits of the hash choose each: a multiplication spreads them over any number.
        let first = ((hash >> 32) * count) >> 32;
        let nearby = HOMES_APART_MAX.min(count - 1);
        let second = first + 1 + (((hash & u64::from(u32::MAX)) * nearby) >> 32);
        [first, if second < count { second } else { second - count }].map(|home| home as usize)
    }

    /// Re-derives the count; every shadow must be in a bucket of its own, and only once.
    pub(super) fn validate(&self) {
        let mut len = 0;
        for (n, bucket) in self.buckets.iter().enumerate() {
            for &key in &bucket.keys {
                if key == EMPTY {
                    continue;
                }
                len += 1;
                let key = PageKey::from_bits(key);
                let homes = self.homes(key);
                assert!(
                    homes.contains(&n),
                    "{key:?} is in bucket {n}, belongs in {homes:?}"
                );
                let times = homes.map(|home| count(&self.buckets[home], key.to_bits()));
                assert_eq!(times[0] + times[1], 1, "{key:?} is in the table twice");
            }
        }
        assert_eq!(self.len, len, "shadows");
    }
}

/// How many of the bucket's keys are this one.
fn count(bucket: &Bucket, bits: u64) -> u64 {
    bucket.keys.iter().map(|&key| u64::from(key == bits)).sum()
}

/// One slot a frame in whole buckets, and at least the two that a page may use.
fn bucket_count(frames: usize) -> usize {
    frames.div_ceil(BUCKET_SLOTS).max(2)
}

/// Spreads a key over all 64 bits: two rounds of multiplying and folding. Fixed, so that runs repeat; a user who
/// chooses page numbers to collide loses shadows, nothing else.
pub(super) fn mix(key: u64) -> u64 {
    // Odd constants from the fractional parts of the golden ratio and of the square root of 3.
    let key = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 29)).wrapping_mul(0xbb67_ae85_84ca_a73b);
    key ^ (key >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{FileId, PageIndex};

    fn key(n: u64) -> PageKey {
        PageKey::new(FileId(3), PageIndex(n))
    }

    #[test]
    fn a_slot_takes_16_bytes_and_there_is_one_for_each_frame() {
        assert_eq!(Workingset::new(8000).metadata_bytes(), 16 * 8000);
    }

    #[test]
    fn the_distance_is_what_was_evicted_since() {
        let mut workingset = Workingset::new(64);
        for n in 0..10 {
            workingset.evicted(key(n), n % 5 == 0, false);
        }
        workingset.age_by_activation();
        let distance = workingset.take(key(4)).unwrap();
        assert_eq!((distance.pages, distance.of_class), (5 + 1, 4));
        assert!(!distance.workingset);
        let distance = workingset.take(key(5)).unwrap();
        assert_eq!((distance.pages, distance.of_class), (4 + 1, 0));
        assert!(distance.workingset);
        assert_eq!(workingset.take(key(5)), None, "a refault takes the shadow");
        assert_eq!(workingset.len(), 8);
    }

    #[test]
    fn a_shadow_from_before_its_own_eviction_is_one_page_further_away() {
        let mut workingset = Workingset::new(64);
        workingset.evicted(key(1), false, true);
        workingset.evicted(key(2), false, false);
        assert_eq!(workingset.take(key(1)).unwrap().pages, 2);
        assert_eq!(workingset.take(key(2)).unwrap().pages, 0);
    }

    #[test]
    fn ages_that_wrap_give_the_same_distances_and_the_same_table() {
        let (mut wrapping, mut fresh) = (Workingset::new(100), Workingset::new(100));
        wrapping.age = u32::MAX - 500;
        wrapping.class_ages = [u32::MAX - 300, CLASS_AGE_MASK - 20];
        for n in 0..2_000_u64 {
            for workingset in [&mut wrapping, &mut fresh] {
                workingset.evicted(key(n * n % 613), n % 3 == 0, false);
            }
            let back = key(n * 7 % 613);
            assert_eq!(wrapping.take(back), fresh.take(back), "after {n} evictions");
            assert_eq!(wrapping.len(), fresh.len());
        }
        assert!(wrapping.age < 10_000, "it has wrapped");
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let frames = 10_000;
        let mut workingset = Workingset::new(frames);
        for n in 0..50_000 {
            workingset.evicted(key(n), false, false);
        }
        workingset.validate();
        assert!(workingset.len() <= frames as u64);
        // How many per mille are still there of a thousand pages evicted so many thousands ago, of ten that fit.
        let mut kept = |ago: u64| {
            (1..=1000)
                .filter(|n| workingset.take(key(50_000 - ago * 1000 - n)).is_some())
                .count()
        };
        assert_eq!([0, 2, 4, 6, 7, 8].map(&mut kept), [1000, 999, 992, 930, 849, 730]);
        assert_eq!(
            [9, 10, 11, 12, 15, 20].map(&mut kept),
            [543, 391, 248, 160, 30, 1]
        );
    }

    #[test]
    fn resizing_keeps_shadows() {
        let mut workingset = Workingset::new(800);
        for n in 0..500 {
            workingset.evicted(key(n), n % 2 == 0, false);
        }
        workingset.resize(4_000);
        workingset.validate();
        assert_eq!(workingset.len(), 500);
        assert_eq!(workingset.take(key(100)).unwrap().pages, 399);
        workingset.resize(80);
        workingset.validate();
        assert!(workingset.len() <= 80);
        assert!(workingset.take(key(499)).is_some());
    }

    #[test]
    fn it_agrees_with_a_list_of_what_was_evicted() {
        let mut workingset = Workingset::new(256);
        let mut model: Vec<(PageKey, u32)> = Vec::new();
        let (mut seed, mut age, mut took, mut lost) = (1_u64, 0, 0, 0);
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let page = key((seed >> 40) % 400);
            if seed >> 63 == 0 {
                age += 1;
                model.retain(|&(k, _)| k != page);
                model.push((page, age));
                workingset.evicted(page, false, false);
            } else {
                let position = model.iter().position(|&(k, _)| k == page);
                let expected = position.map(|at| age - model.remove(at).1);
                match workingset.take(page) {
                    Some(distance) => {
                        assert_eq!(Some(distance.pages), expected);
                        took += 1;
                    }
                    None => lost += u32::from(expected.is_some()),
                }
            }
        }
        workingset.validate();
        // About 200 of 400 pages are shadows at a time, so that two full buckets are not many.
        assert!(lost * 15 < took, "{lost} shadows lost, {took} found");
    }
}
