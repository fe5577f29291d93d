//! Ranges that are given back to the file system, and what the device has not got yet.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Draw, Kind, Place, bounded, linger, seeds, until};
use millpond::{File, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

const PAGE: u64 = 4096;

fn open(path: &Path) -> (PageCache, File) {
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    (cache, file)
}

fn all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.len() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn any_range_that_is_punched_is_zeros_in_memory_and_on_the_device() {
    for place in [Place::Disk, Place::Memory] {
        for seed in seeds("MILLPOND_HOLES", 20) {
            let folder = place.folder();
            let path = folder.path().join("data");
            let mut draw = Draw(seed);
            let (_cache, file) = open(&path);
            let len = draw.below(20 * PAGE);
            let mut model: Vec<u8> = (0..len).map(|n| n as u8 | 1).collect();
            file.write_at(&model, 0).unwrap();
            for _ in 0..8 {
                if draw.below(2) == 0 {
                    file.sync_data().unwrap();
                }
                let (at, wanted) = (draw.below(22 * PAGE), draw.below(8 * PAGE));
                file.punch(at, wanted).unwrap();
                let end = (at + wanted).min(len);
                if at < end {
                    model[at as usize..end as usize].fill(0);
                }
                assert_eq!(all(&file), model, "seed {seed}");
                assert_eq!(file.len(), len);
            }
            drop(file);
            assert_eq!(std::fs::read(&path).unwrap(), model, "seed {seed}");
        }
    }
}

#[test]
fn whole_pages_that_are_punched_take_no_blocks_whether_they_were_written_or_not() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let (cache, file) = open(&path);
    file.write_at(&vec![7; 256 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    let before = std::fs::metadata(&path).unwrap().blocks();
    file.write_at(&vec![8; 128 * PAGE as usize], 0).unwrap();
    file.punch(0, 200 * PAGE).unwrap();
    file.sync_data().unwrap();
    let after = std::fs::metadata(&path).unwrap().blocks();
    assert!(after * 4 <= before, "{after} of {before} blocks are left");
    assert_eq!(cache.stats().occupancy.dirty.0, 0);
}

#[test]
fn a_hole_at_the_end_of_what_was_appended_keeps_the_length_on_the_device() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let (_cache, file) = open(&path);
    file.write_at(&[7; 5 * PAGE as usize - 100], 0).unwrap();
    file.punch(PAGE, 100 * PAGE).unwrap();
    file.sync_data().unwrap();
    let mut expected = vec![0; 5 * PAGE as usize - 100];
    expected[..PAGE as usize].fill(7);
    assert_eq!(std::fs::read(&path).unwrap(), expected);
}

#[test]
fn a_read_beside_a_punch_does_not_bring_back_old_data() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (_cache, file) = open(&path);
        for _ in 0..50 {
            file.write_at(&[7; 64 * PAGE as usize], 0).unwrap();
            file.sync_data().unwrap();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut page = [0; PAGE as usize];
                    let mut n = 0;
                    while !over.load(Ordering::SeqCst) {
                        file.read_at(&mut page, n % 64 * PAGE).unwrap();
                        n += 1;
                    }
                });
                file.punch(0, 64 * PAGE).unwrap();
                let zeros = all(&file).iter().all(|&byte| byte == 0);
                over.store(true, Ordering::SeqCst);
                assert!(zeros);
            });
            file.invalidate(..).unwrap();
            assert!(all(&file).iter().all(|&byte| byte == 0));
        }
    });
}

/// Both at the same time, so that each is now the first and now the second.
fn beside(one: impl FnOnce() + Send, other: impl FnOnce()) {
    let together = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            together.wait();
            one();
        });
        together.wait();
        other();
    });
}

#[test]
fn appends_beside_a_punch_are_kept() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (_cache, file) = open(&folder.path().join("data"));
        for round in 0..500 {
            let len = 2 * PAGE + 100;
            file.set_len(0).unwrap();
            file.write_at(&vec![7; len as usize], 0).unwrap();
            beside(
                || (0..10).for_each(|_| assert!(file.append(&[9; 10]).unwrap() >= len)),
                || file.punch(0, len).unwrap(),
            );
            let bytes = all(&file);
            let (punched, appended) = bytes.split_at(len as usize);
            assert!(punched.iter().all(|&byte| byte == 0));
            assert_eq!(appended, [9; 100], "round {round}");
        }
    });
}

#[test]
fn a_write_beside_a_punch_does_not_carry_over_what_was_there() {
    bounded(|| {
        // Where none of the 300 syncs takes long.
        let folder = Place::Memory.folder();
        let (_cache, file) = open(&folder.path().join("data"));
        for round in 0..300 {
            file.write_at(&[7; 8 * PAGE as usize], 0).unwrap();
            file.sync_data().unwrap();
            beside(
                || {
                    for page in (0..8).rev() {
                        file.write_at(&[9; 10], page * PAGE + 100).unwrap();
                        file.page_mut(page).unwrap()[200] = 9;
                    }
                },
                || file.punch(0, 8 * PAGE).unwrap(),
            );
            let is_old = |&byte: &u8| byte == 7;
            assert_eq!(all(&file).iter().position(is_old), None, "round {round}");
        }
    });
}

#[test]
fn data_written_out_is_on_the_device_and_not_before() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let (_cache, file) = open(&path);
    assert!(!file.is_unwritten().unwrap());
    file.write_at(&[7; 5000], 0).unwrap();
    assert!(file.is_unwritten().unwrap());
    file.write_out().unwrap();
    assert!(!file.is_unwritten().unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), [7; 5000]);
}

#[test]
fn bytes_not_on_the_device_are_reported_by_whole_pages_up_to_the_end() {
    let folder = Place::Disk.folder();
    let (_cache, file) = open(&folder.path().join("data"));
    file.set_len(20 * PAGE + 100).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.unwritten().unwrap(), []);
    for (offset, bytes) in [
        (4 * PAGE + 10, 1),
        (2 * PAGE, 2 * PAGE),
        (20 * PAGE, 50),
        (9 * PAGE, 1),
    ] {
        file.write_at(&vec![7; bytes as usize], offset).unwrap();
    }
    let of_pages = [
        2 * PAGE..5 * PAGE,
        9 * PAGE..10 * PAGE,
        20 * PAGE..20 * PAGE + 100,
    ];
    assert_eq!(file.unwritten().unwrap(), of_pages);
    file.write_out().unwrap();
    assert_eq!(file.unwritten().unwrap(), []);
}

#[test]
fn data_that_cannot_be_written_out_is_an_error_and_known_until_it_is_written() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(4 << 20);
    let cache = builder.device(device.clone()).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[7; 5000], 0).unwrap();
    assert!(file.failure().is_none());
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::EIO)));
    assert_eq!(file.write_out().unwrap_err().errno(), libc::EIO);
    assert_eq!(file.failure().unwrap().errno(), libc::EIO);
    assert!(file.is_unwritten().unwrap());
    device.clear();
    file.write_out().unwrap();
    assert!(file.failure().is_none());
}

/// Memory had forgotten the pages before the device was asked: changes that calls had accepted were gone when it refused, and
/// the error said that they were kept.
#[test]
fn a_punch_that_is_refused_changes_nothing() {
    for refusal in [libc::EOPNOTSUPP, libc::ENOSPC, libc::EIO] {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let builder = PageCache::builder().memory(4 << 20);
        let cache = builder.device(device.clone()).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
        file.write_at(&[1; 10 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(&[2; 9 * PAGE as usize], 0).unwrap();
        // Not on the device at all.
        file.append(&[3; 3 * PAGE as usize]).unwrap();
        let before = all(&file);
        device.add(FaultRule::always(FaultTarget::Punches, Fault::Fail(refusal)));
        for (at, len) in [(0, 13 * PAGE), (100, 5 * PAGE), (8 * PAGE - 1, 4 * PAGE + 2)] {
            assert_eq!(file.punch(at, len).unwrap_err().errno(), refusal);
            assert!(all(&file) == before);
        }
        assert!(file.is_unwritten().unwrap());
        file.sync_data().unwrap();
        assert!(std::fs::read(&path).unwrap() == before);
        drop(file);
        assert!(cache.take_lost().is_empty());
    }
}

/// Memory says what the device has, but for what it is still to get.
#[test]
fn after_a_punch_that_failed_halfway_each_byte_is_as_it_was_or_zero() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(4 << 20);
    let cache = builder.device(device.clone()).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[1; 10 * PAGE as usize], 0).unwrap();
    file.sync_data().unwrap();
    for page in [1, 7] {
        file.write_at(&[2; PAGE as usize], page * PAGE).unwrap();
    }
    device.add(FaultRule::always(
        FaultTarget::Punches,
        Fault::Cut(4 * PAGE as usize),
    ));
    assert_eq!(file.punch(0, 9 * PAGE).unwrap_err().errno(), libc::EIO);
    let numbers = || -> Vec<u8> {
        let bytes = all(&file);
        let pages = bytes.chunks(PAGE as usize);
        pages
            .map(|page| page.iter().fold(page[0], |is, &byte| is | byte))
            .collect()
    };
    let expected = [0, 2, 0, 0, 1, 1, 1, 2, 1, 1];
    assert_eq!(numbers(), expected);
    file.sync_data().unwrap();
    file.invalidate(..).unwrap();
    assert_eq!(numbers(), expected);
}

/// A file whose page is 1 on the device, 2 in memory, and the punch of which the device is asked, until `then` has returned.
fn while_it_is_asked(then: impl Fn(&File) + Send + Sync + 'static) {
    bounded(move || {
        let folder = Place::Disk.folder();
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let builder = PageCache::builder().memory(4 << 20);
        let cache = builder.device(device.clone()).build().unwrap();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&[1; 8 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(&[2; 8 * PAGE as usize], 0).unwrap();
        device.add(FaultRule::always(FaultTarget::Punches, Fault::Hold));
        std::thread::scope(|scope| {
            let punching = scope.spawn(|| file.punch(0, 4 * PAGE));
            until("the punch", || device.held() == 1);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| then(&file)));
            device.clear();
            device.release().unwrap();
            punching.join().unwrap().unwrap();
            done.unwrap();
        });
        assert!(all(&file)[..4 * PAGE as usize].iter().all(|&byte| byte == 0));
    });
}

/// The device's content was read, which was older than what calls had written.
#[test]
fn a_read_beside_a_punch_finds_nothing_older_than_the_last_write() {
    while_it_is_asked(|file| {
        let is_new = |bytes: &[u8]| assert!(bytes.iter().all(|&byte| byte == 2));
        is_new(&all(file));
        (0..8).for_each(|page| is_new(&file.page(page).unwrap()));
        assert!(file.try_page_mut(2).unwrap().is_none());
        file.write_at(&[2; PAGE as usize], 4 * PAGE).unwrap();
    });
}

/// A thread that had one of the pages in hand and wanted another waited for the punch, which waited for it.
#[test]
fn a_thread_that_keeps_a_page_of_the_range_may_change_another_beside_a_punch_or_a_cut() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (_cache, file) = open(&folder.path().join("data"));
        for cuts in [false, true] {
            file.write_at(&[7; 8 * PAGE as usize], 0).unwrap();
            let mut guard = file.page_mut(2).unwrap();
            let reader = (!cuts).then(|| file.page(3).unwrap());
            let goes = || match cuts {
                true => file.set_len(PAGE + 100).unwrap(),
                false => file.punch(0, 8 * PAGE).unwrap(),
            };
            std::thread::scope(|scope| {
                let going = scope.spawn(goes);
                linger(|| going.is_finished());
                file.write_at(&[8; 10], 5 * PAGE).unwrap();
                file.page_mut(6).unwrap().fill(8);
                assert_eq!(file.read_at(&mut [0; 10], PAGE).unwrap(), 10);
                guard.fill(8);
                drop(guard);
                linger(|| going.is_finished());
                // The device has agreed, or will, and the punch waits for the reader.
                if !cuts {
                    file.page_mut(5).unwrap()[0] = 9;
                }
                drop(reader);
            });
            let bytes = all(&file);
            let (was, is) = if cuts { (7, 7) } else { (0, 9) };
            assert!(bytes.iter().all(|byte| [was, is].contains(byte)));
        }
    });
}
