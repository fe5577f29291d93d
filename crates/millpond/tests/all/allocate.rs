//! Blocks that a file has ahead of its content: who gets them, who gives them back, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, Place, bounded, linger, until};
use millpond::{Error, File, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

fn open(path: &Path) -> (PageCache, Arc<Faulty>, File) {
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(8 << 20).device(device.clone());
    let cache = builder.build().unwrap();
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    (cache, device, file)
}

fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_range_has_its_blocks_before_it_is_written_and_length_and_content_stay() {
    for place in [Place::Disk, Place::Memory] {
        let folder = place.folder();
        let path = folder.path().join("data");
        let (_cache, _device, file) = open(&path);
        file.write_at(&[7; 5000], 0).unwrap();
        file.allocate(1000, 2 * MIB).unwrap();
        assert_eq!((file.len(), std::fs::metadata(&path).unwrap().len()), (5000, 0));
        assert!(allocated(&path) >= 2 * MIB);
        file.sync_data().unwrap();
        let full = allocated(&path);
        // More than a step of the length on the device, and in two parts.
        file.append(&[7; MIB as usize]).unwrap();
        file.sync_data().unwrap();
        assert_eq!(allocated(&path), full, "{place:?}");
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 5000 + MIB as usize]);
        drop(file);
        assert_eq!(allocated(&path), full, "the close keeps them");
    }
}

#[test]
fn blocks_past_the_end_are_freed_by_any_length_that_is_not_longer() {
    for place in [Place::Disk, Place::Memory] {
        let folder = place.folder();
        let path = folder.path().join("data");
        let (_cache, _device, file) = open(&path);
        // Its last page whole, in part, and not yet on the device; and an empty file.
        for len in [2 * PAGE, 2 * PAGE + 100, 0] {
            for is_synced in [false, true] {
                file.set_len(0).unwrap();
                file.write_at(&vec![7; len as usize], 0).unwrap();
                if is_synced {
                    file.sync_data().unwrap();
                }
                file.allocate(0, MIB).unwrap();
                assert!(allocated(&path) >= MIB);
                file.set_len(len).unwrap();
                assert!(allocated(&path) <= 4 * PAGE, "{place:?}, {len} bytes");
                file.sync_data().unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), vec![7; len as usize]);
            }
        }
        file.write_at(&[7; 4 * PAGE as usize], 0).unwrap();
        file.allocate(0, MIB).unwrap();
        file.set_len(PAGE).unwrap();
        assert!(allocated(&path) <= 2 * PAGE);
        file.allocate(0, MIB).unwrap();
        file.set_len(MIB).unwrap();
        assert!(allocated(&path) >= MIB, "a longer one keeps them");
        file.punch(0, MIB).unwrap();
        assert!(allocated(&path) <= PAGE, "and a punch frees them inside the file");
    }
}

/// On ext4 a length that a file has already zeroes the rest of its last block in the kernel's page cache, beside a write of that
/// block which goes around it: the old bytes won, and the next sync failed.
#[test]
fn the_length_is_set_again_only_after_the_last_page_is_written() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (_cache, device, file) = open(&path);
        file.write_at(&[1; 100], PAGE).unwrap();
        file.sync_data().unwrap();
        file.allocate(0, MIB).unwrap();
        file.write_at(&[2; 100], PAGE).unwrap();
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let is_set = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_out());
            until("the write", || device.held() == 1);
            let setter = scope.spawn(|| {
                file.set_len(PAGE + 100).unwrap();
                is_set.store(true, Ordering::SeqCst);
            });
            linger(|| is_set.load(Ordering::SeqCst));
            let too_early = is_set.load(Ordering::SeqCst);
            device.clear();
            device.release().unwrap();
            writer.join().unwrap().unwrap();
            setter.join().unwrap();
            assert!(!too_early);
        });
        file.sync_data().unwrap();
        assert!(allocated(&path) <= 4 * PAGE);
        assert_eq!(std::fs::read(&path).unwrap()[PAGE as usize..], [2; 100]);
    });
}

#[test]
fn an_allocation_that_is_refused_changes_nothing() {
    for refusal in [libc::ENOSPC, libc::EOPNOTSUPP, libc::EIO] {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (cache, device, file) = open(&path);
        file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
        for fault in [Fault::Fail(refusal), Fault::Cut(PAGE as usize)] {
            device.add(FaultRule::always(FaultTarget::Allocations, fault));
            let error = file.allocate(0, 10 * MIB).unwrap_err();
            assert!(matches!(error, Error::Write { is_kept: true, .. }), "{error}");
            let expected = if fault == Fault::Fail(refusal) {
                refusal
            } else {
                libc::EIO
            };
            assert_eq!(error.errno(), expected);
            device.clear();
        }
        // Of nothing that was accepted is anything lost, nor does anything else fail.
        assert!(file.failure().is_none());
        file.sync_data().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [1; 3 * PAGE as usize]);
        assert_eq!(cache.devices()[0].errors, 0);
        file.allocate(0, 10 * MIB).unwrap();
    }
}

/// The file was cut back on the device to the length that it has for users, and that freed the blocks.
#[test]
fn a_write_that_fails_keeps_what_was_allocated_for_it() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, [1; 100]).unwrap();
    let (_cache, device, file) = open(&path);
    file.allocate(0, 6 * MIB).unwrap();
    device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
    let error = file.write_at(&vec![2; 5 << 20], 50).unwrap_err();
    assert!(matches!(error, Error::Read { .. }), "{error}");
    assert!(allocated(&path) >= 6 * MIB);
    assert_eq!((file.len(), std::fs::metadata(&path).unwrap().len()), (100, 100));
}

#[test]
fn a_range_that_no_file_has_is_refused_by_what_it_may_be() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let (cache, _device, file) = open(&path);
    let error = file.allocate(u64::MAX, 5).unwrap_err();
    assert!(
        matches!(error, Error::OutOfRange { given: u64::MAX, .. }),
        "{error}"
    );
    let error = file.allocate(1 << 51, 5).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    file.allocate(100, 0).unwrap();
    assert_eq!(allocated(&path), 0);
    let reader = cache.open(&path, OpenOptions::new()).unwrap();
    assert!(matches!(
        reader.allocate(0, 5).unwrap_err(),
        Error::ReadOnly { .. }
    ));
}
