//! A small pool, files full of stamps, and what is known of each page while threads play with them.

use super::{PAGE, open, version_of};
use crate::support::{Draw, Kind};
use millpond::device::{Access, Buffer, Device, DeviceFile, Op, Request, Segments, Threads};
use millpond::{Error, File, PageCache, Preset};
use parking_lot::{Mutex, RwLock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of a file that are never cut off, and those after them, which are.
pub(crate) const PAGES: u64 = 160;

const TAIL: u64 = 24;

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
        reason: None,
        file: Arc::new(DeviceFile::open(path, Access::Read).unwrap()),
        offset: 0,
        segments: Segments::of(buffer.clone(), 0, len),
    };
    assert_eq!(Threads::new("a test").transfer(&request).unwrap(), len);
    drop(request);
    Buffer::bytes(&mut buffer).unwrap().to_vec()
}

/// The version of a page that must be whole.
pub(crate) fn whole(file: u64, page: u64, bytes: &[u8]) -> u64 {
    let version = version_of(bytes);
    assert!(
        bytes == stamped(file, page, version),
        "page {page} of file {file} is torn: version {version}"
    );
    version
}

/// The known state of one page.
#[derive(Default)]
pub(crate) struct Truth {
    /// A version that readers must see, or a newer one.
    pub(crate) done: AtomicU64,
    /// The newest that was ever begun.
    pub(crate) begun: AtomicU64,
    /// A thread that changes it by `write_at` holds the one of the first page.
    turn: Mutex<()>,
}

pub(crate) struct Stage {
    pub(crate) cache: PageCache,
    pub(crate) files: Vec<File>,
    pub(crate) truth: Vec<Vec<Truth>>,
    /// Of each file: a thread that changes something behind the pages that stay shares it, unless it wants to
    /// be alone there.
    behind: Vec<RwLock<()>>,
}

impl Stage {
    pub(crate) fn new(kind: Kind, folder: &Path, files: u64) -> Option<Stage> {
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

    pub(crate) fn play(&self, seed: u64, rounds: u64) {
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
                    let preset = Preset::ALL[draw.below(Preset::ALL.len() as u64) as usize];
                    self.cache.set_options(preset.options()).unwrap();
                }
                _ => self.tail(&mut draw, file),
            }
        }
    }
}

pub(crate) fn is_stamp_and_zeros(file: u64, page: u64, bytes: &[u8]) {
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
