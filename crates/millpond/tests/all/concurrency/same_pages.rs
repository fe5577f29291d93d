//! Many threads want the same pages, or others than those that a guard holds.

use super::stage::{PAGES, Stage, is_stamp_and_zeros, whole};
use super::{PAGE, open};
use crate::support::{Call, Hooked, Kind, Place, What, bounded, number};
use millpond::PageCache;
use millpond::device::Op;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

fn no_page_is_torn_old_or_lost(kind: Kind, place: Place, rounds: u64) {
    bounded(move || {
        let folder = place.folder();
        let Some(stage) = Stage::new(kind, folder.path(), 2) else {
            return;
        };
        let seed = number("MILLPOND_SEED")
            .or_else(|| number("MILLPOND_FIRST_SEED"))
            .unwrap_or(0);
        let rounds = number("MILLPOND_ROUNDS").unwrap_or(rounds);
        std::thread::scope(|scope| {
            for thread in 0..5 {
                let stage = &stage;
                scope.spawn(move || stage.play(seed + thread, rounds));
            }
        });
        let occupancy = stage.cache.stats().occupancy;
        assert_eq!(occupancy.dirtiers_blocked, 0, "{occupancy:?}");
        stage.cache.sync_all().unwrap();
        for (file, handle) in (0..).zip(&stage.files) {
            for page in 0..PAGES {
                let truth = &stage.truth[file as usize][page as usize];
                let newest = truth.done.load(Ordering::SeqCst);
                assert_eq!(newest, truth.begun.load(Ordering::SeqCst));
                assert_eq!(whole(file, page, &handle.page(page).unwrap()), newest);
            }
            let disk = std::fs::read(handle.path()).unwrap();
            assert_eq!(disk.len() as u64, handle.len());
            let mut bytes = vec![0; disk.len()];
            assert_eq!(handle.read_at(&mut bytes, 0).unwrap(), disk.len());
            assert!(bytes == disk, "file {file} on the disk is another than in memory");
            for (n, bytes) in disk.chunks(PAGE).enumerate().skip(PAGES as usize) {
                is_stamp_and_zeros(file, n as u64, bytes);
            }
        }
    });
}

#[test]
fn no_page_is_torn_old_or_lost_by_the_ring_on_disk() {
    no_page_is_torn_old_or_lost(Kind::Ring, Place::Disk, 6_000);
}

#[test]
fn no_page_is_torn_old_or_lost_by_threads_in_memory() {
    no_page_is_torn_old_or_lost(Kind::Pool, Place::Memory, 6_000);
}

#[test]
fn threads_that_need_the_same_page_share_one_read() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 100 * PAGE]).unwrap();
        let reads = Arc::new(Mutex::new(HashMap::<u64, u32>::new()));
        let counted = reads.clone();
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if matches!(call.what, What::OwnRead | What::Submit(Op::Read)) {
                for page in 0..call.bytes.div_ceil(PAGE) as u64 {
                    *counted
                        .lock()
                        .entry(call.offset / PAGE as u64 + page)
                        .or_default() += 1;
                }
            }
        });
        let builder = PageCache::builder().memory(2 << 20).device(device);
        let cache = builder.build().unwrap();
        let file = open(&cache, &path);
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (file, start) = (&file, &start);
                scope.spawn(move || {
                    for page in 0..100 {
                        start.wait();
                        match thread % 4 {
                            0 => assert_eq!(file.page(page).unwrap()[0], 7),
                            1 => assert_eq!(file.page_mut(page).unwrap()[0], 7),
                            2 => file.write_at(&[7; 10], page * PAGE as u64 + 50).unwrap(),
                            _ => {
                                let mut buf = [0; 100];
                                assert_eq!(file.read_at(&mut buf, page * PAGE as u64).unwrap(), 100);
                                assert_eq!(buf, [7; 100]);
                            }
                        }
                    }
                });
            }
        });
        let reads = reads.lock();
        assert_eq!(reads.len(), 100);
        let twice: Vec<_> = reads.iter().filter(|&(_, &count)| count > 1).collect();
        assert!(twice.is_empty(), "page and how often: {twice:?}");
    });
}

#[test]
fn guards_that_are_held_for_long_stop_nobody_who_wants_other_pages() {
    bounded(|| {
        let folder = Place::Memory.folder();
        let stage = Stage::new(Kind::Pool, folder.path(), 1).unwrap();
        let file = &stage.files[0];
        // Pages that no other thread touches, some of them changed, in a pool of 64 frames.
        let other = open(&stage.cache, &folder.path().join("other"));
        other.set_len(16 * PAGE as u64).unwrap();
        let read: Vec<_> = (0..12).map(|page| other.page(page).unwrap()).collect();
        let mut changed: Vec<_> = (12..16).map(|page| other.page_mut(page).unwrap()).collect();
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let stage = &stage;
                scope.spawn(move || stage.play(seed, 1_500));
            }
        });
        file.sync_data().unwrap();
        assert!(read.iter().all(|page| page.iter().all(|&byte| byte == 0)));
        changed.iter_mut().for_each(|page| page.fill(3));
        drop((read, changed));
        other.sync_data().unwrap();
        assert!(
            std::fs::read(other.path()).unwrap()[12 * PAGE..]
                .iter()
                .all(|&byte| byte == 3)
        );
    });
}
