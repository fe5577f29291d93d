//! Guards that keep their file open themselves, and guards that are had at once or not at all.

use super::{PAGE, open};
use crate::support::{Call, Draw, Hooked, Kind, Place, What, bounded, number, skip, until};
use millpond::{Error, File, OpenOptions, OwnedPageRef, PageCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

const SIZE: usize = PAGE as usize;

fn file() -> (tempfile::TempDir, PageCache, File) {
    let folder = Place::Disk.folder();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let file = open(&cache, &folder.path().join("data"));
    file.write_at(&[7; 10 * SIZE], 0).unwrap();
    (folder, cache, file)
}

#[test]
fn an_owned_guard_keeps_file_and_cache_until_it_is_dropped_on_whichever_thread() {
    bounded(|| {
        let (folder, cache, file) = file();
        let path = folder.path().join("data");
        let page = file.page_owned(3).unwrap();
        let rest = bytes::Bytes::from_owner(file.page_owned(4).unwrap()).slice(1..);
        drop(file);
        // Open it is, and so another handle finds what was not written yet.
        let again = cache.open(&path, OpenOptions::new()).unwrap();
        assert!(again.is_unwritten().unwrap());
        drop((again, cache));
        let other = std::thread::spawn(move || {
            assert_eq!(page[..], [7; SIZE]);
            drop(page);
            rest
        });
        let rest = other.join().unwrap();
        assert_eq!(rest[..], [7; SIZE - 1]);
        drop(rest);
        // The last of them: written, and closed.
        assert_eq!(std::fs::read(&path).unwrap(), [7; 10 * SIZE]);
    });
}

#[test]
fn closing_beside_an_owned_guard_that_changes_a_page_gives_the_handle_back_for_later() {
    if !cfg!(debug_assertions) {
        return skip("without debug assertions it waits for the guard");
    }
    bounded(|| {
        let (folder, _cache, file) = file();
        let mut page = file.page_mut_owned(3).unwrap();
        page.fill(8);
        let failed = file.close().unwrap_err();
        assert!(
            matches!(failed.error, Error::OwnGuard { page: 3, .. }),
            "{failed}"
        );
        drop(page);
        // One for reading is nothing that a sync waits for, and keeps the file open.
        let page = failed.file.page_owned(3).unwrap();
        failed.file.close().unwrap();
        let bytes = std::fs::read(folder.path().join("data")).unwrap();
        assert_eq!(bytes[3 * SIZE..4 * SIZE], [8; SIZE]);
        assert_eq!(page[..], [8; SIZE]);
    });
}

#[test]
fn any_number_of_owned_guards_outlive_their_thread_and_a_writer_waits_for_the_last() {
    bounded(|| {
        let (_folder, _cache, file) = file();
        let reader = file.clone();
        let pins = std::thread::spawn(move || {
            let pins = (0..1000).map(|_| reader.page_owned(3).unwrap());
            pins.collect::<Vec<_>>()
        });
        let mut pins = pins.join().unwrap();
        let mut borrowed = file.page(3).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_at(&[8; SIZE], 3 * PAGE));
            while let Some(pin) = pins.pop() {
                assert_eq!(pin[..], [7; SIZE]);
                assert!(file.try_page_mut(3).unwrap().is_none());
                borrowed = file.page(3).unwrap();
            }
            assert_eq!(borrowed[..], [7; SIZE]);
            drop(borrowed);
            writer.join().unwrap().unwrap();
        });
        assert_eq!(file.try_page(3).unwrap().unwrap()[..], [8; SIZE]);
    });
}

#[test]
fn owned_guards_keep_their_pages_when_the_budget_shrinks() {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    let bytes: Vec<u8> = (0..400).flat_map(|n| [n as u8; SIZE]).collect();
    std::fs::write(&path, &bytes).unwrap();
    let cache = PageCache::builder().memory(4 << 20).build().unwrap();
    let file = cache.open(&path, OpenOptions::new()).unwrap();
    let pins: Vec<_> = (0..400).map(|page| file.page_owned(page).unwrap()).collect();
    cache.set_memory(1 << 20).unwrap();
    // The budget is below what the guards hold, and stays so.
    assert!(matches!(
        cache.set(&[("alloc_timeout", "20ms")]).and_then(|_| cache
            .open(folder.path().join("other"), OpenOptions::new().create(true))?
            .write_at(&[1; SIZE], 0)),
        Err(Error::NoFrames { .. })
    ));
    assert!(pins.iter().enumerate().all(|(n, pin)| pin[..] == [n as u8; SIZE]));
    drop(pins);
    cache.set(&[("alloc_timeout", "30s")]).unwrap();
    let other = open(&cache, &folder.path().join("other"));
    other.write_at(&[1; SIZE], 0).unwrap();
}

/// Pages are pinned by threads, looked at by another and dropped there, while they are changed, evicted for want of memory,
/// forgotten and cut. Each page is of one byte all over, and stays what it was for as long as a guard is there.
#[test]
fn pages_in_owned_guards_that_go_from_thread_to_thread_do_not_change_beside_anything_else() {
    bounded(|| {
        const PAGES: u64 = 400;
        let folder = Place::Disk.folder();
        let cache = PageCache::builder().memory(1 << 20).build().unwrap();
        let file = open(&cache, &folder.path().join("data"));
        file.set_len(PAGES * PAGE).unwrap();
        let rounds = number("MILLPOND_ROUNDS").unwrap_or(3000);
        let (file, over) = (&file, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel::<(OwnedPageRef, u8)>(8);
            let pinning = [1, 2].map(|seed| {
                let send = send.clone();
                scope.spawn(move || {
                    let mut draw = Draw(seed);
                    for _ in 0..rounds {
                        match file.page_owned(draw.below(PAGES)) {
                            Ok(page) => {
                                let first = page[0];
                                send.send((page, first)).unwrap();
                            }
                            Err(Error::OutOfRange { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            });
            drop(send);
            scope.spawn(move || {
                while let Ok((page, first)) = receive.recv() {
                    assert!(page.iter().all(|&byte| byte == first));
                }
            });
            scope.spawn(move || {
                let mut draw = Draw(3);
                while !over.load(Ordering::SeqCst) {
                    match file.page_mut_owned(draw.below(PAGES)) {
                        Ok(mut page) => page.fill(draw.bits() as u8),
                        Err(Error::OutOfRange { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            scope.spawn(move || {
                let mut draw = Draw(4);
                while !over.load(Ordering::SeqCst) {
                    match draw.below(8) {
                        0 => file.set_len((1 + draw.below(PAGES)) * PAGE).unwrap(),
                        1 => drop(file.invalidate(..).unwrap()),
                        _ => file
                            .write_at(&[draw.bits() as u8; SIZE], draw.below(PAGES) * PAGE)
                            .unwrap(),
                    }
                }
            });
            for thread in pinning {
                thread.join().unwrap();
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn a_page_not_available_at_once_is_none_and_nothing_is_started_or_waited_for() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 10 * SIZE]).unwrap();
        let (reads, go) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, may_go) = (reads.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if matches!(call.what, What::OwnRead) {
                count.fetch_add(1, Ordering::SeqCst);
                until("it may go on", || may_go.load(Ordering::SeqCst));
            }
        });
        let cache = PageCache::builder()
            .memory(2 << 20)
            .device(device)
            .build()
            .unwrap();
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        file.advise(millpond::Advice::Random).unwrap();
        let is_none = |page| {
            file.try_page(page).unwrap().is_none()
                && file.try_page_owned(page).unwrap().is_none()
                && file.try_page_mut(page).unwrap().is_none()
                && file.try_page_mut_owned(page).unwrap().is_none()
        };
        assert!(is_none(2) && reads.load(Ordering::SeqCst) == 0, "not there");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| file.page(2).map(|page| page[0]));
            until("the read", || reads.load(Ordering::SeqCst) == 1);
            assert!(is_none(2), "on its way");
            go.store(true, Ordering::SeqCst);
            assert_eq!(reader.join().unwrap().unwrap(), 7);
        });
        // Others, and the same thread, with debug assertions or without.
        let reading = file.try_page(2).unwrap().unwrap();
        assert!(file.try_page_mut(2).unwrap().is_none());
        assert_eq!(file.try_page_owned(2).unwrap().unwrap()[..], reading[..]);
        drop(reading);
        let mut changing = file.try_page_mut_owned(2).unwrap().unwrap();
        changing.fill(8);
        assert!(is_none(2), "being changed");
        drop(changing);
        assert_eq!(file.try_page(2).unwrap().unwrap()[..], [8; SIZE]);
        // The error is reported all the same.
        assert!(matches!(file.try_page(10), Err(Error::OutOfRange { .. })));
        let reader = cache.open(&path, OpenOptions::new()).unwrap();
        assert!(matches!(reader.try_page_mut(2), Err(Error::ReadOnly { .. })));
        file.sync_data().unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[2 * SIZE..3 * SIZE], [8; SIZE]);
    });
}

#[test]
fn a_caller_that_would_pause_gets_no_page_to_change() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, [7; 100 * SIZE]).unwrap();
        let cache = PageCache::builder().memory(800 << 10).build().unwrap();
        cache.set(&[("alloc_timeout", "20ms")]).unwrap();
        let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        let mut guards = Vec::new();
        for page in 0..100 {
            drop(file.page(page).unwrap());
            guards.extend(file.try_page_mut(page).unwrap());
        }
        // The limit is about half of a pool this small.
        assert!((20..90).contains(&guards.len()), "{}", guards.len());
        assert!(matches!(file.page_mut(99), Err(Error::NoFrames { .. })));
        drop(guards);
        file.sync_data().unwrap();
        drop(file.page(99).unwrap());
        assert!(file.try_page_mut(99).unwrap().is_some());
    });
}
