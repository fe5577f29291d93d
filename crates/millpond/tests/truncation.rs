//! Files that become shorter, and longer again, while others are at them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::device::{Fault, FaultRule, FaultTarget, Faulty};
use millpond::{File, OpenOptions, PageCache};
use std::sync::Arc;
use support::{Kind, Place, bounded, linger, until};

const PAGE: u64 = 4096;

fn faulty_cache() -> (PageCache, Arc<Faulty>) {
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
    let builder = PageCache::builder().memory(2 << 20).device(device.clone());
    (builder.build().unwrap(), device)
}

fn on_disk(file: &File) -> Vec<u8> {
    std::fs::read(file.path()).unwrap()
}

/// The write of a whole page was on its way when the file was cut inside that page. The device did it after the file
/// had become shorter there, and the file was as long as the page again: found by the model test.
#[test]
fn a_write_on_its_way_does_not_make_a_file_longer_again_that_was_cut_meanwhile() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (cache, device) = faulty_cache();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&[7; PAGE as usize], 0).unwrap();
        device.add(FaultRule {
            times: 1,
            ..FaultRule::always(FaultTarget::Writes, Fault::Hold)
        });
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| file.sync_data());
            until("the write", || device.held() == 1);
            let cutting = scope.spawn(|| file.set_len(100));
            until("the cut", || file.len() == 100);
            linger(|| cutting.is_finished());
            device.release().unwrap();
            syncing.join().unwrap().unwrap();
            cutting.join().unwrap().unwrap();
        });
        file.sync_data().unwrap();
        let bytes = on_disk(&file);
        assert!(bytes == [7; 100], "{} bytes", bytes.len());
    });
}
