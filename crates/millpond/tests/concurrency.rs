//! Many threads on the same files in a pool of the least size: no page is seen torn or old, none goes back, what was
//! synced is in the file.
//!
//! Every page carries a stamp: its version in the first eight bytes, and behind it what follows from file, page and
//! version. How a page's version may grow depends on its number:
//!
//! ```text
//!   page of 8     0 1        2 3              4 5 6 7
//!   changed by    page_mut   write_at of it   write_at of all four, under a lock of the test for them
//! ```
//!
//! `MILLPOND_ROUNDS=100000` plays for longer, `MILLPOND_SEED` otherwise; what threads do when is chance all the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::device::{Access, Buffer, Device, DeviceFile, Op, Request, Segments, Threads};
use millpond::{Error, File, OpenOptions, PageCache, Preset};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use support::{Call, Draw, Hooked, Kind, Place, What, bounded, until};

const PAGE: usize = 4096;
/// Pages of a file that are never cut off, and those behind them, which are.
const PAGES: u64 = 160;
const TAIL: u64 = 24;

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

/// The page that `version` of `page` is; version 0 is zeros.
fn stamped(file: u64, page: u64, version: u64) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    if version > 0 {
        let seed = version ^ page << 32 ^ file << 56;
        for (n, word) in bytes.chunks_exact_mut(8).enumerate() {
            let value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n as u64) | 1;
            word.copy_from_slice(&if n == 0 { version } else { value }.to_le_bytes());
        }
    }
    bytes
}

/// The first `len` bytes of a file that is being written. Read past the kernel's page cache, as the cache writes it:
/// where pages of the kernel's are in the way of a direct write, Linux fails the file's next `fdatasync` with `EIO`
/// (`dio_warn_stale_pagecache`, 6.18).
fn on_disk(path: &Path, len: usize) -> Vec<u8> {
    let mut buffer = Buffer::new(len);
    let request = Request {
        token: 0,
        op: Op::Read,
        file: Arc::new(DeviceFile::open(path, Access::Read).unwrap()),
        offset: 0,
        segments: Segments::of(buffer.clone(), 0, len),
    };
    assert_eq!(Threads::new("a test").transfer(&request).unwrap(), len);
    drop(request);
    Buffer::bytes(&mut buffer).unwrap().to_vec()
}

fn version_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// The version of a page that must be whole.
fn whole(file: u64, page: u64, bytes: &[u8]) -> u64 {
    let version = version_of(bytes);
    assert!(
        bytes == stamped(file, page, version),
        "page {page} of file {file} is torn: version {version}"
    );
    version
}

/// What is known of one page.
#[derive(Default)]
struct Truth {
    /// A version that readers must see, or a newer one.
    done: AtomicU64,
    /// The newest that was ever begun.
    begun: AtomicU64,
    /// Whoever changes it by `write_at` holds the one of the first page.
    turn: Mutex<()>,
}

struct Stage {
    cache: PageCache,
    files: Vec<File>,
    truth: Vec<Vec<Truth>>,
    /// Of each file: whoever changes something behind the pages that stay shares it, unless he wants to be alone there.
    behind: Vec<RwLock<()>>,
}

impl Stage {
    fn new(kind: Kind, folder: &Path, files: u64) -> Option<Stage> {
        let builder = PageCache::builder().memory(800 << 10);
        let cache = builder.device(kind.device()?).build().unwrap();
        let files: Vec<_> = (0..files)
            .map(|n| open(&cache, &folder.join(n.to_string())))
            .collect();
        for file in &files {
            file.set_len((PAGES + TAIL) * PAGE as u64).unwrap();
        }
        let truth = files
            .iter()
            .map(|_| (0..PAGES).map(|_| Truth::default()).collect())
            .collect();
        let behind = files.iter().map(|_| RwLock::new(())).collect();
        Some(Stage {
            cache,
            files,
            truth,
            behind,
        })
    }

    fn check(&self, file: u64, page: u64, before: u64, bytes: &[u8]) -> u64 {
        let version = whole(file, page, bytes);
        let begun = self.truth[file as usize][page as usize]
            .begun
            .load(Ordering::SeqCst);
        assert!(
            (before..=begun).contains(&version),
            "page {page} of file {file}: version {version}, but {before} was done and {begun} begun"
        );
        version
    }

    fn done(&self, file: u64, page: u64) -> u64 {
        self.truth[file as usize][page as usize]
            .done
            .load(Ordering::SeqCst)
    }

    fn read(&self, draw: &mut Draw, file: u64, page: u64) {
        let handle = &self.files[file as usize];
        if draw.below(3) > 0 {
            let before = self.done(file, page);
            let guard = handle.page(page).unwrap();
            let version = self.check(file, page, before, &guard);
            for _ in 0..draw.below(3) {
                std::thread::yield_now();
            }
            assert_eq!(version, whole(file, page, &guard), "it changed under a guard");
            return;
        }
        let count = (1 + draw.below(40)).min(PAGES - page);
        let before: Vec<_> = (page..page + count).map(|page| self.done(file, page)).collect();
        let mut buf = vec![0; count as usize * PAGE];
        assert_eq!(handle.read_at(&mut buf, page * PAGE as u64).unwrap(), buf.len());
        for (n, bytes) in buf.chunks(PAGE).enumerate() {
            self.check(file, page + n as u64, before[n], bytes);
        }
    }

    fn change(&self, file: u64, page: u64) {
        let (handle, truth) = (&self.files[file as usize], &self.truth[file as usize]);
        let at = |page: u64| &truth[page as usize];
        if page % 8 < 2 {
            let before = self.done(file, page);
            let mut guard = handle.page_mut(page).unwrap();
            let version = self.check(file, page, before, &guard) + 1;
            at(page).begun.fetch_max(version, Ordering::SeqCst);
            guard.copy_from_slice(&stamped(file, page, version));
            drop(guard);
            at(page).done.fetch_max(version, Ordering::SeqCst);
            return;
        }
        let (first, count) = if page % 8 < 4 {
            (page, 1)
        } else {
            (page / 4 * 4, 4)
        };
        let _turn = at(first).turn.lock();
        let version = self.done(file, first) + 1;
        let pages = first..first + count;
        let bytes: Vec<u8> = pages
            .clone()
            .flat_map(|page| stamped(file, page, version))
            .collect();
        pages
            .clone()
            .for_each(|page| at(page).begun.store(version, Ordering::SeqCst));
        handle.write_at(&bytes, first * PAGE as u64).unwrap();
        pages
            .clone()
            .for_each(|page| at(page).done.store(version, Ordering::SeqCst));
    }

    /// Syncs. What was not changed since before must be in the file as it is in memory.
    fn sync(&self, file: u64) {
        let truth = &self.truth[file as usize];
        let seen: Vec<_> = truth
            .iter()
            .map(|page| page.done.load(Ordering::SeqCst))
            .collect();
        let handle = &self.files[file as usize];
        handle.sync_data().unwrap();
        let bytes = on_disk(handle.path(), PAGES as usize * PAGE);
        for (page, bytes) in bytes.chunks(PAGE).enumerate() {
            if truth[page].begun.load(Ordering::SeqCst) == seen[page] {
                let version = whole(file, page as u64, bytes);
                assert_eq!(version, seen[page], "page {page} of file {file} on the disk");
            }
        }
    }

    /// Behind the pages that stay, whatever is there is a stamp up to some place and zeros from there on.
    fn tail(&self, draw: &mut Draw, file: u64) {
        let handle = &self.files[file as usize];
        let page = PAGES + draw.below(TAIL);
        if draw.below(8) == 0 {
            let _alone = self.behind[file as usize].write();
            let len = page * PAGE as u64 + draw.below(PAGE as u64 / 8) * 8;
            handle.set_len(len).unwrap();
            handle.set_len((page + 2) * PAGE as u64).unwrap();
            let mut bytes = vec![7; 2 * PAGE];
            let bytes = &mut bytes[(len % PAGE as u64) as usize..];
            assert_eq!(handle.read_at(bytes, len).unwrap(), bytes.len());
            assert!(
                bytes.iter().all(|&byte| byte == 0),
                "file {file}: what was behind {len} is back"
            );
            return;
        }
        let _beside = self.behind[file as usize].read();
        match draw.below(8) {
            0 | 1 => {
                let len = PAGES * PAGE as u64 + draw.below(TAIL * PAGE as u64 / 8) * 8;
                handle.set_len(len).unwrap();
            }
            2 | 3 => handle
                .write_at(&stamped(file, page, 1 + draw.below(1 << 40)), page * PAGE as u64)
                .unwrap(),
            4 => handle
                .prefetch(page * PAGE as u64, (TAIL * PAGE as u64) / 2)
                .unwrap(),
            5 => match handle.page_mut(page) {
                Ok(mut guard) => {
                    let len = guard.len();
                    guard.copy_from_slice(&stamped(file, page, 1 + draw.below(1 << 40))[..len]);
                }
                Err(error) => assert!(matches!(error, Error::OutOfRange { .. }), "{error}"),
            },
            _ => match handle.page(page) {
                Ok(guard) => is_stamp_and_zeros(file, page, &guard),
                Err(error) => assert!(matches!(error, Error::OutOfRange { .. }), "{error}"),
            },
        }
    }

    fn play(&self, seed: u64, rounds: u64) {
        let mut draw = Draw(seed);
        for _ in 0..rounds {
            let file = draw.below(self.files.len() as u64);
            // A quarter of the pages is as hot as all others together.
            let span = if draw.below(2) == 0 { PAGES } else { PAGES / 4 };
            let page = draw.below(span);
            match draw.below(100) {
                0..50 => self.read(&mut draw, file, page),
                50..80 => self.change(file, page),
                80..81 => self.sync(file),
                81..82 => self.files[file as usize].prefetch(page * 4096, 1 << 18).unwrap(),
                82..83 => {
                    let memory = (800 << 10) + draw.below(400 << 10);
                    self.cache.set_memory(memory).unwrap();
                }
                83..84 => {
                    let preset = Preset::ALL[draw.below(3) as usize];
                    self.cache.set_options(preset.options()).unwrap();
                }
                _ => self.tail(&mut draw, file),
            }
        }
    }
}

fn is_stamp_and_zeros(file: u64, page: u64, bytes: &[u8]) {
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    let end = (bytes.len() - zeros).next_multiple_of(8).min(bytes.len());
    if end > 0 {
        let stamp = stamped(file, page, version_of(&bytes[..8]));
        assert!(
            bytes[..end] == stamp[..end],
            "page {page} of file {file}, {end} bytes"
        );
    }
}

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

fn no_page_is_torn_old_or_lost(kind: Kind, place: Place, rounds: u64) {
    bounded(move || {
        let folder = place.folder();
        let Some(stage) = Stage::new(kind, folder.path(), 2) else {
            return;
        };
        let (seed, rounds) = (setting("MILLPOND_SEED", 0), setting("MILLPOND_ROUNDS", rounds));
        std::thread::scope(|scope| {
            for thread in 0..5 {
                let stage = &stage;
                scope.spawn(move || stage.play(seed + thread, rounds));
            }
        });
        let occupancy = stage.cache.stats().occupancy;
        assert_eq!(occupancy.dirtiers_blocked, 0, "{occupancy:?}");
        stage.cache.sync_all().unwrap();
        for (file, handle) in (0..).zip(&stage.files) {
            for page in 0..PAGES {
                let truth = &stage.truth[file as usize][page as usize];
                let newest = truth.done.load(Ordering::SeqCst);
                assert_eq!(newest, truth.begun.load(Ordering::SeqCst));
                assert_eq!(whole(file, page, &handle.page(page).unwrap()), newest);
            }
            let disk = std::fs::read(handle.path()).unwrap();
            assert_eq!(disk.len() as u64, handle.len());
            let mut bytes = vec![0; disk.len()];
            assert_eq!(handle.read_at(&mut bytes, 0).unwrap(), disk.len());
            assert!(bytes == disk, "file {file} on the disk is another than in memory");
            for (n, bytes) in disk.chunks(PAGE).enumerate().skip(PAGES as usize) {
                is_stamp_and_zeros(file, n as u64, bytes);
            }
        }
    });
}

#[test]
fn no_page_is_torn_old_or_lost_by_the_ring_on_disk() {
    no_page_is_torn_old_or_lost(Kind::Ring, Place::Disk, 6_000);
}

#[test]
fn no_page_is_torn_old_or_lost_by_threads_in_memory() {
    no_page_is_torn_old_or_lost(Kind::Pool, Place::Memory, 6_000);
}

#[test]
fn threads_that_need_the_same_page_share_one_read() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 100 * PAGE]).unwrap();
        let reads = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
        let counted = reads.clone();
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if matches!(call.what, What::OwnRead | What::Submit(Op::Read)) {
                for page in 0..call.bytes.div_ceil(PAGE) as u64 {
                    *counted
                        .lock()
                        .entry(call.offset / PAGE as u64 + page)
                        .or_default() += 1;
                }
            }
        });
        let builder = PageCache::builder().memory(2 << 20).device(device);
        let cache = builder.build().unwrap();
        let file = open(&cache, &path);
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (file, start) = (&file, &start);
                scope.spawn(move || {
                    for page in 0..100 {
                        start.wait();
                        match thread % 4 {
                            0 => assert_eq!(file.page(page).unwrap()[0], 7),
                            1 => assert_eq!(file.page_mut(page).unwrap()[0], 7),
                            2 => file.write_at(&[7; 10], page * PAGE as u64 + 50).unwrap(),
                            _ => {
                                let mut buf = [0; 100];
                                assert_eq!(file.read_at(&mut buf, page * PAGE as u64).unwrap(), 100);
                                assert_eq!(buf, [7; 100]);
                            }
                        }
                    }
                });
            }
        });
        let reads = reads.lock();
        assert_eq!(reads.len(), 100);
        let twice: Vec<_> = reads.iter().filter(|&(_, &count)| count > 1).collect();
        assert!(twice.is_empty(), "page and how often: {twice:?}");
    });
}

#[test]
fn guards_that_are_held_for_long_stop_nobody_who_wants_other_pages() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let stage = Stage::new(Kind::Pool, folder.path(), 1).unwrap();
        let file = &stage.files[0];
        // Pages that nobody else touches, some of them changed, in a pool of 64 frames.
        let other = open(&stage.cache, &folder.path().join("other"));
        other.set_len(16 * PAGE as u64).unwrap();
        let read: Vec<_> = (0..12).map(|page| other.page(page).unwrap()).collect();
        let mut changed: Vec<_> = (12..16).map(|page| other.page_mut(page).unwrap()).collect();
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let stage = &stage;
                scope.spawn(move || stage.play(seed, 1_500));
            }
        });
        file.sync_data().unwrap();
        assert!(read.iter().all(|page| page.iter().all(|&byte| byte == 0)));
        changed.iter_mut().for_each(|page| page.fill(3));
        drop((read, changed));
        other.sync_data().unwrap();
        assert!(
            std::fs::read(other.path()).unwrap()[12 * PAGE..]
                .iter()
                .all(|&byte| byte == 3)
        );
    });
}

#[test]
fn guards_may_be_dropped_by_other_threads() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = open(&cache, &folder.path().join("data"));
        file.set_len(20 * PAGE as u64).unwrap();
        std::thread::scope(|scope| {
            for page in 0..20 {
                // More than a thread has hazard slots for.
                let (read, mut changed) = (file.page(page).unwrap(), file.page_mut((page + 1) % 20).unwrap());
                changed[0] += 1;
                scope.spawn(move || drop((read, changed)));
                until("it can be had again", || file.page_mut(page).is_ok());
            }
        });
        file.sync_data().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(bytes.chunks(PAGE).all(|page| page[0] == 1));
    });
}

#[test]
fn a_file_outlives_its_cache_and_a_cache_its_files() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    for kind in [Kind::Ring, Kind::Pool] {
        let Some(device) = kind.device() else { continue };
        let path = path.clone();
        bounded(move || {
            let cache = PageCache::builder()
                .memory(2 << 20)
                .device(device)
                .build()
                .unwrap();
            let (file, again) = (open(&cache, &path), cache.clone());
            drop(cache);
            file.set_len(0).unwrap();
            file.write_at(&[1; 100 * PAGE], 0).unwrap();
            file.prefetch(0, 100 * PAGE as u64).unwrap();
            drop(again);
            assert_eq!(file.page(99).unwrap()[0], 1);
            file.write_at(&[2; PAGE], 0).unwrap();
            // Reads and writes on their way, and nobody else to wait for them.
            drop(file);
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                bytes.len() == 100 * PAGE
                    && bytes[..PAGE] == [2; PAGE]
                    && bytes[PAGE..].iter().all(|&b| b == 1)
            );
        });
    }
}

#[test]
fn files_that_many_threads_open_and_drop_keep_everything() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 400;
    bounded(|| {
        let folder = Place::Memory.folder();
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (cache, folder) = (&cache, folder.path());
                    scope.spawn(move || {
                        let mut draw = Draw(thread);
                        for round in 0..ROUNDS {
                            let file = open(cache, &folder.join(draw.below(2).to_string()));
                            // Each thread has a number of its own in the last page that it has grown the file to.
                            let at = (round / 40 * THREADS + thread) * PAGE as u64 + 8;
                            let mut number = [0; 8];
                            let read = file.read_at(&mut number, at).unwrap();
                            assert!(read == 8 || u64::from_le_bytes(number) == 0, "{read} bytes");
                            let next = u64::from_le_bytes(number) + 1;
                            file.write_at(&next.to_le_bytes(), at).unwrap();
                            if draw.below(8) == 0 {
                                file.close().unwrap();
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    cache.sync_all().unwrap();
                }
            });
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            over.store(true, Ordering::SeqCst);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        assert!(cache.take_lost().is_empty());
        let count: u64 = (0..2)
            .flat_map(|file| {
                let bytes = std::fs::read(folder.path().join(file.to_string())).unwrap();
                let numbers: Vec<_> = bytes.chunks(PAGE).map(|page| version_of(&page[8..])).collect();
                numbers
            })
            .sum();
        assert_eq!(count, THREADS * ROUNDS);
    });
}
