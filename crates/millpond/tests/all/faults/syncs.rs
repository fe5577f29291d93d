//! Devices that can't promise durability, or promised it too early.

use super::{cache, faulty, open};
use crate::support::{Call, Hooked, Kind, Place, What, bounded};
use millpond::Error;
use millpond_testing::{Fault, FaultRule, FaultTarget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
            assert!(matches!(error, Error::Sync { is_kept: false, .. }), "{error}");
            // It named close, which fails as well.
            assert!(
                error.to_string().contains("; drop all handles of the file"),
                "{error}"
            );
            assert!(matches!(second.sync_data(), Err(Error::Sync { .. })));
        }
        let file = file.close().unwrap_err().file;
        assert_eq!(device.faults(), 1, "it would answer otherwise by now");
        other.sync_data().unwrap();
        drop(file);
        assert!(second.sync_data().is_err(), "it is still the same open file");
        drop(second);
        // The doubt is given up without a record.
        assert!(cache.take_lost().is_empty());
        open(&cache, &path).sync_data().unwrap();
    });
}

/// It was none, while every sync failed.
#[test]
fn the_failure_of_a_file_is_its_failed_sync_too() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let device = faulty();
        let cache = cache(device.clone());
        let file = open(&cache, &folder.path().join("data"));
        file.write_at(b"content", 0).unwrap();
        assert!(file.failure().is_none());
        device.add(FaultRule::always(FaultTarget::Syncs, Fault::Fail(libc::EIO)));
        for _ in 0..2 {
            let said = file.sync_data().unwrap_err().to_string();
            let failure = file.failure().expect("the next sync fails");
            assert!(matches!(failure, Error::Sync { is_kept: false, .. }), "{failure}");
            assert_eq!(failure.to_string(), said);
        }
        // What the next sync says first.
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        file.write_at(b"more", 0).unwrap();
        let error = file.sync_data().unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
        assert!(matches!(file.failure(), Some(Error::Write { .. })));
    });
}

/// Such a device has what was written, though a disk may have dropped it.
#[test]
fn a_device_that_keeps_what_it_could_not_sync_is_asked_again_and_believed() {
    let folder = Place::Disk.folder();
    let device = faulty();
    device.keep_unsynced();
    let cache = cache(device.clone());
    let file = open(&cache, &folder.path().join("data"));
    file.write_at(b"content", 0).unwrap();
    device.add(FaultRule {
        times: 2,
        ..FaultRule::always(FaultTarget::Syncs, Fault::Fail(libc::ETIMEDOUT))
    });
    for n in 1..=2 {
        let error = file.sync_data().unwrap_err();
        assert!(matches!(error, Error::Sync { is_kept: true, .. }), "{error}");
        assert!(error.to_string().ends_with(" is kept: sync again"), "{error}");
        assert_eq!((error.errno(), device.faults()), (libc::ETIMEDOUT, n));
    }
    file.sync_data().unwrap();
}

/// A device may have said that all is durable and not have done it; only a second sync can find that out.
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
