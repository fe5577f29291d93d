//! Writes that fail: what could not be written stays, is tried again and is reported until it is written.

use super::{PAGE, World, cache, faulty, is_write_error, open, prepared, rule};
use crate::support::{Place, bounded, until};
use millpond::{Options, PageCache};
use millpond_core::units::Nanos;
use millpond_testing::{Fault, FaultRule, FaultTarget};

#[test]
fn pages_that_cannot_be_written_stay_readable_and_every_sync_says_so_until_they_are() {
    bounded(|| {
        let World {
            device,
            cache,
            file,
            folder,
            ..
        } = &World::new(4);
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
        let other = open(cache, &other);
        for page in 0..2_000 {
            let _ = other.page(page).unwrap();
        }
        assert!(file.page(1).unwrap().iter().all(|&byte| byte == 0xaa));
        device.clear();
        file.sync_data().unwrap();
        let mut expected = vec![0xaa; 3 * PAGE as usize];
        expected.extend([3; PAGE as usize]);
        assert!(std::fs::read(file.path()).unwrap() == expected);
    });
}

#[test]
fn pages_the_last_handle_could_not_write_are_reported_as_lost() {
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

/// A page that could not be written kept its neighbours in memory, which were written together with it.
#[test]
fn all_that_can_be_written_is_written_by_a_sync_that_fails() {
    bounded(|| {
        let World {
            device, cache, file, ..
        } = &World::new(100);
        device.add(rule(FaultTarget::Writes, 42..43, libc::EIO));
        file.write_at(&[0xaa; 100 * PAGE as usize], 0).unwrap();
        is_write_error(file.sync_data(), libc::EIO);
        let mut expected = vec![0xaa; 100 * PAGE as usize];
        expected[42 * PAGE as usize..][..PAGE as usize].fill(42);
        assert!(std::fs::read(file.path()).unwrap() == expected);
        assert_eq!(cache.stats().occupancy.dirty.0, 1);
    });
}

/// Below the background limit what had failed waited for its thirty seconds of age.
#[test]
fn failed_pages_are_written_in_the_background_when_they_can_be() {
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

/// A thread that makes a file longer gives the file on the device its room first. If this fails, that is no
/// error; that the write behind it fails is, until it does not.
#[test]
fn a_file_system_that_refuses_a_length_is_reported_and_recovers_as_one_that_refuses_a_write() {
    bounded(|| {
        let World { device, file, .. } = &World::new(0);
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
