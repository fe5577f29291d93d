//! Files that are opened while they are closed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::{OpenOptions, PageCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Call, Hooked, Kind, Place, What, bounded, until};

/// The length was asked for, the device's latency measured, and then looked whether the file was open. Meanwhile its last
/// handle had been dropped and had written what made it longer: that was cut off for the new handle.
#[test]
fn a_file_that_is_opened_while_it_is_closed_is_as_long_as_that_leaves_it() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (measuring, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, may_go) = (measuring.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::OwnRead {
                seen.store(true, Ordering::SeqCst);
                until("the file is closed", || may_go.load(Ordering::SeqCst));
            }
        });
        let builder = PageCache::builder().memory(4 << 20);
        let cache = builder.device(device).build().unwrap();
        let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
        // Long enough for the next one who opens it to measure.
        file.write_at(&[7; 1 << 20], 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(&[8; 100], 1 << 20).unwrap();
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| cache.open(&path, OpenOptions::new()).unwrap());
            until("the measurement", || measuring.load(Ordering::SeqCst));
            drop(file);
            go.store(true, Ordering::SeqCst);
            let again = opener.join().unwrap();
            assert_eq!(again.len(), (1 << 20) + 100);
            assert_eq!(again.page(256).unwrap()[..], [8; 100]);
        });
    });
}
