//! Promises of docs/SEMANTICS.md that belong to no other test: opening, closing, and what an error leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Hooked, Kind, Place, What, bounded, linger};
use millpond::device;
use millpond::device::GoalSource;
use millpond::device::Op;
use millpond::{Builder, Error, File, OpenOptions, PageCache};
use millpond_core::admission::AdmissionOptions;
use millpond_testing::disk::{HddParameters, Model, SsdParameters};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty, Modelled};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAGE: u64 = 4096;

/// How often the device got each request.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicU64; 3]>);

impl Counts {
    fn builder(&self) -> Builder {
        let counts = self.clone();
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            let at = match call.what {
                What::OwnRead => 0,
                What::Submit(Op::Write) => 1,
                What::Sync => 2,
                _ => return,
            };
            counts.0[at].fetch_add(1, Ordering::SeqCst);
        });
        PageCache::builder().memory(8 << 20).device(device)
    }

    /// Reads by a thread that needs them, writes and syncs since it was asked last.
    fn take(&self) -> [u64; 3] {
        [0, 1, 2].map(|at| self.0[at].swap(0, Ordering::SeqCst))
    }
}

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

fn goal(cache: &PageCache) -> u64 {
    match cache.options().admission {
        AdmissionOptions::Goal(goal) => goal.read_latency.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_file_with_content_sets_the_goal_for_read_latency_unless_there_is_one() {
    let folder = Place::Disk.folder();
    let (small, large) = (folder.path().join("small"), folder.path().join("large"));
    std::fs::write(&small, vec![1; (1 << 20) - 1]).unwrap();
    std::fs::write(&large, vec![1; 1 << 20]).unwrap();
    let counts = Counts::default();
    let cache = counts.builder().build().unwrap();
    assert_eq!(cache.goal_source(), Some(GoalSource::Unmeasured));
    drop(open(&cache, &small));
    assert_eq!(counts.take(), [0, 0, 0], "too small");
    assert_eq!(cache.calibration(), None);
    drop(open(&cache, &large));
    let [reads, writes, syncs] = counts.take();
    assert_eq!((writes, syncs), (0, 0));
    let found = cache.calibration().unwrap();
    assert_eq!(cache.goal_source(), Some(GoalSource::Measured(found)));
    assert_eq!(u64::from(found.reads), reads, "24, or fewer on a slow day");
    assert!((1..=24).contains(&reads), "{reads}");
    assert!(found.read_latency <= found.read_latency_max && found.read_latency_max <= found.took);
    let derived = found.read_latency_goal().as_nanos() as u64;
    assert_eq!(goal(&cache), derived);
    assert!(
        (2_000_000..=60_000_000).contains(&goal(&cache)),
        "{}",
        goal(&cache)
    );
    drop(open(&cache, &large));
    assert_eq!(counts.take(), [0, 0, 0], "once");
    let mut options = cache.options();
    if let AdmissionOptions::Goal(goal) = &mut options.admission {
        goal.read_latency = millpond_core::units::Nanos(7_654_321);
    }
    let own = Duration::from_nanos(7_654_321);
    for (cache, what) in [
        (
            counts.builder().read_latency_goal(own).build().unwrap(),
            "read_latency_goal",
        ),
        (
            counts.builder().options(options.clone()).build().unwrap(),
            "options",
        ),
        (counts.builder().build().unwrap(), "set_options"),
    ] {
        if what == "set_options" {
            cache.set_options(options.clone()).unwrap();
        }
        drop(open(&cache, &large));
        assert_eq!((counts.take()[0], goal(&cache)), (0, 7_654_321), "{what}");
        assert_eq!(cache.calibration(), None, "{what}");
        assert_eq!(cache.goal_source(), Some(GoalSource::Given), "{what}");
    }
    // What one cache has found another can be given.
    let slow = millpond::device::Calibration {
        facts: millpond::device::DeviceFacts {
            rotational: true,
            ..found.facts
        },
        read_latency: Duration::from_millis(3),
        ..found
    };
    let cache = counts.builder().calibration(slow).build().unwrap();
    drop(open(&cache, &large));
    assert_eq!(
        (counts.take()[0], goal(&cache)),
        (0, 48_000_000),
        "sixteen times 3 ms"
    );
    assert_eq!(cache.calibration(), Some(slow));
    let cache = counts.builder().calibration(slow).read_latency_goal(own).build();
    assert_eq!(
        goal(&cache.unwrap()),
        7_654_321,
        "what is given in person goes before"
    );
}

/// With the goal of a flash disk, which it had, writers beside a log had 5 MB/s of a modelled disk.
#[test]
fn a_device_that_rotates_has_the_longest_goal_until_there_is_something_to_read() {
    let folder = Place::Disk.folder();
    for (model, expected) in [
        (Model::hdd(HddParameters::default()).unwrap(), 60_000_000),
        (Model::ssd(SsdParameters::default()).unwrap(), 2_000_000),
    ] {
        let device = Arc::new(Modelled::new(device::best(), model).unwrap());
        let cache = PageCache::builder()
            .memory(8 << 20)
            .device(device)
            .build()
            .unwrap();
        assert_eq!(goal(&cache), 2_000_000);
        drop(open(&cache, &folder.path().join("new")));
        assert_eq!(goal(&cache), expected);
        assert_eq!(cache.calibration(), None);
        let content = folder.path().join("content");
        std::fs::write(&content, vec![1; 1 << 20]).unwrap();
        drop(open(&cache, &content));
        let found = cache.calibration().unwrap();
        assert_eq!(cache.goal_source(), Some(GoalSource::Measured(found)));
        assert_eq!(goal(&cache), found.read_latency_goal().as_nanos() as u64);
    }
}

/// As it is measured of the modelled disk.
const ROTATES: millpond::device::Calibration = millpond::device::Calibration {
    facts: millpond::device::DeviceFacts::MEMORY,
    reads: 24,
    read_latency: Duration::from_micros(5_400),
    read_latency_max: Duration::from_millis(10),
    took: Duration::from_millis(130),
};

/// Dillon 2000's news server begins with nothing in memory: page by page, its history took most of what the disk can do.
#[test]
fn on_a_disk_that_rotates_a_guard_brings_a_pages_neighbours_while_memory_is_free() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 1024 * PAGE as usize]).unwrap();
    let model = Model::hdd(HddParameters::default()).unwrap();
    let device = Arc::new(Modelled::new(device::best(), model).unwrap());
    let cache = PageCache::builder()
        .memory(8 << 20)
        .device(device)
        .calibration(ROTATES);
    let resident = |file: &File| -> Vec<u64> { (0..1024).filter(|n| file.is_resident(n * PAGE)).collect() };
    let cache = cache.build().unwrap();
    let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    assert_eq!(file.page(40).unwrap()[0], 7);
    assert_eq!(resident(&file), (32..64).collect::<Vec<_>>(), "128 KiB");
    file.page_mut(1000).unwrap()[0] = 8;
    assert_eq!(resident(&file).len(), 64);
    // A caller that asks for bytes gets those.
    let mut byte = [0];
    file.read_at(&mut byte, 500 * PAGE).unwrap();
    assert!(file.is_resident(500 * PAGE) && !file.is_resident(501 * PAGE));
    file.close().unwrap();
}

/// An unreadable neighbour is not an error of this read.
#[test]
fn a_page_is_read_though_one_beside_it_cannot_be() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 1024 * PAGE as usize]).unwrap();
    let model = Model::hdd(HddParameters::default()).unwrap();
    let faulty = Arc::new(Faulty::new(
        Arc::new(Modelled::new(device::best(), model).unwrap()),
        1,
    ));
    let cache = PageCache::builder()
        .memory(8 << 20)
        .device(faulty.clone())
        .calibration(ROTATES)
        .build()
        .unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    faulty.add(FaultRule {
        offsets: 41 * PAGE..42 * PAGE,
        ..FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO))
    });
    assert_eq!(file.page(40).unwrap()[0], 7);
    assert!(matches!(file.page(41), Err(Error::Read { .. })));
}

#[test]
fn opening_a_file_that_exists_leaves_its_content() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, b"content").unwrap();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    for options in [
        OpenOptions::new(),
        OpenOptions::new().write(true),
        OpenOptions::new().create(true),
    ] {
        assert_eq!(
            &cache.open(&path, options).unwrap().page(0).unwrap()[..],
            b"content"
        );
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"content");
}

#[test]
fn a_page_is_resident_from_its_read_until_it_is_forgotten_and_asking_reads_nothing() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 3 * PAGE as usize]).unwrap();
    let counts = Counts::default();
    let cache = counts.builder().build().unwrap();
    let file = open(&cache, &path);
    file.advise(millpond::Advice::Random).unwrap();
    assert!(!file.is_resident(PAGE));
    assert_eq!(counts.take(), [0, 0, 0]);
    assert_eq!(file.page(1).unwrap()[0], 1);
    assert!(file.is_resident(PAGE) && file.is_resident(2 * PAGE - 1) && !file.is_resident(2 * PAGE));
    let held = file.page_mut(1).unwrap();
    assert!(file.is_resident(PAGE), "whoever has it");
    drop(held);
    file.set_len(PAGE).unwrap();
    assert!(!file.is_resident(PAGE));
}

#[test]
fn close_makes_durable_what_any_handle_has_written_and_of_a_reader_it_is_drop() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let counts = Counts::default();
    let cache = counts.builder().build().unwrap();
    let (one, two) = (open(&cache, &path), open(&cache, &path));
    let reader = cache.open(&path, OpenOptions::new()).unwrap();
    one.write_at(b"by one", 0).unwrap();
    reader.close().unwrap();
    assert_eq!(counts.take(), [0, 0, 0]);
    two.close().unwrap();
    assert_eq!(counts.take(), [0, 1, 1]);
    assert_eq!(std::fs::read(&path).unwrap(), b"by one");
    one.write_at(b"BY", 0).unwrap();
    let another = open(&cache, &path);
    drop(one);
    assert_eq!(counts.take(), [0, 0, 0], "not the last: nothing is done");
    assert_eq!(&another.page(0).unwrap()[..], b"BY one");
    drop(another);
    assert_eq!(
        counts.take(),
        [0, 1, 0],
        "the last: written, and not made durable"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"BY one");
}

#[test]
fn close_says_what_could_not_be_written_and_another_handle_keeps_it() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(2 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let (one, two) = (open(&cache, &path), open(&cache, &path));
    one.write_at(b"kept", 0).unwrap();
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::EIO)));
    let error = Error::from(one.close().unwrap_err());
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert!(cache.take_lost().is_empty());
    assert_eq!(&two.page(0).unwrap()[..], b"kept");
    device.clear();
    two.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}

/// Up to 32 pages are changed at a time. A write that has to wait for the 41st has changed the first ones, for all to see.
#[test]
fn a_long_write_is_seen_in_parts_and_writes_that_extend_the_file_wait_for_one_another() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let cache = PageCache::builder().memory(4 << 20).build().unwrap();
        let file = open(&cache, &folder.path().join("data"));
        file.write_at(&[1; 64 * PAGE as usize], 0).unwrap();
        let held = file.page(40).unwrap();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| file.write_at(&[2; 65 * PAGE as usize], 0).unwrap());
            crate::support::until("a part is written", || file.page(31).unwrap()[0] == 2);
            assert_eq!((file.page(50).unwrap()[0], file.len()), (1, 64 * PAGE));
            // Behind all of the first, though nothing holds it up but that.
            let second = scope.spawn(|| file.append(b"behind").unwrap());
            let third = scope.spawn(|| file.page_mut_or_grow(70).unwrap()[0] = 3);
            // One that stays inside the file is not concerned.
            file.write_at(&[4; 100], 60 * PAGE).unwrap();
            linger(|| second.is_finished() || third.is_finished());
            assert!(!first.is_finished() && !second.is_finished() && !third.is_finished());
            assert_eq!((held[0], file.len()), (1, 64 * PAGE));
            drop(held);
            first.join().unwrap();
            let at = second.join().unwrap();
            third.join().unwrap();
            assert!(at == 65 * PAGE || at == 71 * PAGE, "{at}");
        });
        for page in 0..65 {
            assert_eq!(file.page(page).unwrap()[PAGE as usize - 1], 2, "page {page}");
        }
    });
}

/// While it is paused, because too much is dirty and the device is slow to take it, too.
#[test]
fn a_write_that_pauses_keeps_its_place_before_others_that_extend_the_file() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let builder = PageCache::builder().memory(2 << 20).device(device.clone());
        let cache = builder.build().unwrap();
        let file = open(&cache, &folder.path().join("data"));
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let len = 2 << 20;
        std::thread::scope(|scope| {
            let first = scope.spawn(|| file.append(&vec![1; len]).unwrap());
            crate::support::until("it pauses", || cache.stats().counters.balance_dirty_pauses > 0);
            let second = scope.spawn(|| file.append(b"behind").unwrap());
            linger(|| second.is_finished());
            assert!(!first.is_finished() && !second.is_finished());
            device.clear();
            device.release().unwrap();
            assert_eq!(first.join().unwrap(), 0);
            assert_eq!(second.join().unwrap(), len as u64);
        });
    });
}

/// A write that needs the old content of its last page, which can't be read.
#[test]
fn after_a_write_that_failed_a_part_of_it_from_its_start_on_may_be_there() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 8 * PAGE as usize]).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(2 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let file = open(&cache, &path);
    device.add(FaultRule {
        offsets: 3 * PAGE..4 * PAGE,
        ..FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO))
    });
    let error = file.write_at(&[2; 2 * PAGE as usize + 10], PAGE).unwrap_err();
    assert!(matches!(error, Error::Read { offset: 12_288, .. }), "{error}");
    device.clear();
    let byte = |page: u64| file.page(page).unwrap()[0];
    assert_eq!((byte(1), byte(2), byte(3)), (2, 2, 1));
    file.close().unwrap();
    let on_disk = std::fs::read(&path).unwrap();
    assert!(on_disk[PAGE as usize..][..2 * PAGE as usize] == [2; 2 * PAGE as usize]);
    assert!(on_disk[3 * PAGE as usize..] == [1; 5 * PAGE as usize]);
}

/// The device had been asked for the length that the file would have got, and the file was left with it.
#[test]
fn a_write_that_was_to_make_the_file_longer_and_failed_leaves_no_zeros_behind_the_end() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 100]).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(8 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let file = open(&cache, &path);
    device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
    let error = file.write_at(&vec![2; 5 << 20], 50).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert_eq!((file.len(), std::fs::metadata(&path).unwrap().len()), (100, 100));
    device.clear();
    file.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [1; 100]);
}

#[test]
fn room_is_made_on_the_device_ahead_of_what_is_written() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(32 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let file = open(&cache, &path);
    device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
    file.write_at(&vec![1; 5 << 20], 0).unwrap();
    let on_disk = std::fs::read(&path).unwrap();
    assert!(on_disk.len() == 5 << 20 && on_disk.iter().all(|&byte| byte == 0));
    device.clear();
    device.release().unwrap();
    file.close().unwrap();
    assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 1));
}

#[test]
fn growth_that_the_file_system_refuses_changes_nothing() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use std::os::fd::AsRawFd;
    let sealed = memfd_create("sealed", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    std::fs::write(format!("/proc/self/fd/{}", sealed.as_raw_fd()), b"content").unwrap();
    fcntl_add_seals(&sealed, SealFlags::GROW).unwrap();
    let path = format!("/proc/self/fd/{}", sealed.as_raw_fd());
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
    for refused in [
        file.set_len(8),
        file.set_len(100_000),
        file.write_at(&vec![0; 5 << 20], 0),
        file.page_mut_or_grow(2_000).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert_eq!(error.errno(), libc::EPERM);
        assert_eq!(&file.page(0).unwrap()[..], b"content");
    }
    file.write_at(b"C", 0).unwrap();
    file.close().unwrap();
    assert_eq!(
        std::fs::read(format!("/proc/self/fd/{}", sealed.as_raw_fd())).unwrap(),
        b"Content"
    );
}

#[test]
fn a_handle_for_reading_changes_nothing_whatever_it_is_asked() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, b"content").unwrap();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let writer = open(&cache, &path);
    for refused in [
        file.write_at(b"x", 0),
        file.write_at(b"", 0),
        file.append(b"x").map(drop),
        file.page_mut(0).map(drop),
        file.page_mut_or_grow(9).map(drop),
        file.set_len(7),
        file.set_len(3),
    ] {
        assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
    }
    // What others have written it may make durable.
    writer.write_at(b"C", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"Content");
    assert_eq!(file.len(), 7);
}
