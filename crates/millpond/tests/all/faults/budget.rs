//! A file that can't be written has a part of the budget, and other writers have the rest.

use super::{PAGE, cache, faulty, is_write_error, open, prepared};
use crate::support::{Place, bounded};
use millpond::device::{Access, DeviceFile};
use millpond::{Error, File, Options, PageCache};
use millpond_core::units::Nanos;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::path::Path;
use std::sync::Arc;

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

/// One file's dirty pages fill the limit, and its device takes none of them. A thread that wrote to another
/// file, on a healthy device, paused for ever, and later got the first file's error.
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
        // What was dirty when the device began to say so fails as well: at most the hard limit.
        assert!(
            failed > limits.failed && failed <= limits.failed + limits.hard,
            "{failed:?} of {limits:?}"
        );
        // All of it can be read, and the other file is written as if nothing were.
        assert!((0..taken).all(|page| sick.page(page).unwrap()[0] == 1));
        assert!(fill(&well, 1_000).1.is_none());
        well.sync_data().unwrap();
        is_write_error(sick.sync_data(), libc::EIO);
        // The write that failed may have changed its page before it was told to pause, and in the pause that it is in vain.
        assert!((taken..=taken + 1).contains(&cache.stats().occupancy.dirty.0));
        // It is as good as the other when the fault has ended.
        device.clear();
        sick.sync_data().unwrap();
        assert_eq!(cache.stats().occupancy.failed.0, 0);
        assert!(fill(&sick, 1_000).1.is_none());
        sick.sync_data().unwrap();
        assert!(std::fs::read(sick.path()).unwrap() == std::fs::read(well.path()).unwrap());
    });
}

/// A cache that waits for a second, and a healthy file of 2,000 pages of it, which are more than it has memory for.
fn beside_a_healthy_file(folder: &Path) -> (Arc<Faulty>, PageCache, File) {
    let device = faulty();
    let options = Options {
        alloc_timeout: Nanos::from_secs(1),
        ..Options::default()
    };
    let builder = PageCache::builder().memory(2 << 20).options(options);
    let cache = builder.device(device.clone()).build().unwrap();
    prepared(&folder.join("healthy"), 2_000);
    let healthy = open(&cache, &folder.join("healthy"));
    (device, cache, healthy)
}

/// A kernel's write-back was refused as a program's write is, above a quarter of the limit on dirty pages; the kernel took
/// its pages for clean, and they were gone.
#[test]
fn acknowledged_data_is_kept_while_there_is_room_beside_reads_and_named_when_lost() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (device, cache, healthy) = beside_a_healthy_file(folder.path());
        let file = open(&cache, &folder.path().join("data"));
        file.set_len(1_000 * PAGE).unwrap();
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        let promised = |page| file.write_promised(&[1; PAGE as usize], page * PAGE);
        let taken = (0..1_000).take_while(|&page| promised(page).is_ok()).count() as u64;
        let limits = cache.stats().derived.dirty;
        assert!(taken >= limits.ceiling.0, "{taken} of {limits:?}");
        is_write_error(file.write_at(&[2; PAGE as usize], 0), libc::ENOSPC);
        // Four more are lost, and one range is reported.
        for page in [900, 902] {
            let lost = file.write_promised(&[1; 2 * PAGE as usize], page * PAGE);
            let error = lost.unwrap_err();
            let said = format!("bytes {} to {} of", page * PAGE, (page + 2) * PAGE);
            assert!(
                error.to_string().contains(&said) && error.errno() == libc::ENOSPC,
                "{error}"
            );
        }
        let lost = cache.take_lost();
        let said = format!("bytes {} to {} of", taken * PAGE, 904 * PAGE);
        assert!(lost.len() == 1 && lost[0].to_string().contains(&said), "{lost:?}");
        for page in 0..2_000 {
            assert_eq!(healthy.page(page).unwrap()[0], page as u8);
        }
        is_write_error(file.sync_data(), libc::ENOSPC);
        device.clear();
        file.sync_data().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(bytes[..(taken * PAGE) as usize].iter().all(|&byte| byte == 1));
    });
}

/// Each file was refused nothing until the device had refused some of it, and so many took all memory: reads had none.
#[test]
fn many_files_that_cannot_be_written_leave_room_for_reads() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (device, cache, healthy) = beside_a_healthy_file(folder.path());
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::ENOSPC)));
        let files: Vec<_> = (0..60)
            .map(|n| open(&cache, &folder.path().join(n.to_string())))
            .collect();
        let refused = files
            .iter()
            .filter(|file| file.write_at(&[1; 16 * PAGE as usize], 0).is_err());
        assert!(refused.count() > 0);
        for page in 0..2_000 {
            assert_eq!(healthy.page(page).unwrap()[0], page as u8);
        }
        // Nor is there room for a thread that changes pages one at a time.
        is_write_error(files[59].page_mut_or_grow(50).map(|_| ()), libc::ENOSPC);
        device.clear();
        cache.sync_all().unwrap();
        healthy.write_at(&[7; 4096], 0).unwrap();
        healthy.sync_data().unwrap();
    });
}
