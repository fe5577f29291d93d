//! Words of many threads. Each page is full of one word, its number and a version; a write that has returned is seen.

use super::{BOTH, PAGE, cache, folder, open};
use crate::{File, MapAdvice, MapOptions, Mapping, PageCache};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WORDS: usize = PAGE / 8;

fn full(word: u64) -> Vec<u8> {
    word.to_ne_bytes().repeat(WORDS)
}

fn word(page: usize, version: u64) -> u64 {
    (page as u64) << 32 | version
}

struct World<'a> {
    file: &'a File,
    mapping: &'a Mapping,
    options: MapOptions,
    /// The newest version of each page of which the write has returned.
    published: Vec<AtomicU64>,
    /// The next one.
    next: Vec<Mutex<u64>>,
}

pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

impl World<'_> {
    /// Most often one of few, so that others are there as well.
    fn page(&self, draw: &mut Draw) -> usize {
        let pages = self.published.len();
        match draw.below(3) {
            0 => draw.below(pages),
            _ => draw.below(pages / 16),
        }
    }

    fn check(&self, page: usize, before: u64, seen: u64, how: &str) {
        assert_eq!(seen >> 32, page as u64, "{how} gives another page");
        let version = seen & 0xffff_ffff;
        assert!(
            version >= before,
            "{how} of page {page} gives {version} after {before}"
        );
    }

    fn read(&self, draw: &mut Draw) {
        let page = self.page(draw);
        let before = self.published[page].load(Ordering::Acquire);
        let one = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        let whole = |bytes: &[u8], how| {
            let first = one(bytes);
            assert!(
                bytes.chunks(8).all(|bytes| one(bytes) == first),
                "{how} of page {page} is torn"
            );
            self.check(page, before, first, how);
        };
        match draw.below(8) {
            0 => whole(&self.file.page(page as u64).unwrap(), "page"),
            1 => {
                let mut bytes = [0; 8];
                self.file.read_at(&mut bytes, (page * PAGE) as u64).unwrap();
                self.check(page, before, one(&bytes), "read_at");
            }
            2 => {
                let part = page * PAGE..(page + 1) * PAGE;
                self.mapping
                    .try_read(part, |bytes| whole(bytes, "try_read"))
                    .unwrap();
            }
            3 => {
                if let Some(guard) = self.file.try_page(page as u64).unwrap() {
                    whole(&guard, "try_page");
                }
            }
            _ => {
                let at = page * WORDS + draw.below(WORDS);
                // SAFETY: inside the mapping and aligned; a volatile read of a word is good whatever others do.
                let seen = unsafe {
                    self.mapping
                        .as_ptr()
                        .cast::<u64>()
                        .wrapping_add(at)
                        .read_volatile()
                };
                self.check(page, before, seen, "a touch");
            }
        }
    }

    fn write(&self, draw: &mut Draw) {
        let page = self.page(draw);
        let mut next = self.next[page].lock();
        *next += 1;
        let bytes = full(word(page, *next));
        match draw.below(3) {
            0 => self.file.page_mut(page as u64).unwrap().copy_from_slice(&bytes),
            1 => match self.file.try_page_mut(page as u64).unwrap() {
                Some(mut guard) => guard.copy_from_slice(&bytes),
                None => {
                    *next -= 1;
                    return;
                }
            },
            _ => self.file.write_at(&bytes, (page * PAGE) as u64).unwrap(),
        }
        self.published[page].store(*next, Ordering::Release);
    }

    /// Several pages with one call, under the locks of all.
    fn write_many(&self, draw: &mut Draw) {
        let first = draw.below(self.published.len() - 20);
        let mut locks: Vec<_> = self.next[first..first + 20].iter().map(Mutex::lock).collect();
        let mut bytes = Vec::new();
        for (n, next) in locks.iter_mut().enumerate() {
            **next += 1;
            bytes.extend(full(word(first + n, **next)));
        }
        self.file.write_at(&bytes, (first * PAGE) as u64).unwrap();
        for (n, next) in locks.iter().enumerate() {
            self.published[first + n].store(**next, Ordering::Release);
        }
    }

    fn disturb(&self, cache: &PageCache, draw: &mut Draw) {
        let pages = self.published.len();
        match draw.below(6) {
            0 => self.file.sync_data().unwrap(),
            1 => {
                let page = draw.below(pages);
                let part = page * PAGE..(page + draw.below(40)).min(pages) * PAGE;
                self.mapping.advise(part, MapAdvice::DontNeed).unwrap();
            }
            2 => drop(self.file.invalidate(..).unwrap()),
            3 => cache
                .set_memory((2 << 20) + (draw.below(2) << 20) as u64)
                .unwrap(),
            4 => drop(self.file.map(.., &self.options).unwrap()),
            _ => self.mapping.prefetch(..).unwrap(),
        }
    }
}

pub(super) fn rounds() -> usize {
    let set = std::env::var("MILLPOND_ROUNDS");
    set.map_or(2000, |rounds| rounds.parse().unwrap())
}

#[test]
fn writes_are_seen_by_touches_and_calls_of_all_threads_and_never_undone() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        const PAGES: usize = 1600;
        let bytes: Vec<u8> = (0..PAGES).flat_map(|page| full(word(page, 0))).collect();
        std::fs::write(&path, bytes).unwrap();
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let options = MapOptions::new().faults(faults);
        let mapping = file.map(.., &options).unwrap();
        let world = World {
            file: &file,
            mapping: &mapping,
            options,
            published: (0..PAGES).map(|_| AtomicU64::new(0)).collect(),
            next: (0..PAGES).map(|_| Mutex::new(0)).collect(),
        };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (world, is_over, cache) = (&world, &is_over, &cache);
            let act = |seed, act: for<'a, 'b> fn(&'a World<'_>, &'b mut Draw)| {
                scope.spawn(move || {
                    let mut draw = Draw(seed);
                    (0..rounds()).for_each(|_| act(world, &mut draw));
                })
            };
            let mut threads: Vec<_> = (0..4)
                .map(|seed| act(seed, |world, draw| world.read(draw)))
                .collect();
            threads.extend((10..12).map(|seed| act(seed, |world, draw| world.write(draw))));
            threads.push(act(20, |world, draw| {
                if draw.below(8) == 0 {
                    world.write_many(draw);
                }
            }));
            scope.spawn(move || {
                let mut draw = Draw(30);
                while !is_over.load(Ordering::Relaxed) {
                    world.disturb(cache, &mut draw);
                }
            });
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        let published = world.published;
        drop(mapping);
        file.sync_data().unwrap();
        let on_device = std::fs::read(&path).unwrap();
        for (page, bytes) in on_device.chunks(PAGE).enumerate() {
            let version = published[page].load(Ordering::Relaxed);
            assert!(bytes == full(word(page, version)), "page {page} on the device");
        }
    }
}
