//! Reads of background tasks beside what others read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, Place, bounded};
use millpond::{Error, OpenOptions, PageCache};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::sync::Arc;

const PAGE: usize = 4096;
const MEMORY: u64 = 8 << 20;

fn content(pages: usize) -> Vec<u8> {
    (0..pages * PAGE).map(|n| (n / PAGE % 251) as u8).collect()
}

/// Five times of memory by a scan, in pieces that fit no page, beside pages that were read once each.
#[test]
fn a_scan_in_the_background_reads_what_is_there_and_displaces_nothing_that_is_used() {
    bounded(|| {
        for kind in [Kind::Ring, Kind::Pool] {
            let Some(device) = kind.device() else { continue };
            let folder = Place::Disk.folder();
            let (used, scanned) = (folder.path().join("used"), folder.path().join("scanned"));
            let (few, many) = (1000, 10_000);
            std::fs::write(&used, content(few)).unwrap();
            let expected = content(many);
            std::fs::write(&scanned, &expected).unwrap();
            let cache = PageCache::builder()
                .memory(MEMORY)
                .device(device)
                .build()
                .unwrap();
            let used = cache.open(&used, OpenOptions::new()).unwrap();
            used.advise(millpond::Advice::Random).unwrap();
            for _ in 0..3 {
                (0..few as u64).for_each(|page| assert_eq!(used.page(page).unwrap()[7], (page % 251) as u8));
            }
            let scan = cache.open(&scanned, OpenOptions::new()).unwrap().background();
            let (mut part, mut at) = (vec![0; 37_777], 0);
            while at < expected.len() {
                let read = scan.read_at(&mut part, at as u64).unwrap();
                assert!(
                    read > 0 && part[..read] == expected[at..at + read],
                    "{kind:?}, at {at}"
                );
                at += read;
            }
            assert_eq!(scan.read_at(&mut part, at as u64).unwrap(), 0);
            let kept = (0..few as u64).filter(|&page| used.is_resident(page)).count();
            assert!(kept * 10 >= few * 9, "{kind:?}: {kept} of {few} pages are left");
        }
    });
}

#[test]
fn a_background_read_that_the_device_refuses_is_an_error_and_the_next_one_asks_again() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, content(100)).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(MEMORY).device(device.clone());
    let cache = builder.build().unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap().background();
    device.add(FaultRule::always(FaultTarget::Reads, Fault::Fail(libc::EIO)));
    let mut page = [0; PAGE];
    let error = file.read_at(&mut page, 7 * PAGE as u64).unwrap_err();
    assert!(matches!(error, Error::Read { offset: 28_672, .. }), "{error}");
    device.clear();
    assert_eq!(file.read_at(&mut page, 7 * PAGE as u64).unwrap(), PAGE);
    assert_eq!(page, [7; PAGE]);
}
