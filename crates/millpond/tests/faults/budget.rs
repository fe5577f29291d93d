//! A file that can't be written has a part of the budget, and other writers have the rest.

use crate::support::{Place, bounded};
use crate::{PAGE, cache, faulty, is_write_error, open};
use millpond::device::{Access, DeviceFile, Fault, FaultRule, FaultTarget};
use millpond::{Error, File};

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
