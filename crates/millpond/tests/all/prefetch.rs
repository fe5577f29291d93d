//! Reading what no call has asked for yet.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Hooked, Kind, Place, What, bounded};
use millpond::device::Op;
use millpond::{Advice, OpenOptions, PageCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u64 = 4096;

/// Asked for a file far larger than memory, prefetch read all of it, each part in place of the one before, or searched
/// the whole pool for a frame once for each page that it could not get.
#[test]
fn a_prefetch_of_more_than_memory_ends_when_memory_is_full_of_it() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let path = folder.path().join("data");
        let file_pages = (1 << 40) / PAGE;
        std::fs::File::create(&path)
            .unwrap()
            .set_len(file_pages * PAGE)
            .unwrap();
        let bytes_read = Arc::new(AtomicU64::new(0));
        let count = bytes_read.clone();
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::Submit(Op::Read) {
                count.fetch_add(call.bytes as u64, Ordering::SeqCst);
            }
        });
        let builder = PageCache::builder().memory(4 << 20).device(device);
        let cache = builder.build().unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        file.prefetch(0, u64::MAX).unwrap();
        let asked = bytes_read.load(Ordering::SeqCst) / PAGE;
        let frames = cache.stats().occupancy.frames.0;
        assert!(asked <= frames, "{asked} pages read into {frames} frames");
        assert!(
            asked > frames / 4,
            "{asked} pages of {frames} frames are not worth the call"
        );
        // It can be asked for again, from where it ended.
        let again = asked * PAGE;
        file.prefetch(again, 10 * PAGE).unwrap();
    });
}

/// A record as large as a small cache's memory is read while there are frames, together with the requested page.
#[test]
fn a_missing_page_brings_the_rest_of_its_record() {
    let folder = Place::Memory.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 1024 * PAGE as usize]).unwrap();
    for (memory, record, page, brought) in [
        (8 << 20, 16 * PAGE, 40, 32..48),
        (8 << 20, 16 * PAGE, 1023, 1008..1024),
        (8 << 20, 15 * PAGE + 1, 17, 16..32),
        (1 << 20, 4 << 20, 0, 0..1),
    ] {
        let cache = PageCache::builder().memory(memory).build().unwrap();
        let file = cache.open(&path, OpenOptions::new()).unwrap();
        file.advise(Advice::Records(record)).unwrap();
        assert_eq!(file.page(page).unwrap()[0], 7);
        let resident = (0..1024).filter(|n| file.is_resident(n * PAGE));
        let resident = resident.collect::<Vec<_>>();
        match memory {
            0x10_0000 => assert!(resident.contains(&page), "{resident:?}"),
            _ => assert_eq!(resident, brought.collect::<Vec<_>>(), "{record} bytes"),
        }
        file.advise(Advice::Normal).unwrap();
        assert_eq!(file.page(500).unwrap()[0], 7);
        assert!(!file.is_resident(499 * PAGE));
        let refused = file
            .advise(Advice::Records((4 << 20) + 1))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("bytes of a record 4194305"), "{refused}");
        assert!(refused.contains("0 to 4194304"), "{refused}");
    }
}
