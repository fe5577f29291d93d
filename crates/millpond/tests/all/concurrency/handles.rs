//! Guards, files and caches that threads drop where and when they like.

use super::{PAGE, open, version_of};
use crate::support::{Draw, Kind, Place, bounded, until};
use millpond::PageCache;
use std::sync::atomic::{AtomicBool, Ordering};

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
            // Reads and writes on their way, and no other handle to wait for them.
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
