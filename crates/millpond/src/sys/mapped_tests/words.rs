//! Words that threads count up through a writable mapping and by calls, and sectors that a device reads into it and writes from
//! it, beside syncs, evictions, cuts and other mappings. Each word and sector has one owner, so what is lost is known.

use super::coherent::{Draw, rounds};
use super::{BOTH, PAGE, cache, folder, misses_system_calls, open};
use crate::{Faults, File, MapAdvice, MapOptions, Mapping, PageCache};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PAGES: usize = 1400;
/// Pages behind these are cut and come again.
const KEPT: usize = 1300;
const WORDS: usize = PAGE / 8;
const THREADS: usize = 5;
/// Where in a page the sectors of devices are.
const SECTOR_IN: usize = 3072;
const SECTOR: usize = 512;

struct World<'a> {
    cache: &'a PageCache,
    file: &'a File,
    mapping: &'a Mapping,
    faults: Faults,
    /// System calls on absent pages fail.
    may_miss: bool,
    is_over: AtomicBool,
    /// What the owner of a word has made of it, by page and thread.
    made: Vec<[AtomicU64; THREADS]>,
    /// The last value that the device has read into each page's sector.
    sectors: Vec<AtomicU64>,
}

impl World<'_> {
    /// Most often one of few, so that others are there as well.
    fn page(&self, draw: &mut Draw) -> usize {
        match draw.below(3) {
            0 => draw.below(KEPT),
            _ => draw.below(KEPT / 16),
        }
    }

    fn count(&self, thread: usize, draw: &mut Draw) {
        let page = self.page(draw);
        let made = &self.made[page][thread];
        let (now, at) = (made.load(Ordering::Relaxed), page * WORDS + thread);
        let offset = (at * 8) as u64;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        match draw.below(12) {
            0 => {
                let mut guard = self.file.page_mut(page as u64).unwrap();
                let bytes = &mut guard[thread * 8..thread * 8 + 8];
                assert_eq!(word(bytes), now, "page_mut of page {page}");
                bytes.copy_from_slice(&(now + 1).to_ne_bytes());
            }
            1 => {
                let mut bytes = [0; 8];
                self.file.read_at(&mut bytes, offset).unwrap();
                assert_eq!(word(&bytes), now, "read_at of page {page}");
                self.file.write_at(&(now + 1).to_ne_bytes(), offset).unwrap();
            }
            2 => {
                let seen = self.mapping.try_read(at * 8..at * 8 + 8, word).unwrap();
                assert_eq!(seen, now, "try_read of page {page}");
                self.mapping.copy_from(&(now + 1).to_ne_bytes(), at * 8).unwrap();
            }
            3 => {
                assert_eq!(
                    word(&self.file.page(page as u64).unwrap()[thread * 8..]),
                    now,
                    "page {page}"
                );
                return;
            }
            4 => {
                assert_eq!(
                    self.mapping.words()[at].load(Ordering::Relaxed),
                    now,
                    "a load of page {page}"
                );
                return;
            }
            _ => {
                let before = self.mapping.words()[at].fetch_add(1, Ordering::Relaxed);
                assert_eq!(before, now, "a store to page {page}");
            }
        }
        made.store(now + 1, Ordering::Relaxed);
    }

    /// Whether a system call has worked on the mapping at this place, where it has to: where faults are in threads, or the
    /// process has no privileges, it may find the page gone, and says so.
    fn is_done(&self, done: isize, at: usize) -> bool {
        if done == SECTOR as isize {
            return true;
        }
        let error = std::io::Error::last_os_error();
        assert!(
            self.may_miss && error.raw_os_error() == Some(libc::EFAULT),
            "{error}"
        );
        // No thread but the owner stores there.
        let word = &self.mapping.words()[at / 8];
        word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        false
    }

    /// The device reads a sector of `number` into the page.
    fn read_into(&self, patterns: &std::fs::File, draw: &mut Draw) {
        let (page, number) = (self.page(draw), draw.below(250) + 1);
        let at = page * PAGE + SECTOR_IN;
        let address = self.mapping.as_mut_ptr().wrapping_add(at);
        loop {
            // SAFETY: the sector is inside the mapping, and no thread but this one uses it meanwhile.
            let done = unsafe {
                libc::pread(
                    patterns.as_raw_fd(),
                    address.cast(),
                    SECTOR,
                    (number * SECTOR) as i64,
                )
            };
            if self.is_done(done, at) {
                break;
            }
        }
        self.sectors[page].store(number as u64, Ordering::Relaxed);
        self.check_sector(page);
    }

    fn check_sector(&self, page: usize) {
        let number = self.sectors[page].load(Ordering::Relaxed);
        let word = u64::from_ne_bytes([number as u8; 8]);
        let first = page * WORDS + SECTOR_IN / 8;
        let words = &self.mapping.words()[first..first + SECTOR / 8];
        assert!(
            words.iter().all(|is| is.load(Ordering::Relaxed) == word),
            "sector of page {page}"
        );
    }

    /// The device writes the sector with a thread's word to another file.
    fn write_from(&self, other: &std::fs::File, thread: usize, draw: &mut Draw) {
        let (page, offset) = (self.page(draw), (thread * PAGE) as u64);
        let before = self.made[page][thread].load(Ordering::Relaxed);
        let address = self.mapping.as_ptr().wrapping_add(page * PAGE);
        loop {
            // SAFETY: the sector is inside the mapping; the kernel only reads it.
            let done = unsafe { libc::pwrite(other.as_raw_fd(), address.cast(), SECTOR, offset as i64) };
            if done == SECTOR as isize {
                break;
            }
            assert!(self.may_miss);
            super::touch(self.mapping, page * PAGE);
        }
        let seen = read(other, offset, thread);
        assert_eq!(seen, before, "a device writes page {page}");
    }

    fn disturb(&self, draw: &mut Draw) {
        match draw.below(8) {
            0 => self.mapping.sync(..).unwrap(),
            1 => {
                let page = draw.below(KEPT);
                let part = page * PAGE..(page + draw.below(40)).min(PAGES) * PAGE;
                self.mapping.advise(part, MapAdvice::DontNeed).unwrap();
            }
            2 => drop(self.file.invalidate(..).unwrap()),
            3 => self
                .cache
                .set_memory((2 << 20) + (draw.below(2) << 20) as u64)
                .unwrap(),
            4 => {
                let options = MapOptions::new().faults(self.faults).writable(draw.below(2) == 0);
                drop(self.file.map(.., &options).unwrap());
            }
            5 => {
                let pages = KEPT + draw.below(PAGES - KEPT);
                self.file
                    .set_len((pages * PAGE + draw.below(PAGE)) as u64)
                    .unwrap();
                self.file.set_len((PAGES * PAGE) as u64).unwrap();
            }
            6 => self.file.punch((KEPT * PAGE) as u64, (20 * PAGE) as u64).unwrap(),
            _ => self.mapping.prefetch(..).unwrap(),
        }
    }
}

/// The thread's word of a sector that is on the device.
fn read(other: &std::fs::File, offset: u64, thread: usize) -> u64 {
    #[repr(align(4096))]
    struct Aligned([u8; SECTOR]);
    let mut bytes = Aligned([0; SECTOR]);
    other.read_exact_at(&mut bytes.0, offset).unwrap();
    u64::from_ne_bytes(bytes.0[thread * 8..thread * 8 + 8].try_into().unwrap())
}

/// A file for direct transfers of sectors; `None`, and said why, where the file system has none.
fn direct(path: &Path, bytes: &[u8]) -> Option<std::fs::File> {
    std::fs::write(path, bytes).unwrap();
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    opened
        .inspect_err(|why| println!("skipped: no direct transfers here: {why}"))
        .ok()
}

#[test]
fn no_word_is_lost_that_a_thread_stores_nor_a_sector_that_a_device_reads_into_a_mapping() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![0; PAGES * PAGE]).unwrap();
        let patterns: Vec<u8> = (0..256 * SECTOR).map(|at| (at / SECTOR) as u8).collect();
        let Some(patterns) = direct(&folder.path().join("patterns"), &patterns) else {
            return;
        };
        let Some(other) = direct(&folder.path().join("other"), &[0; THREADS * PAGE]) else {
            return;
        };
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let mapping = file
            .map(.., &MapOptions::new().faults(faults).writable(true))
            .unwrap();
        let world = World {
            cache: &cache,
            file: &file,
            mapping: &mapping,
            faults,
            may_miss: misses_system_calls(&cache, faults),
            is_over: AtomicBool::new(false),
            made: (0..KEPT).map(|_| Default::default()).collect(),
            sectors: (0..KEPT).map(|_| AtomicU64::new(0)).collect(),
        };
        std::thread::scope(|scope| {
            let (world, patterns, other) = (&world, &patterns, &other);
            let mut threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut draw = Draw(thread as u64);
                        for n in 0..rounds() {
                            world.count(thread, &mut draw);
                            if n % 16 == 0 {
                                world.write_from(other, thread, &mut draw);
                            }
                        }
                    })
                })
                .collect();
            threads.push(scope.spawn(move || {
                let mut draw = Draw(50);
                (0..rounds() / 4).for_each(|_| world.read_into(patterns, &mut draw));
            }));
            scope.spawn(move || {
                let mut draw = Draw(60);
                while !world.is_over.load(Ordering::Relaxed) {
                    // A store behind the end: it is no word of any thread, and is never seen again.
                    world.mapping.words()[KEPT * WORDS - 1].fetch_add(1, Ordering::Relaxed);
                    world.disturb(&mut draw);
                }
            });
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            world.is_over.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        (0..KEPT).for_each(|page| world.check_sector(page));
        let World { made, sectors, .. } = world;
        mapping.close().unwrap();
        file.close().unwrap();
        let on_device = std::fs::read(&path).unwrap();
        for (page, bytes) in on_device.chunks(PAGE).take(KEPT).enumerate() {
            for (thread, made) in made[page].iter().enumerate() {
                let word = u64::from_ne_bytes(bytes[thread * 8..thread * 8 + 8].try_into().unwrap());
                assert_eq!(
                    word,
                    made.load(Ordering::Relaxed),
                    "page {page}, thread {thread}, {faults:?}"
                );
            }
            let sector = sectors[page].load(Ordering::Relaxed) as u8;
            let is = &bytes[SECTOR_IN..SECTOR_IN + SECTOR];
            assert!(
                is.iter().all(|&byte| byte == sector),
                "sector of page {page}, {faults:?}"
            );
        }
    }
}
