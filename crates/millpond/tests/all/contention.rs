//! Many threads that want the same thing at the same time: one page, one file, the last frames.
//!
//! What they do to one another is checked by counting: no change is lost, no thread reads half of one, all
//! threads get on. `concurrency/` has threads that do everything to everything.
//!
//! `MILLPOND_ROUNDS=n` plays for longer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Draw, Hooked, Kind, Place, What, bounded, linger, number, until};
use millpond::{Error, File, OpenOptions, PageCache, PageRef};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

const PAGE: usize = 4096;
/// The least that a cache of 4 KiB pages can have: 64 frames.
const LEAST: u64 = (512 << 10) + 64 * (PAGE as u64 + 66);

fn rounds(otherwise: u64) -> u64 {
    number("MILLPOND_ROUNDS").unwrap_or(otherwise)
}

fn cache(kind: Kind) -> Option<PageCache> {
    let builder = PageCache::builder().memory(LEAST).device(kind.device()?);
    Some(builder.calibrate(false).build().unwrap())
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

/// A number at both ends of a page, which must be the same one.
fn number_of(page: &[u8]) -> u64 {
    let [first, last] = [0, PAGE - 8].map(|at| u64::from_le_bytes(page[at..at + 8].try_into().unwrap()));
    assert_eq!(first, last, "half of a change");
    first
}

fn set_number(page: &mut [u8], number: u64) {
    for at in [0, PAGE - 8] {
        page[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
}

/// Runs `work` with each number below `threads` on a thread of its own, and `beside` again and again until they are done.
fn while_they_work(threads: u64, work: impl Fn(u64) + Sync, beside: &[&(dyn Fn(&mut Draw) + Sync)]) {
    let (left, start) = (AtomicU64::new(threads), Barrier::new(threads as usize));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (left, start, work) = (&left, &start, &work);
            scope.spawn(move || {
                // Counted also if it panics, so that the others come to their end.
                struct Done<'a>(&'a AtomicU64);
                impl Drop for Done<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Ordering::SeqCst);
                    }
                }
                let _done = Done(left);
                start.wait();
                work(thread);
            });
        }
        for act in beside {
            let left = &left;
            scope.spawn(move || {
                let mut draw = Draw(1);
                while left.load(Ordering::SeqCst) > 0 {
                    act(&mut draw);
                }
            });
        }
    });
}

/// Six threads add to one page, others read it, sync it, push it out of memory and change the size of memory.
fn every_change_of_one_page_counts(kind: Kind, place: Place) {
    bounded(move || {
        let folder = place.folder();
        let Some(cache) = cache(kind) else { return };
        let (file, other) = (
            open(&cache, &folder.path().join("one")),
            open(&cache, &folder.path().join("other")),
        );
        file.set_len(PAGE as u64).unwrap();
        other.set_len(300 * PAGE as u64).unwrap();
        let (rounds, done) = (rounds(1_500), AtomicU64::new(0));
        let add = |thread: u64| {
            for round in 0..rounds {
                if (thread + round).is_multiple_of(3) {
                    let seen = number_of(&file.page(0).unwrap());
                    assert!(seen <= 6 * rounds);
                }
                let mut page = file.page_mut(0).unwrap();
                let number = number_of(&page);
                set_number(&mut page, number + 1);
                drop(page);
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        let read = |_: &mut Draw| {
            let before = done.load(Ordering::SeqCst);
            let mut page = vec![0; PAGE];
            assert_eq!(file.read_at(&mut page, 0).unwrap(), PAGE);
            assert!(number_of(&page) >= before, "a change is gone");
        };
        let sync = |_: &mut Draw| file.sync_data().unwrap();
        let push_out = |draw: &mut Draw| drop(other.page(draw.below(300)).unwrap());
        let resize = |draw: &mut Draw| cache.set_memory(LEAST + draw.below(64) * PAGE as u64).unwrap();
        while_they_work(6, add, &[&read, &sync, &push_out, &resize]);
        file.sync_data().unwrap();
        assert_eq!(number_of(&file.page(0).unwrap()), 6 * rounds);
        assert_eq!(number_of(&std::fs::read(file.path()).unwrap()), 6 * rounds);
    });
}

#[test]
fn every_change_of_one_page_counts_by_the_ring_on_disk() {
    every_change_of_one_page_counts(Kind::Ring, Place::Disk);
}

#[test]
fn every_change_of_one_page_counts_by_threads_in_memory() {
    every_change_of_one_page_counts(Kind::Pool, Place::Memory);
}

/// Threads append to one file, of which less than a tenth fits into memory, while one syncs and one shrinks memory and
/// gives it back. What had been appended before a sync began is in the file when it ends.
#[test]
fn appends_by_threads_during_syncs_are_kept() {
    const THREADS: u64 = 4;
    bounded(|| {
        let folder = Place::Disk.folder();
        let Some(cache) = cache(Kind::Ring).or_else(|| cache(Kind::Pool)) else {
            return;
        };
        let file = open(&cache, &folder.path().join("log"));
        let (rounds, end) = (rounds(200), AtomicU64::new(0));
        let written: Vec<_> = (0..THREADS * rounds).map(|_| AtomicBool::new(false)).collect();
        let append = |_: u64| {
            for _ in 0..rounds {
                let number = end.fetch_add(1, Ordering::SeqCst);
                let mut page = vec![number as u8; PAGE];
                set_number(&mut page, number + 1);
                file.write_at(&page, number * PAGE as u64).unwrap();
                written[number as usize].store(true, Ordering::SeqCst);
            }
        };
        let sync = |_: &mut Draw| {
            let before: Vec<_> = written.iter().map(|w| w.load(Ordering::SeqCst)).collect();
            file.sync_data().unwrap();
            let len = std::fs::metadata(file.path()).unwrap().len();
            let last = before.iter().rposition(|&w| w).map_or(0, |n| n as u64 + 1);
            assert!(
                len >= last * PAGE as u64,
                "{len} bytes, but {last} pages were promised"
            );
        };
        let resize = |draw: &mut Draw| cache.set_memory(LEAST + draw.below(64) * PAGE as u64).unwrap();
        while_they_work(THREADS, append, &[&sync, &resize]);
        file.sync_data().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes.len() as u64, THREADS * rounds * PAGE as u64);
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            assert_eq!(number_of(page), n as u64 + 1);
            assert!(page[8..PAGE - 8].iter().all(|&byte| byte == n as u8), "page {n}");
        }
    });
}

/// A log's flush takes the length, syncs, and says that the log is durable so far. So what makes a file longer is seen by a
/// sync as soon as it is seen in the length.
#[test]
fn all_that_the_length_shows_is_on_the_device_after_a_sync() {
    const RECORD: u64 = 1024;
    bounded(|| {
        let folder = Place::Memory.folder();
        let file = open(&cache(Kind::Pool).unwrap(), &folder.path().join("log"));
        let append = |_: u64| {
            for number in 0..rounds(4000) {
                file.append(&vec![number as u8 | 1; RECORD as usize]).unwrap();
            }
        };
        let flush = |_: &mut Draw| {
            let len = file.len();
            file.sync_data().unwrap();
            let bytes = std::fs::read(file.path()).unwrap();
            let missing = bytes[..len as usize].iter().position(|&byte| byte == 0);
            assert_eq!(missing, None, "zeros in a record, of {len} bytes");
        };
        while_they_work(1, append, &[&flush]);
    });
}

/// Guards hold most of the least pool; eight threads have the rest of it for a file a hundred times as large.
/// Each frame changes its page all the time, and no thread sees another page in it.
#[test]
fn threads_take_turns_with_the_last_frames() {
    const PAGES: u64 = 2_000;
    bounded(|| {
        let folder = Place::Memory.folder();
        let path = folder.path().join("data");
        let mut content = vec![0; PAGES as usize * PAGE];
        for (n, page) in content.chunks_mut(PAGE).enumerate() {
            set_number(page, n as u64);
        }
        std::fs::write(&path, content).unwrap();
        let cache = cache(Kind::Pool).unwrap();
        let (file, held) = (open(&cache, &path), open(&cache, &folder.path().join("held")));
        held.set_len(40 * PAGE as u64).unwrap();
        // A page that was there is pinned in another way than one that was missing, as far as a thread has slots for that.
        held.prefetch(0, 8 * PAGE as u64).unwrap();
        until("they are there", || {
            (0..8).all(|page| held.is_resident(page * PAGE as u64))
        });
        let guards: Vec<PageRef<'_>> = (0..40).map(|page| held.page(page).unwrap()).collect();
        let (rounds, changes) = (rounds(1_000), AtomicU64::new(0));
        let use_them = |thread: u64| {
            let mut draw = Draw(thread);
            for _ in 0..rounds {
                let page = draw.below(PAGES);
                if draw.below(8) > 0 {
                    let guard = file.page(page).unwrap();
                    assert_eq!(number_of(&guard), page);
                    std::thread::yield_now();
                    assert_eq!(number_of(&guard), page, "another page in a frame that is held");
                    continue;
                }
                let mut guard = file.page_mut(page).unwrap();
                assert_eq!(number_of(&guard), page);
                // Only bytes that say how often.
                let times = u64::from_le_bytes(guard[8..16].try_into().unwrap());
                guard[8..16].copy_from_slice(&(times + 1).to_le_bytes());
                drop(guard);
                changes.fetch_add(1, Ordering::SeqCst);
            }
        };
        while_they_work(8, use_them, &[]);
        assert!(guards.iter().all(|page| page.iter().all(|&byte| byte == 0)));
        drop(guards);
        file.sync_data().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let times = bytes
            .chunks(PAGE)
            .map(|page| u64::from_le_bytes(page[8..16].try_into().unwrap()));
        assert_eq!(times.sum::<u64>(), changes.into_inner());
        let evicted = cache.stats().counters.pgfree;
        assert!(evicted > rounds, "{evicted} frames changed hands");
    });
}

/// Four threads wait for a page, and the one that reads it for them all panics: they hear of it and do not wait on. No
/// test had noticed when they were not told.
#[test]
fn waiters_for_a_page_get_an_error_when_its_reader_panics() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 8 * PAGE]).unwrap();
        let (reading, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, may_go) = (reading.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::OwnRead {
                seen.store(true, Ordering::SeqCst);
                until("the others wait", || may_go.load(Ordering::SeqCst));
                panic!("the device breaks");
            }
        });
        let builder = PageCache::builder().memory(LEAST).device(device);
        let cache = builder.calibrate(false).build().unwrap();
        let file = open(&cache, &path);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| file.page(3).map(|page| page[0]));
            until("the read", || reading.load(Ordering::SeqCst));
            let others: Vec<_> = (0..4)
                .map(|n| {
                    let file = &file;
                    scope.spawn(move || match n % 2 {
                        0 => file.page(3).map(|page| page[0]),
                        _ => file.page_mut(3).map(|page| page[0]),
                    })
                })
                .collect();
            // Whether they sleep can't be seen; they would need this long on a busy machine.
            for _ in 0..4 {
                linger(|| others.iter().any(|other| other.is_finished()));
            }
            go.store(true, Ordering::SeqCst);
            assert!(reader.join().is_err());
            for other in others {
                assert!(matches!(other.join().unwrap(), Err(Error::Poisoned { .. })));
            }
        });
    });
}
