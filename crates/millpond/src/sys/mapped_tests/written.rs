//! What is stored in a mapping is the file's: for calls, for other mappings, and on the device.

use super::{BOTH, PAGE, byte, cache, file_of, folder, is_alone, once_free, open, touch};
use crate::{Error, File, MapAdvice, MapOptions, Mapping, OpenOptions};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A mapping of all of the file, to be written.
fn map(file: &File, faults: crate::Faults) -> Mapping {
    file.map(.., &MapOptions::new().faults(faults).writable(true))
        .unwrap()
}

fn store(mapping: &Mapping, at: usize, byte: u8) {
    assert!(at < mapping.len());
    // SAFETY: inside the mapping; a volatile write of a byte is good whatever other threads do.
    unsafe { mapping.as_mut_ptr().wrapping_add(at).write_volatile(byte) };
}

#[test]
fn stores_are_read_by_calls_at_once_and_on_the_device_after_a_sync() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        file_of(&path, 40);
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let mapping = map(&file, faults);
        assert!(mapping.is_writable());
        for page in 0..40 {
            // The first touch of some is a store, of others a read; some are there by a call.
            match page % 4 {
                0 => assert_eq!(touch(&mapping, page * PAGE), byte(page)),
                1 => drop(file.page(page as u64).unwrap()),
                _ => {}
            }
            store(&mapping, page * PAGE + 5, !byte(page));
            assert_eq!(touch(&mapping, page * PAGE + 5), !byte(page));
            let is = |bytes: &[u8]| assert_eq!(bytes[4..7], [byte(page), !byte(page), byte(page)]);
            let mut bytes = [0; 7];
            match page % 5 {
                0 => is(&file.page(page as u64).unwrap()),
                1 => is(&file.page_mut(page as u64).unwrap()),
                2 => is(&once_free(|| file.try_page(page as u64).unwrap())),
                3 => mapping.try_read(page * PAGE..(page + 1) * PAGE, is).unwrap(),
                _ => {
                    assert_eq!(mapping.copy_to(&mut bytes, page * PAGE).unwrap(), 7);
                    is(&bytes);
                }
            }
            store(&mapping, page * PAGE + 6, 77);
        }
        mapping.sync(..).unwrap();
        let on_device = std::fs::read(&path).unwrap();
        for page in 0..40 {
            let bytes = &on_device[page * PAGE..(page + 1) * PAGE];
            assert_eq!(
                bytes[4..8],
                [byte(page), !byte(page), 77, byte(page)],
                "page {page}"
            );
        }
        // Again, after what was written by a call.
        mapping.copy_from(&[5; 3 * PAGE], 1000).unwrap();
        store(&mapping, 1001, 6);
        assert_eq!(
            [1000, 1001, 1002, 1000 + 3 * PAGE - 1].map(|at| touch(&mapping, at)),
            [5, 6, 5, 5]
        );
        assert!(matches!(
            mapping.copy_from(&[5; 10], 40 * PAGE + 91),
            Err(Error::OutOfRange { .. })
        ));
        mapping.close().unwrap();
        drop(file);
        let on_device = std::fs::read(&path).unwrap();
        assert_eq!(on_device[1000..1003], [5, 6, 5]);
        assert!(cache.take_lost().is_empty());
    }
}

#[test]
fn a_file_eight_times_the_budget_is_written_by_stores_of_several_threads() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        const PAGES: usize = 4096;
        std::fs::write(&path, vec![0; PAGES * PAGE]).unwrap();
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let mapping = map(&file, faults);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let words = mapping.words();
                scope.spawn(move || {
                    for n in 0..2 * PAGES {
                        let page = match thread {
                            0 => n % PAGES,
                            1 => PAGES - 1 - n % PAGES,
                            _ => (n * 2_654_435_761 + thread * 97) % PAGES,
                        };
                        words[page * PAGE / 8 + thread].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let sum = |thread: usize, word: &dyn Fn(usize) -> u64| -> u64 {
            (0..PAGES).map(|page| word(page * PAGE / 8 + thread)).sum()
        };
        let words = mapping.words();
        for thread in 0..4 {
            let counted = sum(thread, &|at| words[at].load(Ordering::Relaxed));
            assert_eq!(counted, 2 * PAGES as u64, "thread {thread}, {faults:?}");
        }
        mapping.sync(..).unwrap();
        let on_device = std::fs::read(&path).unwrap();
        for thread in 0..4 {
            let word = |at: usize| u64::from_ne_bytes(on_device[at * 8..at * 8 + 8].try_into().unwrap());
            assert_eq!(
                sum(thread, &word),
                2 * PAGES as u64,
                "thread {thread}, {faults:?}"
            );
        }
    }
}

#[test]
fn stores_past_the_end_of_a_file_are_never_the_file_s() {
    let folder = folder();
    let path = folder.path().join("data");
    for n in 0..50 {
        let grow = n % 5;
        std::fs::write(&path, [7; PAGE + 100]).unwrap();
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let mapping = file
            .map(..5 * PAGE as u64, &MapOptions::new().writable(true))
            .unwrap();
        for at in [PAGE + 99, PAGE + 100, 2 * PAGE - 1] {
            store(&mapping, at, 8);
        }
        let first = match grow {
            0 => file.set_len(3 * PAGE as u64).map(|()| 2 * PAGE).unwrap(),
            1 => file.append(&[9; PAGE]).map(|at| at as usize + PAGE - 1).unwrap(),
            2 => file
                .write_at(&[9; 10], 2 * PAGE as u64)
                .map(|()| PAGE + 100)
                .unwrap(),
            3 => {
                file.page_mut_or_grow(3).unwrap().fill(9);
                PAGE + 100
            }
            _ => {
                // Written and cut, before it grows.
                mapping.sync(..).unwrap();
                store(&mapping, PAGE + 101, 8);
                file.set_len(PAGE as u64 + 99).unwrap();
                file.set_len(2 * PAGE as u64).unwrap();
                PAGE + 100
            }
        };
        let mut bytes = vec![1; 5 * PAGE];
        let len = file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes[PAGE + 99], if grow == 4 { 0 } else { 8 });
        assert!(
            bytes[PAGE + 100..len].iter().all(|&is| is == 0 || is == 9),
            "{grow}"
        );
        assert_eq!(
            touch(&mapping, first),
            if first % PAGE == 0 { 0 } else { bytes[first] }
        );
        mapping.close().unwrap();
        drop(file);
        assert!(std::fs::read(&path).unwrap() == bytes[..len], "{grow}");
    }
}

/// It was written over what the other program had put there.
#[test]
fn stores_past_the_end_are_not_the_file_s_when_another_program_has_made_it_longer() {
    let folder = folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [7; 1000]).unwrap();
    let Some(cache) = cache(2 << 20) else { return };
    let file = open(&cache, &path);
    let options = MapOptions::new().writable(true);
    let mapping = file.map(..2 * PAGE as u64, &options).unwrap();
    store(&mapping, 2000, 8);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|other| other.set_len(2 * PAGE as u64))
        .unwrap();
    file.invalidate(..).unwrap();
    assert_eq!(file.len(), 2 * PAGE as u64);
    assert_eq!((touch(&mapping, 999), touch(&mapping, 2000)), (7, 0));
    assert_eq!(file.page(0).unwrap()[2000], 0);
    mapping.sync(..).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[2000], 0);
}

#[test]
fn a_mapping_is_written_only_if_that_was_asked_for_and_the_handle_may() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 10);
    let Some(cache) = cache(2 << 20) else { return };
    let reader = cache.open(&path, OpenOptions::new()).unwrap();
    let options = MapOptions::new().writable(true);
    let error = reader.map(.., &options).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let reads = reader.map(.., &MapOptions::new()).unwrap();
    assert_eq!(touch(&reads, 3), byte(0));
    assert!(matches!(reads.copy_from(&[1], 0), Err(Error::ReadOnly { .. })));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reads.as_mut_ptr())).is_err());
    // Beside it one to write, of a page that is there and write-protected.
    let file = open(&cache, &path);
    let writes = file.map(.., &options).unwrap();
    store(&writes, 3, 99);
    assert_eq!(touch(&reads, 3), 99);
    assert_eq!(reader.page(0).unwrap()[3], 99);
    drop((file, writes));
    assert_eq!(touch(&reads, 3), 99);
    reads.close().unwrap();
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap()[3], 99);
}

#[test]
fn a_store_waits_for_a_reader_that_has_the_page_and_a_reader_has_the_page_as_it_is() {
    for faults in BOTH {
        let folder = folder();
        let path = folder.path().join("data");
        file_of(&path, 10);
        let Some(cache) = cache(2 << 20) else { return };
        let file = open(&cache, &path);
        let mapping = map(&file, faults);
        for at in [3 * PAGE, 4 * PAGE, 5 * PAGE] {
            let guard = file.page((at / PAGE) as u64).unwrap();
            let before = guard[0];
            std::thread::scope(|scope| {
                let stored = scope.spawn(|| store(&mapping, at, 200));
                for _ in 0..100 {
                    std::thread::yield_now();
                    assert_eq!(guard[0], before);
                }
                drop(guard);
                stored.join().unwrap();
            });
            assert_eq!(file.page((at / PAGE) as u64).unwrap()[0], 200);
            std::thread::scope(|scope| {
                let read = |bytes: &[u8]| {
                    scope.spawn(|| store(&mapping, at, 201));
                    for _ in 0..100 {
                        std::thread::yield_now();
                        assert_eq!(bytes[0], 200);
                    }
                };
                mapping.try_read(at..at + PAGE, read).unwrap();
            });
            assert_eq!(touch(&mapping, at), 201);
        }
    }
}

#[test]
fn open_pages_are_dirty_within_the_limits_and_leave_by_a_scan() {
    let folder = folder();
    let path = folder.path().join("data");
    file_of(&path, 4096);
    let Some(cache) = cache(4 << 20) else { return };
    let file = open(&cache, &path);
    let mapping = map(&file, crate::Faults::Handlers);
    let mut most = 0;
    for page in 0..4096 {
        store(&mapping, page * PAGE, 1);
        most = most.max(cache.stats().occupancy.dirty.0);
    }
    let limit = cache.stats().occupancy.frames.0 / 2;
    assert!((10..limit).contains(&most), "{most} dirty of at most {limit}");
    mapping.sync(..).unwrap();
    assert_eq!(cache.stats().occupancy.dirty.0, 0);
    assert!(!file.is_unwritten().unwrap());
    // Stored again, and the last of them gives way to others.
    store(&mapping, 0, 2);
    assert!(file.is_unwritten().unwrap() && is_alone(&file, 0));
    let began = Instant::now();
    // The thread that served the store may still have the page in hand.
    while is_alone(&file, 0) {
        mapping.advise(.., MapAdvice::DontNeed).unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "it stays");
    }
    assert_eq!(file.page(0).unwrap()[0], 2);
}
