//! Page guards that are held while others want the same pages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Call, Hooked, Kind, Place, What, bounded, linger, until};
use millpond::{OpenOptions, PageCache};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

const PAGE: u64 = 4096;

/// A write of two pages had the first one locked while it waited for a reader of the second; that reader
/// wanted to read the first one, too. Only the cache held more than read guards, and both waited for ever.
#[test]
fn readers_that_hold_several_pages_and_writes_of_several_pages_do_not_wait_for_one_another() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let file = cache
            .open(folder.path().join("data"), OpenOptions::new().create(true))
            .unwrap();
        file.write_at(&[1; 4 * PAGE as usize], 0).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            let second = file.page(2).unwrap();
            let writer = scope.spawn(|| {
                start.wait();
                file.write_at(&[2; 2 * PAGE as usize], PAGE).unwrap();
            });
            start.wait();
            linger(|| writer.is_finished());
            let first = file.page(1).unwrap();
            assert!(
                second.iter().all(|&byte| byte == 1),
                "nobody changes a page that is held"
            );
            drop((first, second));
            writer.join().unwrap();
        });
        assert!((1..3).all(|page| file.page(page).unwrap().iter().all(|&byte| byte == 2)));
    });
}

/// The same with a page that is on its way: a write of two pages held the first while the second was being read, and kept
/// readers from the first for as long as that took.
#[test]
fn a_write_that_waits_for_the_device_blocks_no_caller_on_the_pages_before() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, [1; 4 * PAGE as usize]).unwrap();
        let (held, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, may_go) = (held.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::OwnRead && call.offset == 2 * PAGE {
                count.fetch_add(1, Ordering::SeqCst);
                until("it may go on", || may_go.load(Ordering::SeqCst));
            }
        });
        let builder = PageCache::builder().memory(2 << 20).device(device);
        let cache = builder.build().unwrap();
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        file.advise(millpond::Advice::Random).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| file.page(2).map(|page| page[0]));
            until("the read", || held.load(Ordering::SeqCst) == 1);
            let writer = scope.spawn(|| file.write_at(&[2; PAGE as usize + 10], PAGE));
            until("the first page is written", || file.page(1).unwrap()[0] == 2);
            assert!(!writer.is_finished() && !reader.is_finished());
            go.store(true, Ordering::SeqCst);
            assert_eq!(reader.join().unwrap().unwrap(), 1);
            writer.join().unwrap().unwrap();
        });
        assert_eq!(file.page(2).unwrap()[..11], [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    });
}
