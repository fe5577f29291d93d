//! Devices that fail: who hears of it, what stays readable, and that nobody waits for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::core::units::Nanos;
use millpond::device::{Access, Device, DeviceFile, Fault, FaultRule, FaultTarget, Faulty, Op};
use millpond::{Error, File, OpenOptions, Options, PageCache};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::{Call, Hooked, Kind, Place, What, bounded, until};

const PAGE: u64 = 4096;

fn faulty() -> Arc<Faulty> {
    Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1))
}

fn cache(device: Arc<dyn Device>) -> PageCache {
    PageCache::builder()
        .memory(2 << 20)
        .device(device)
        .build()
        .unwrap()
}

/// A file of `pages` pages, each full of its number, as nothing that the cache under test has written.
fn prepared(path: &Path, pages: u64) {
    let content: Vec<u8> = (0..pages).flat_map(|n| [n as u8; PAGE as usize]).collect();
    std::fs::write(path, content).unwrap();
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

fn rule(target: FaultTarget, pages: std::ops::Range<u64>, errno: i32) -> FaultRule {
    FaultRule {
        offsets: pages.start * PAGE..pages.end * PAGE,
        ..FaultRule::always(target, Fault::Fail(errno))
    }
}

fn is_write_error<T: std::fmt::Debug>(result: Result<T, Error>, errno: i32) {
    match result {
        Err(error @ Error::Write { .. }) => assert_eq!(error.errno(), errno),
        other => panic!("{other:?} instead of a write error"),
    }
}

#[test]
fn a_failed_read_is_an_error_with_its_place_and_the_next_one_asks_again() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    prepared(&path, 10);
    let device = faulty();
    let cache = cache(device.clone());
    let file = open(&cache, &path);
    device.add(FaultRule {
        times: 2,
        ..rule(FaultTarget::Reads, 3..4, libc::EIO)
    });
    let error = file.page(3).unwrap_err();
    assert!(matches!(&error, Error::Read { offset: 12_288, .. }), "{error}");
    assert_eq!(error.errno(), libc::EIO);
    assert!(!file.is_resident(3 * PAGE));
    assert!(file.page_mut(3).is_err(), "a change needs the old content");
    assert_eq!(file.page_mut(3).unwrap()[0], 3);
    assert_eq!(device.faults(), 2);
    assert_eq!(file.page(4).unwrap()[0], 4);
}

/// The thread whose read fails gets the error; whoever waited for the same page tries for itself.
#[test]
fn a_failed_read_goes_only_to_whom_it_was_made_for() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 10);
        let faulty = faulty();
        faulty.add(FaultRule {
            times: 1,
            ..rule(FaultTarget::Reads, 3..4, libc::EIO)
        });
        let (reads, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, open_gate) = (reads.clone(), go.clone());
        let device = Hooked::new(faulty, move |call: Call| {
            if call.what == What::OwnRead {
                seen.fetch_add(1, Ordering::SeqCst);
                until("the gate opens", || open_gate.load(Ordering::SeqCst));
            }
        });
        let cache = cache(device);
        let file = open(&cache, &path);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| file.page(3).map(|page| page[0])))
                .collect();
            until("a read", || reads.load(Ordering::SeqCst) > 0);
            go.store(true, Ordering::SeqCst);
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(failed, 1, "{outcomes:?}");
        assert!(outcomes.iter().flatten().all(|&byte| byte == 3));
        assert_eq!(
            reads.load(Ordering::SeqCst),
            2,
            "one failed, one for the three others"
        );
    });
}

#[test]
fn failed_read_ahead_is_nobodys_error_until_its_page_is_read() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 100);
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &path);
        device.add(rule(FaultTarget::Reads, 2..100, libc::EIO));
        // The first page of a file opens a stream: 32 pages are read ahead.
        assert_eq!(file.page(0).unwrap()[0], 0);
        until("the read-ahead fails", || {
            device.faults() > 0 && !file.is_resident(20 * PAGE)
        });
        file.prefetch(0, 100 * PAGE).unwrap();
        assert_eq!(file.page(1).unwrap()[0], 1, "not in the part that fails");
        assert_eq!(file.page(20).unwrap_err().errno(), libc::EIO);
        device.clear();
        for page in 0..100 {
            assert_eq!(file.page(page).unwrap()[0], page as u8);
        }
    });
}

#[test]
fn what_cannot_be_written_stays_readable_and_every_sync_says_so_until_it_is() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 4);
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &path);
        device.add(rule(FaultTarget::Writes, 1..2, libc::ENOSPC));
        file.write_at(&[0xaa; 3 * PAGE as usize], 0).unwrap();
        for _ in 0..3 {
            is_write_error(file.sync_data(), libc::ENOSPC);
            is_write_error(cache.sync_all(), libc::ENOSPC);
            assert!(file.page(1).unwrap().iter().all(|&byte| byte == 0xaa));
        }
        // Whatever else needs memory, what was not written stays.
        let other = folder.path().join("other");
        prepared(&other, 2_000);
        let other = open(&cache, &other);
        for page in 0..2_000 {
            let _ = other.page(page).unwrap();
        }
        assert!(file.page(1).unwrap().iter().all(|&byte| byte == 0xaa));
        device.clear();
        file.sync_data().unwrap();
        let mut expected = vec![0xaa; 3 * PAGE as usize];
        expected.extend([3; PAGE as usize]);
        assert!(std::fs::read(&path).unwrap() == expected);
    });
}

#[test]
fn what_cannot_be_written_can_be_given_up_by_making_the_file_shorter() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &folder.path().join("data"));
        device.add(rule(FaultTarget::Writes, 1..u64::MAX / PAGE, libc::ENOSPC));
        file.write_at(&[5; 20 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::ENOSPC);
        file.set_len(PAGE).unwrap();
        file.sync_data().unwrap();
        assert!(std::fs::read(file.path()).unwrap() == [5; PAGE as usize]);
        assert_eq!(cache.stats().occupancy.dirty.0, 0);
    });
}

#[test]
fn what_the_last_handle_could_not_write_is_reported_as_lost() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 2);
        let device = faulty();
        let cache = cache(device.clone());
        device.add(rule(FaultTarget::Writes, 0..1, libc::EIO));
        for _ in 0..3 {
            let file = open(&cache, &path);
            file.write_at(&[9; 2 * PAGE as usize], 0).unwrap();
            assert!(file.page(0).unwrap()[0] == 9);
            drop(file);
            let lost = cache.take_lost();
            assert_eq!(lost.len(), 1, "{lost:?}");
            assert_eq!(lost[0].errno(), libc::EIO);
        }
        // What is on the device is what the next one sees.
        let file = open(&cache, &path);
        assert_eq!((file.page(0).unwrap()[0], file.len()), (0, 2 * PAGE));
        assert_eq!(cache.stats().occupancy.dirty.0, 0);
    });
}

#[test]
fn a_device_that_cannot_promise_durability_is_not_believed_again_until_the_file_is_opened_anew() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let device = faulty();
        let cache = cache(device.clone());
        let (file, other) = (open(&cache, &path), open(&cache, &folder.path().join("other")));
        let second = open(&cache, &path);
        file.write_at(b"content", 0).unwrap();
        other.write_at(b"content", 0).unwrap();
        device.add(FaultRule {
            times: 1,
            ..FaultRule::always(FaultTarget::Syncs, Fault::Fail(libc::EIO))
        });
        for _ in 0..3 {
            let error = file.sync_data().unwrap_err();
            assert!(matches!(error, Error::Sync { .. }), "{error}");
            assert!(matches!(second.sync_data(), Err(Error::Sync { .. })));
        }
        assert_eq!(device.faults(), 1, "it would answer otherwise by now");
        other.sync_data().unwrap();
        drop(file);
        assert!(second.sync_data().is_err(), "it is still the same open file");
        drop(second);
        open(&cache, &path).sync_data().unwrap();
    });
}

/// A device may have said that all is durable and not have done it; only who asks again can be told better.
#[test]
fn every_sync_asks_the_device_though_nothing_is_dirty() {
    let folder = Place::Disk.folder();
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
        counted.fetch_add(u64::from(call.what == What::Sync), Ordering::SeqCst);
    });
    let cache = cache(device);
    let file = open(&cache, &folder.path().join("data"));
    file.write_at(&[1; 100], 0).unwrap();
    for n in 1..=3 {
        file.sync_data().unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), n);
    }
}

#[test]
fn a_file_ends_where_it_ends_whatever_the_device_reads() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 5_000]).unwrap();
    for kind in [Kind::Pool, Kind::Ring] {
        let Some(device) = kind.device() else { continue };
        let cache = cache(device);
        let file = open(&cache, &path);
        assert_eq!(file.page(1).unwrap().len(), 904);
        let mut buf = [7; 2 * PAGE as usize];
        assert_eq!(file.read_at(&mut buf, 4_000).unwrap(), 1_000);
        assert!(buf[..1_000] == [1; 1_000] && buf[1_000..].iter().all(|&byte| byte == 7));
        file.set_len(3 * PAGE).unwrap();
        assert!(file.page(1).unwrap()[904..].iter().all(|&byte| byte == 0));
        assert!(file.page(2).unwrap().iter().all(|&byte| byte == 0));
        file.set_len(5_000).unwrap();
    }
}

/// Runs `poison` in a thread, which may panic, while others wait for page 5 and sync; then everybody must have come
/// back, and the cache must say that it is unusable.
fn nobody_hangs(breaks: impl Fn(Call) -> bool + Send + Sync + 'static) {
    bounded(move || {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 200);
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = armed.clone();
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call| {
            assert!(
                !(is_armed.load(Ordering::SeqCst) && breaks(call)),
                "the device breaks"
            );
        });
        let cache = cache(device);
        let file = Arc::new(open(&cache, &path));
        file.write_at(&[1; 100], 50 * PAGE).unwrap();
        armed.store(true, Ordering::SeqCst);
        let users: Vec<_> = (0..6_u64)
            .map(|n| {
                let file = file.clone();
                std::thread::spawn(move || {
                    for round in 0..1_000 {
                        let mut buf = [0; 3 * PAGE as usize];
                        let result = match n {
                            0 => file.page(5).map(|_| ()),
                            // Nobody prefetches it, so there is a read that a thread does itself.
                            1 => file.page(150).map(|_| ()),
                            2 => file.read_at(&mut buf, 4 * PAGE).map(|_| ()),
                            3 => file.write_at(&[2; 100], (5 + round % 90) * PAGE + 7),
                            4 => file.prefetch(0, 100 * PAGE),
                            _ => file.sync_data(),
                        };
                        if result.is_err() {
                            return;
                        }
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        let _: Vec<_> = users.into_iter().map(std::thread::JoinHandle::join).collect();
        until("the cache is poisoned", || {
            matches!(file.sync_data(), Err(Error::Poisoned { .. }))
        });
        assert!(file.is_resident(50 * PAGE), "a page in memory is no exception");
        assert!(matches!(file.page(50), Err(Error::Poisoned { .. })));
        assert!(matches!(file.prefetch(0, 0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.read_at(&mut [0], 0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.write_at(&[0], 0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.page_mut(0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.set_len(0), Err(Error::Poisoned { .. })));
        assert!(matches!(
            cache.open(&path, OpenOptions::new()),
            Err(Error::Poisoned { .. })
        ));
        drop(file);
        assert!(
            !cache.take_lost().is_empty(),
            "what was dirty is lost, and it says so"
        );
    });
}

#[test]
fn a_device_that_panics_while_a_thread_reads_poisons_the_cache_and_nobody_hangs() {
    nobody_hangs(|call| call.what == What::OwnRead);
}

#[test]
fn a_device_that_panics_when_it_is_given_a_write_poisons_the_cache_and_nobody_hangs() {
    nobody_hangs(|call| call.what == What::Submit(Op::Write));
}

#[test]
fn a_device_that_panics_when_it_is_given_a_read_poisons_the_cache_and_nobody_hangs() {
    nobody_hangs(|call| call.what == What::Submit(Op::Read));
}

#[test]
fn a_device_that_panics_under_the_background_thread_poisons_the_cache_and_nobody_hangs() {
    nobody_hangs(|call| call.what == What::Wait);
}

#[test]
fn a_device_that_panics_in_a_sync_poisons_the_cache_and_nobody_hangs() {
    nobody_hangs(|call| call.what == What::Sync);
}

/// Each of the waits that a call can be in, on a device that takes writes and ends none: a pause, a frame, a sync, a cut.
#[test]
fn whoever_pauses_or_waits_for_a_frame_a_sync_or_a_cut_is_told_when_the_cache_is_poisoned() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (path, other) = (folder.path().join("data"), folder.path().join("other"));
        prepared(&path, 1_000);
        prepared(&other, 1_000);
        let faulty = faulty();
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = armed.clone();
        let device = Hooked::new(faulty.clone(), move |call: Call| {
            let breaks = call.what == What::Wait && is_armed.load(Ordering::SeqCst);
            assert!(!breaks, "the device breaks");
        });
        let cache = cache(device);
        let (file, other) = (open(&cache, &path), open(&cache, &other));
        faulty.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let pausing = scope
                .spawn(|| (0..1_000).try_for_each(|page| file.write_at(&[1; PAGE as usize], page * PAGE)));
            until("a pause", || cache.stats().occupancy.dirtiers_blocked > 0);
            let pinning = scope.spawn(|| {
                let guards: Result<Vec<_>, _> = (0..1_000).map(|page| other.page(page)).collect();
                guards.map(drop)
            });
            until("somebody waits for a frame", || {
                let counters = cache.stats().counters;
                counters.nr_vmscan_throttled_writeback + counters.nr_vmscan_throttled_noprogress > 0
            });
            let syncing = scope.spawn(|| file.sync_data());
            let cutting = scope.spawn(|| file.set_len(0));
            support::linger(|| syncing.is_finished() || cutting.is_finished());
            let all = [pausing, pinning, syncing, cutting];
            assert!(all.iter().all(|waiting| !waiting.is_finished()));
            armed.store(true, Ordering::SeqCst);
            // The reaper sleeps, as everything is on its way; this wakes it.
            cache.set_options(cache.options()).unwrap();
            all.into_iter().map(|waiting| waiting.join().unwrap()).collect()
        });
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
        }
        assert!(matches!(cache.set_memory(4 << 20), Err(Error::Poisoned { .. })));
        assert!(matches!(cache.sync_all(), Err(Error::Poisoned { .. })));
        assert!(matches!(file.discard_unwritten(), Err(Error::Poisoned { .. })));
        drop((file, other));
        assert!(!cache.take_lost().is_empty());
        // What is held still owns its file and its memory.
        faulty.clear();
        faulty.release().unwrap();
    });
}

/// The file's last handle was being dropped when the device broke; whoever opened the file meanwhile waited for that.
#[test]
fn who_opens_a_file_whose_last_handle_breaks_the_device_is_told_so() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (closing, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, may_go) = (closing.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::Submit(Op::Write) {
                seen.store(true, Ordering::SeqCst);
                until("the other is there", || may_go.load(Ordering::SeqCst));
                panic!("the device breaks");
            }
        });
        let cache = cache(device);
        let file = open(&cache, &path);
        file.write_at(&[1; 100], 0).unwrap();
        let closer = std::thread::spawn(move || drop(file));
        until("the last write", || closing.load(Ordering::SeqCst));
        let opener = std::thread::spawn({
            let cache = cache.clone();
            move || cache.open(&path, OpenOptions::new()).map(|_| ())
        });
        support::linger(|| opener.is_finished());
        go.store(true, Ordering::SeqCst);
        assert!(closer.join().is_err());
        let opened = opener.join().unwrap();
        assert!(matches!(opened, Err(Error::Poisoned { .. })), "{opened:?}");
    });
}

fn of_file(file: &File, target: FaultTarget, fault: Fault) -> FaultRule {
    let identity = DeviceFile::open(file.path(), Access::Read).unwrap().identity();
    FaultRule {
        file: Some(identity),
        ..FaultRule::always(target, fault)
    }
}

/// Writes pages `0..` one by one until that fails, at most `pages`; how many were taken, and the error.
fn fill(file: &File, pages: u64) -> (u64, Option<Error>) {
    for page in 0..pages {
        if let Err(error) = file.write_at(&[1; PAGE as usize], page * PAGE) {
            return (page, Some(error));
        }
    }
    (pages, None)
}

/// One file's dirty pages fill the limit, and its device takes none of them. Whoever wrote to another file, on a healthy
/// device, paused for ever, and later got the other file's error.
#[test]
fn a_file_that_cannot_be_written_takes_a_part_of_the_budget_and_no_other_writer_waits_for_it() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = faulty();
        let cache = cache(device.clone());
        let (sick, well) = (
            open(&cache, &folder.path().join("sick")),
            open(&cache, &folder.path().join("well")),
        );
        sick.set_len(1_000 * PAGE).unwrap();
        device.add(of_file(&sick, FaultTarget::Writes, Fault::Fail(libc::EIO)));
        let (taken, error) = fill(&sick, 1_000);
        let error = error.unwrap();
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert!(
            error.to_string().contains("sick") && error.errno() == libc::EIO,
            "{error}"
        );
        is_write_error(sick.page_mut(0).map(|_| ()), libc::EIO);
        let limits = cache.stats().derived.dirty;
        let failed = cache.stats().occupancy.failed;
        assert!(
            failed > limits.failed && failed <= limits.hard,
            "{failed:?} of {limits:?}"
        );
        // All of it can be read, and the other file is written as if nothing were.
        assert!((0..taken).all(|page| sick.page(page).unwrap()[0] == 1));
        assert!(fill(&well, 1_000).1.is_none());
        well.sync_data().unwrap();
        is_write_error(sick.sync_data(), libc::EIO);
        assert_eq!(cache.stats().occupancy.dirty.0, taken);
        // It is as good as the other when the fault has ended.
        device.clear();
        sick.sync_data().unwrap();
        assert_eq!(cache.stats().occupancy.failed.0, 0);
        assert!(fill(&sick, 1_000).1.is_none());
        sick.sync_data().unwrap();
        assert!(std::fs::read(sick.path()).unwrap() == std::fs::read(well.path()).unwrap());
    });
}

#[test]
fn what_cannot_be_written_can_be_given_up_by_saying_so() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 100);
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &path);
        assert_eq!(file.discard_unwritten().unwrap(), 0);
        device.add(rule(FaultTarget::Writes, 10..12, libc::EIO));
        device.add(rule(FaultTarget::Writes, 100..1_000, libc::EDQUOT));
        file.write_at(&[0xaa; 110 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap_err();
        file.page_mut(50).unwrap().fill(0xbb);
        // Whoever reads such a page is waited for.
        let guard = file.page(11).unwrap();
        let given_up = std::thread::scope(|scope| {
            let giving = scope.spawn(|| file.discard_unwritten().unwrap());
            support::linger(|| giving.is_finished());
            assert!(!giving.is_finished() && guard[0] == 0xaa);
            drop(guard);
            giving.join().unwrap()
        });
        assert_eq!(given_up, 12);
        file.sync_data().unwrap();
        let mut expected = vec![0xaa; 100 * PAGE as usize];
        for page in [10, 11] {
            expected[page * PAGE as usize..][..PAGE as usize].fill(page as u8);
        }
        expected[50 * PAGE as usize..][..PAGE as usize].fill(0xbb);
        expected.resize(110 * PAGE as usize, 0);
        assert!(std::fs::read(&path).unwrap() == expected, "the length stays, too");
        let mut read = vec![1; expected.len()];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), expected.len());
        assert!(read == expected, "what the device has is what is read");
    });
}

/// Giving up waits for guards of the pages; whoever held one and made the file longer waited for the giving up.
#[test]
fn who_holds_a_page_that_is_given_up_can_make_the_file_longer() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 10);
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &path);
        device.add(rule(FaultTarget::Writes, 3..4, libc::EIO));
        file.page_mut(3).unwrap().fill(0xaa);
        file.sync_data().unwrap_err();
        let guard = file.page(3).unwrap();
        std::thread::scope(|scope| {
            let giving = scope.spawn(|| file.discard_unwritten().unwrap());
            support::linger(|| giving.is_finished());
            file.page_mut_or_grow(20).unwrap().fill(0xbb);
            file.append(&[0xcc]).unwrap();
            assert!(!giving.is_finished() && guard[0] == 0xaa);
            drop(guard);
            assert_eq!(giving.join().unwrap(), 1);
        });
        file.sync_data().unwrap();
        let on_device = std::fs::read(&path).unwrap();
        assert_eq!(on_device.len() as u64, 21 * PAGE + 1);
        assert_eq!(
            (on_device[3 * PAGE as usize], on_device[20 * PAGE as usize]),
            (3, 0xbb)
        );
    });
}

/// A page that could not be written kept those beside it in memory, which were written together with it.
#[test]
fn all_that_can_be_written_is_written_by_a_sync_that_fails() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 100);
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &path);
        device.add(rule(FaultTarget::Writes, 42..43, libc::EIO));
        file.write_at(&[0xaa; 100 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::EIO);
        let mut expected = vec![0xaa; 100 * PAGE as usize];
        expected[42 * PAGE as usize..][..PAGE as usize].fill(42);
        assert!(std::fs::read(&path).unwrap() == expected);
        assert_eq!(cache.stats().occupancy.dirty.0, 1);
    });
}

/// Below the background limit what had failed waited for its thirty seconds of age.
#[test]
fn what_could_not_be_written_is_written_in_the_background_when_it_can_be() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = faulty();
        let mut options = Options::default();
        options.flusher.retry = Nanos::from_millis(1);
        let builder = PageCache::builder().memory(2 << 20).options(options);
        let cache = builder.device(device.clone()).build().unwrap();
        let file = open(&cache, &folder.path().join("data"));
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        file.write_at(&[7; 20 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::ENOSPC);
        let before = device.faults();
        until("it is tried again, and fails", || device.faults() > before);
        assert_eq!(cache.stats().occupancy.failed.0, 20);
        device.clear();
        until("it is written", || cache.stats().occupancy.dirty.0 == 0);
        until("no write is on its way", || {
            cache.stats().occupancy.writing.0 == 0
        });
        assert!(std::fs::read(file.path()).unwrap() == [7; 20 * PAGE as usize]);
        file.sync_data().unwrap();
    });
}

/// The failed write's pages were given up by a cut, but the file went on as one that can't be written: the next writer
/// that came to the limit before anything of its own was written got the old error.
#[test]
fn an_error_of_pages_that_were_given_up_is_over() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &folder.path().join("data"));
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        file.write_at(&[1; 8 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::ENOSPC);
        file.set_len(0).unwrap();
        // From now on writes come late, so that the limit is reached before one of them ends.
        device.clear();
        device.add(FaultRule::always(
            FaultTarget::Writes,
            Fault::Delay(std::time::Duration::from_millis(20)),
        ));
        file.write_at(&[2; 300 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap();
    });
}

/// Whoever makes a file longer gives the file on the device its room first. That this fails is nobody's error; that the
/// write behind it fails is, until it does not.
#[test]
fn a_file_system_that_refuses_a_length_is_reported_and_recovers_as_one_that_refuses_a_write() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &folder.path().join("data"));
        file.write_at(&[1; 5 * PAGE as usize], 0).unwrap();
        file.sync_data().unwrap();
        device.add(FaultRule::always(FaultTarget::Lengths, Fault::Fail(libc::EDQUOT)));
        device.add(rule(FaultTarget::Writes, 5..1_000, libc::EDQUOT));
        is_write_error(file.set_len(100 * PAGE), libc::EDQUOT);
        assert_eq!(file.len(), 5 * PAGE, "it is as it was");
        is_write_error(file.set_len(PAGE), libc::EDQUOT);
        assert_eq!(file.len(), 5 * PAGE);
        assert_eq!(file.page(4).unwrap()[0], 1);
        file.write_at(&[2; 10 * PAGE as usize], 5 * PAGE).unwrap();
        for _ in 0..3 {
            is_write_error(file.sync_data(), libc::EDQUOT);
        }
        device.clear();
        file.sync_data().unwrap();
        let mut expected = vec![1; 5 * PAGE as usize];
        expected.extend([2; 10 * PAGE as usize]);
        assert!(std::fs::read(file.path()).unwrap() == expected);
    });
}
