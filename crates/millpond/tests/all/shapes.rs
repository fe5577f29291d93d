//! Files of every shape: odd tails, holes, appends, growth by guards, other names, unlinked files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Draw, Place, bounded};
use millpond::{Error, File, OpenOptions, PageCache};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Barrier;

const PAGE_SIZES: [u64; 5] = [4096, 8192, 16_384, 32_768, 65_536];

fn cache(page_size: u64) -> PageCache {
    let builder = PageCache::builder().page_size(page_size);
    builder
        .memory((512 << 10) + 96 * (page_size + 64))
        .build()
        .unwrap()
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

fn drawn(len: u64) -> Vec<u8> {
    let mut draw = Draw(len);
    (0..len).map(|_| draw.bits() as u8).collect()
}

fn read(file: &File, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0xee; len as usize];
    let read = file.read_at(&mut bytes, at).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn a_file_has_exactly_its_bytes_with_every_tail_and_page_size() {
    for place in [Place::Disk, Place::Memory] {
        let folder = place.folder();
        let path = folder.path().join("data");
        for size in PAGE_SIZES {
            let tails = [
                1,
                511,
                512,
                513,
                4095,
                4096,
                4097,
                size - 1,
                size,
                size + 1,
                3 * size + 777,
            ];
            for len in [0].into_iter().chain(tails) {
                let mut expected = drawn(len);
                let cache = cache(size);
                let file = open(&cache, &path);
                file.set_len(0).unwrap();
                file.write_at(&expected, 0).unwrap();
                file.sync_data().unwrap();
                assert!(
                    std::fs::read(&path).unwrap() == expected,
                    "{len} bytes, pages of {size}"
                );
                drop(file);
                // With other pages, by a guard, and without a sync of our own.
                let other = self::cache(PAGE_SIZES[(len % 5) as usize]);
                let file = open(&other, &path);
                assert!(
                    read(&file, 0, len + 100) == expected,
                    "{len} bytes, pages of {size}"
                );
                if len > 0 {
                    let last = (len - 1) / other.options().page_size.bytes();
                    *file.page_mut(last).unwrap().last_mut().unwrap() ^= 0x55;
                    *expected.last_mut().unwrap() ^= 0x55;
                }
                file.append(b"x").unwrap();
                expected.push(b'x');
                drop(file);
                assert!(
                    std::fs::read(&path).unwrap() == expected,
                    "{len} bytes, pages of {size}"
                );
            }
        }
    }
}

/// Where the file system has data, in pages of 64 KiB.
fn pages_with_data(path: &Path) -> Vec<u64> {
    use rustix::fs::{SeekFrom, seek};
    let file = std::fs::File::open(path).unwrap();
    let (mut pages, mut at) = (Vec::new(), 0);
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        let hole = seek(&file, SeekFrom::Hole(data)).unwrap();
        pages.extend(data >> 16..hole.div_ceil(1 << 16));
        at = hole;
    }
    pages.dedup();
    pages
}

#[test]
fn a_hole_stays_a_hole_when_it_is_read_and_when_its_neighbours_are_written() {
    for place in [Place::Disk, Place::Memory] {
        for size in PAGE_SIZES {
            let folder = place.folder();
            let path = folder.path().join("data");
            let sparse = std::fs::File::create(&path).unwrap();
            sparse.set_len(100 << 16).unwrap();
            let data = vec![7; 1 << 16];
            std::os::unix::fs::FileExt::write_all_at(&sparse, &data, 50 << 16).unwrap();
            sparse.sync_all().unwrap();
            let before = pages_with_data(&path);
            if before != [50] {
                println!("skipped: {place:?} tells no holes: {before:?}");
                continue;
            }
            let cache = cache(size);
            let file = open(&cache, &path);
            let all = read(&file, 0, 200 << 16);
            assert_eq!(all.len(), 100 << 16);
            assert!(
                all.iter()
                    .enumerate()
                    .all(|(at, &byte)| byte == if at >> 16 == 50 { 7 } else { 0 })
            );
            file.sync_data().unwrap();
            assert_eq!(pages_with_data(&path), [50], "read only, pages of {size}");
            // Pages beside it, and a piece of one inside.
            file.write_at(&data, 49 << 16).unwrap();
            file.write_at(&data, 51 << 16).unwrap();
            file.write_at(b"island", (80 << 16) + 70_00).unwrap();
            file.close().unwrap();
            assert_eq!(pages_with_data(&path), [49, 50, 51, 80], "pages of {size}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 100 << 16);
        }
    }
}

/// A write far past the end leaves a hole between, on the device too.
#[test]
fn the_gap_between_the_old_end_and_a_write_past_it_is_zeros_and_not_written() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let cache = cache(4096);
    let file = open(&cache, &path);
    file.write_at(b"begin", 0).unwrap();
    file.write_at(b"end", 500 << 20).unwrap();
    assert_eq!(file.len(), (500 << 20) + 3);
    assert_eq!(read(&file, (500 << 20) - 5, 100), b"\0\0\0\0\0end");
    assert_eq!(read(&file, 3, 5), b"in\0\0\0");
    file.sync_data().unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), (500 << 20) + 3);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} blocks", metadata.blocks());
}

/// Records of any length, from threads with handles of their own: none is torn, lost or over another.
#[test]
fn appends_of_many_threads_and_handles_are_each_whole_and_where_they_say() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let cache = cache(4096);
        let first = open(&cache, &path);
        first.write_at(b"head", 0).unwrap();
        let record = |thread: u64, n: u64| {
            let len = Draw(thread << 32 | n).below(if n.is_multiple_of(8) { 300_000 } else { 6_000 }) + 16;
            let mut bytes = vec![(thread * 50 + n) as u8; len as usize];
            bytes[..8].copy_from_slice(&len.to_le_bytes());
            bytes[8..16].copy_from_slice(&(thread << 32 | n).to_le_bytes());
            bytes
        };
        let mut places: Vec<(u64, Vec<u8>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (cache, path) = (&cache, &path);
                    scope.spawn(move || {
                        let file = open(cache, path);
                        let append = |n| {
                            let bytes = record(thread, n);
                            (file.append(&bytes).unwrap(), bytes)
                        };
                        (0..60).map(append).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        places.sort();
        let mut end = 4;
        for (at, bytes) in &places {
            assert_eq!(*at, end);
            assert!(read(&first, *at, bytes.len() as u64) == *bytes);
            end += bytes.len() as u64;
        }
        assert_eq!((first.len(), first.append(b"").unwrap()), (end, end));
        first.close().unwrap();
        let on_disk = std::fs::read(&path).unwrap();
        let expected: Vec<u8> = places.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert!(on_disk[..4] == *b"head" && on_disk[4..] == expected);
    });
}

#[test]
fn a_file_grows_by_guards_of_whole_pages() {
    for size in PAGE_SIZES {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let cache = cache(size);
        let file = open(&cache, &path);
        file.write_at(b"abc", 0).unwrap();
        let mut page = file.page_mut_or_grow(0).unwrap();
        assert_eq!((page.len() as u64, &page[..5]), (size, &b"abc\0\0"[..]));
        page[size as usize - 1] = b'z';
        drop(page);
        assert_eq!(file.len(), size);
        let page = file.page_mut_or_grow(4).unwrap();
        assert!(page.len() as u64 == size && page.iter().all(|&byte| byte == 0));
        assert_eq!(
            file.len(),
            5 * size,
            "from the moment at which the guard is there"
        );
        drop(page);
        file.page_mut_or_grow(2).unwrap().fill(2);
        assert_eq!(file.len(), 5 * size, "inside it is an ordinary guard");
        file.sync_data().unwrap();
        let mut expected = vec![0; 5 * size as usize];
        expected[..3].copy_from_slice(b"abc");
        expected[size as usize - 1] = b'z';
        expected[2 * size as usize..3 * size as usize].fill(2);
        assert!(std::fs::read(&path).unwrap() == expected);
        // A page in part that is not in memory.
        drop(file);
        std::fs::write(&path, &expected[..size as usize + 10]).unwrap();
        let file = open(&cache, &path);
        file.page_mut_or_grow(1).unwrap()[20] = 9;
        file.close().unwrap();
        expected.truncate(2 * size as usize);
        expected[size as usize + 20] = 9;
        assert!(std::fs::read(&path).unwrap() == expected);
    }
}

/// A thread that wants the page in which the file ends waits for the one that holds it, and keeps that one
/// from nothing meanwhile.
#[test]
fn a_caller_waiting_to_grow_the_last_page_keeps_its_holder_from_no_write_within_the_file() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let cache = cache(4096);
        let file = open(&cache, &folder.path().join("data"));
        file.write_at(b"a part", 0).unwrap();
        let held = file.page(0).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| file.page_mut_or_grow(0).map(|page| page.len()));
            crate::support::linger(|| waiting.is_finished());
            file.page_mut_or_grow(5).unwrap()[0] = 5;
            assert!(!waiting.is_finished());
            drop(held);
            assert_eq!(waiting.join().unwrap().unwrap(), 4096);
        });
        assert_eq!((file.len(), file.page(5).unwrap()[0]), (6 * 4096, 5));
    });
}

/// A thread that has a page and needs a new one behind the end is not held up by others that need
/// one.
#[test]
fn guards_that_are_held_do_not_keep_others_from_growing_the_file() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let cache = cache(4096);
        let file = open(&cache, &folder.path().join("data"));
        drop(file.page_mut_or_grow(0).unwrap());
        let (threads, rounds) = (4, 20);
        let start = Barrier::new(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (start, file) = (&start, &file);
                scope.spawn(move || {
                    for round in 0..rounds {
                        start.wait();
                        // Pages in any order, each thread with one in its hand while it asks for the next.
                        let at = 1 + (round * threads + thread) as u64 * 2;
                        let mut held = file.page_mut_or_grow(at).unwrap();
                        let mut next = file.page_mut_or_grow(at + 1).unwrap();
                        held.fill(thread as u8 + 1);
                        next.fill(thread as u8 + 101);
                    }
                });
            }
        });
        let pages = 1 + 2 * (threads * rounds) as u64;
        assert_eq!(file.len(), pages * 4096);
        for page in 1..pages {
            let thread = ((page - 1) / 2 % threads as u64) as u8;
            let expected = thread + if page % 2 == 1 { 1 } else { 101 };
            assert!(
                file.page(page).unwrap().iter().all(|&byte| byte == expected),
                "page {page}"
            );
        }
    });
}

/// Everything that changes a length, by four threads at once, and readers, syncs and invalidations beside
/// them: no thread stops, and the file is in the end as all of them see it, on the device, too.
#[test]
fn a_file_that_many_make_longer_and_shorter_at_once_is_in_the_end_as_they_see_it() {
    const PAGES: u64 = 200;
    for (place, size, seed) in [
        (Place::Disk, 4096, 1),
        (Place::Memory, 8192, 2),
        (Place::Disk, 65_536, 3),
    ] {
        bounded(move || {
            let folder = place.folder();
            let path = folder.path().join("data");
            let cache = cache(size);
            let start = Barrier::new(4);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (cache, path, start) = (&cache, &path, &start);
                    scope.spawn(move || {
                        let (mut draw, file) = (Draw(seed << 8 | thread), open(cache, path));
                        let bytes = vec![thread as u8 + 1; 40 * size as usize];
                        start.wait();
                        for _ in 0..250 {
                            let (page, at) = (draw.below(PAGES), draw.below(PAGES * size));
                            let len = (draw.below(40) * draw.below(size) + draw.below(100)) as usize;
                            match draw.below(10) {
                                0 | 1 => drop(file.append(&bytes[..len]).unwrap()),
                                2 => file.page_mut_or_grow(page).unwrap().fill(thread as u8 + 1),
                                3 => file.set_len(at).unwrap(),
                                4 => file.write_at(&bytes[..len], at).unwrap(),
                                5 => match file.page_mut(page) {
                                    Ok(mut guard) => guard.fill(thread as u8 + 1),
                                    Err(error) => {
                                        assert!(matches!(error, Error::OutOfRange { .. }), "{error}")
                                    }
                                },
                                6 => drop(read(&file, at, len as u64)),
                                7 => drop(file.invalidate(at..at + len as u64).unwrap()),
                                8 => drop(file.invalidate(..).unwrap()),
                                _ => file.sync_data().unwrap(),
                            }
                        }
                    });
                }
            });
            let file = open(&cache, &path);
            file.append(b"end").unwrap();
            let seen = read(&file, 0, 1 << 26);
            assert_eq!(seen.len() as u64, file.len());
            assert!(seen.ends_with(b"end") && seen[..seen.len() - 3].iter().all(|&byte| byte <= 4));
            file.sync_data().unwrap();
            assert!(std::fs::read(&path).unwrap() == seen);
            file.invalidate(..).unwrap();
            assert!(
                read(&file, 0, seen.len() as u64 + 1) == seen,
                "from the device again"
            );
            drop(file);
            assert!(cache.take_lost().is_empty());
        });
    }
}

#[test]
fn offsets_and_lengths_that_no_file_has_are_refused_and_change_nothing() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let cache = cache(4096);
    let file = open(&cache, &path);
    file.write_at(b"here", 0).unwrap();
    let is_refused = |result: millpond::Result<()>| match result {
        Err(Error::OutOfRange { .. }) => assert_eq!((file.len(), read(&file, 0, 9)), (4, b"here".to_vec())),
        other => panic!("{other:?}"),
    };
    for far in [
        1 << 52,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ] {
        is_refused(file.write_at(b"x", far));
        is_refused(file.write_at(&[0; 100], far));
        is_refused(file.set_len(far.max((1 << 52) + 1)));
        is_refused(file.page_mut(far).map(drop));
        is_refused(file.page(far).map(drop));
        is_refused(file.page_mut_or_grow(far).map(drop));
        assert_eq!(read(&file, far, 10), b"");
        assert!(!file.is_resident(far));
        file.prefetch(far, u64::MAX).unwrap();
        assert_eq!(file.invalidate(far..).unwrap(), 0);
    }
    is_refused(file.page_mut_or_grow(1 << 40).map(drop));
    // Empty calls succeed anywhere; an empty write does not make a file longer.
    file.write_at(b"", 1 << 40).unwrap();
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    file.prefetch(0, 0).unwrap();
    assert_eq!(file.invalidate(2..2).unwrap(), 0);
    assert_eq!(file.len(), 4);
    file.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"here");
}

#[test]
fn a_file_is_the_same_by_hard_links_and_after_renames() {
    let folder = Place::Disk.folder();
    let path = |name: &str| folder.path().join(name);
    let cache = cache(4096);
    let one = open(&cache, &path("one"));
    one.write_at(b"first", 0).unwrap();
    std::fs::hard_link(path("one"), path("two")).unwrap();
    std::fs::rename(path("one"), path("three")).unwrap();
    let (two, three) = (open(&cache, &path("two")), open(&cache, &path("three")));
    two.write_at(b"FIR", 0).unwrap();
    assert_eq!(
        (read(&one, 0, 9), read(&three, 0, 9)),
        (b"FIRst".to_vec(), b"FIRst".to_vec())
    );
    // The old name is free for another file.
    let other = open(&cache, &path("one"));
    assert_eq!(other.len(), 0);
    other.append(b"another").unwrap();
    three.append(b"!").unwrap();
    cache.sync_all().unwrap();
    assert_eq!(std::fs::read(path("two")).unwrap(), b"FIRst!");
    assert_eq!(std::fs::read(path("three")).unwrap(), b"FIRst!");
    assert_eq!(std::fs::read(path("one")).unwrap(), b"another");
}

#[test]
fn a_file_that_is_removed_or_replaced_on_disk_lives_on_for_those_who_have_it_open() {
    let folder = Place::Disk.folder();
    let (path, new) = (folder.path().join("data"), folder.path().join("new"));
    let cache = cache(4096);
    let old = open(&cache, &path);
    old.write_at(&drawn(50_000), 0).unwrap();
    std::fs::remove_file(&path).unwrap();
    // More than memory holds, so that it goes to the device and comes back.
    old.append(&drawn(1_000_000)).unwrap();
    old.sync_data().unwrap();
    assert!(read(&old, 0, 50_000) == drawn(50_000) && read(&old, 50_000, 2_000_000) == drawn(1_000_000));
    std::fs::write(&new, b"new").unwrap();
    std::fs::rename(&new, &path).unwrap();
    let file = open(&cache, &path);
    assert_eq!(read(&file, 0, 10), b"new");
    file.append(b" one").unwrap();
    old.write_at(b"old", 0).unwrap();
    assert_eq!(
        (read(&file, 0, 10), read(&old, 0, 3)),
        (b"new one".to_vec(), b"old".to_vec())
    );
    old.close().unwrap();
    assert!(cache.take_lost().is_empty());
    file.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new one");
}
