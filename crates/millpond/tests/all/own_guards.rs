//! Calls that would wait for a guard of their own thread.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use crate::support::{Place, bounded};
use millpond::{Error, File, OpenOptions, PageCache, Result};

const PAGE: u64 = 4096;

fn file() -> (tempfile::TempDir, PageCache, File) {
    let folder = Place::Disk.folder();
    let cache = PageCache::builder().memory(2 << 20).build().unwrap();
    let path = folder.path().join("data");
    let file = cache.open(path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[7; 10 * PAGE as usize], 0).unwrap();
    (folder, cache, file)
}

type Call<'a> = (&'a str, &'a dyn Fn() -> Result<()>);

fn refused(page: u64, calls: &[Call<'_>]) {
    for (what, call) in calls {
        match call() {
            Err(error @ Error::OwnGuard { .. }) => {
                assert!(
                    error.to_string().contains(&format!("page {page} of")),
                    "{what}: {error}"
                );
                assert_eq!(error.errno(), libc::EDEADLK);
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// They hung for ever.
#[test]
fn a_call_that_would_wait_for_a_guard_of_its_own_thread_is_an_error_at_once() {
    bounded(|| {
        let (_folder, cache, file) = file();
        file.sync_data().unwrap();
        let reading = file.page(3).unwrap();
        refused(
            3,
            &[
                ("write", &|| file.write_at(&[1; 2 * PAGE as usize], 2 * PAGE)),
                ("lock", &|| file.page_mut(3).map(drop)),
                ("lock or grow", &|| file.page_mut_or_grow(3).map(drop)),
                ("cut", &|| file.set_len(PAGE)),
                ("punch", &|| file.punch(PAGE, 5 * PAGE)),
                ("forget", &|| file.invalidate(..).map(drop)),
            ],
        );
        // Nothing of it has been done, and what waits for no guard may be.
        assert_eq!(file.len(), 10 * PAGE);
        assert_eq!(file.page(3).unwrap()[..], [7; PAGE as usize]);
        file.write_at(&[8], 4 * PAGE).unwrap();
        file.append(&[9]).unwrap();
        assert_eq!(file.invalidate(4 * PAGE..5 * PAGE).unwrap(), 1);
        file.sync_data().unwrap();
        assert_eq!(file.discard_unwritten().unwrap(), 0);
        file.set_len(5 * PAGE).unwrap();
        drop(reading);
        let changing = file.page_mut(2).unwrap();
        refused(
            2,
            &[
                ("read", &|| {
                    file.read_at(&mut [0; 3 * PAGE as usize], PAGE).map(drop)
                }),
                ("pin", &|| file.page(2).map(drop)),
                ("write", &|| file.write_at(&[1], 2 * PAGE)),
                ("sync", &|| file.sync_data()),
                ("write out", &|| file.write_out()),
                ("sync of all", &|| cache.sync_all()),
            ],
        );
        // It stays, as whatever is changed.
        assert!(file.invalidate(..).unwrap() >= 1);
        drop(changing);
        file.sync_data().unwrap();
    });
}

/// A thread that handed a guard on waits for the other thread, as ever.
#[test]
fn a_guard_that_another_thread_has_by_now_is_waited_for() {
    bounded(|| {
        let (_folder, _cache, file) = file();
        let guard = file.page(3).unwrap();
        let (looked, looks) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(guard[0], 7);
                looked.send(()).unwrap();
            });
            looks.recv().unwrap();
            file.write_at(&[1], 3 * PAGE).unwrap();
        });
        assert_eq!(file.page(3).unwrap()[0], 1);
    });
}

/// The first thing that a store of records does: it looks at its last page and appends.
#[test]
fn an_append_beside_a_guard_of_the_last_page_is_an_error_of_a_thread_that_has_it() {
    bounded(|| {
        let (_folder, _cache, file) = file();
        file.append(b"tail").unwrap();
        let end = 10 * PAGE + 4;
        // As a page is pinned that was just changed, and as one is that was read since.
        for _ in 0..2 {
            let tail = file.page(10).unwrap();
            refused(10, &[("append", &|| file.append(b"more").map(drop))]);
            refused(10, &[("promised", &|| file.write_promised(b"more", end))]);
            assert_eq!(tail[..], *b"tail");
        }
        // More than a thread has hazards for.
        let many: Vec<_> = (0..11).map(|page| file.page(page).unwrap()).collect();
        refused(10, &[("append", &|| file.append(b"more").map(drop))]);
        refused(5, &[("write", &|| file.write_at(&[1], 5 * PAGE))]);
        drop(many);
        let owned = file.page_owned(10).unwrap();
        refused(10, &[("append", &|| file.append(b"more").map(drop))]);
        drop(owned);
        let bytes = bytes::Bytes::from_owner(file.page_owned(10).unwrap());
        refused(10, &[("append", &|| file.append(b"more").map(drop))]);
        assert_eq!(file.len(), end);
        drop(bytes);
        assert_eq!(file.append(b"more").unwrap(), end);
    });
}

/// No thread has used it there: it is waited for like one that was used.
#[test]
fn an_owned_guard_that_is_under_way_to_another_thread_is_waited_for() {
    bounded(|| {
        let (_folder, _cache, file) = file();
        for changes in [false, true] {
            std::thread::scope(|scope| {
                let (send, guards) = std::sync::mpsc::channel::<Box<dyn Send>>();
                match changes {
                    true => send.send(Box::new(file.page_mut_owned(3).unwrap())).unwrap(),
                    false => send.send(Box::new(file.page_owned(3).unwrap())).unwrap(),
                }
                let (begins, began) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    began.recv().unwrap();
                    drop(guards.recv().unwrap());
                });
                begins.send(()).unwrap();
                file.write_at(&[1], 3 * PAGE).unwrap();
            });
        }
    });
}

#[test]
fn a_guard_that_was_forgotten_keeps_no_thread_of_its_own_and_what_was_written_is_on_the_device() {
    bounded(|| {
        let (folder, cache, file) = file();
        std::mem::forget(file.page(3).unwrap());
        drop(file);
        let lost = cache.take_lost();
        assert!(matches!(lost[..], [Error::OwnGuard { page: 3, .. }]), "{lost:?}");
        let path = folder.path().join("data");
        assert_eq!(std::fs::read(&path).unwrap(), [7; 10 * PAGE as usize]);
        let again = cache.open(&path, OpenOptions::new().write(true)).unwrap();
        again.write_at(&[1], 3 * PAGE).unwrap();
    });
}

/// Nothing of the file was written, and its pages stayed: they went over what was written after it was opened again.
#[test]
fn a_guard_that_was_forgotten_keeps_no_other_page_from_the_device_and_nothing_writes_over_who_comes_later() {
    for (changes, is_dirty) in [(false, false), (false, true), (true, false), (true, true)] {
        bounded(move || {
            let (folder, cache, file) = file();
            if !is_dirty {
                file.sync_data().unwrap();
            }
            match changes {
                true => {
                    let mut guard = file.page_mut(5).unwrap();
                    guard.fill(1);
                    std::mem::forget(guard);
                }
                false => std::mem::forget(file.page(5).unwrap()),
            }
            drop(file);
            let lost = cache.take_lost();
            assert!(matches!(lost[..], [Error::OwnGuard { page: 5, .. }]), "{lost:?}");
            let path = folder.path().join("data");
            let (found, size) = (std::fs::read(&path).unwrap(), PAGE as usize);
            let mut others = found.chunks(size).enumerate().filter(|&(n, _)| n != 5);
            assert_eq!(found.len(), 10 * size);
            assert!(others.all(|(_, page)| page == [7; PAGE as usize]));
            let again = cache.open(&path, OpenOptions::new().write(true));
            if changes {
                let said = again.unwrap_err().to_string();
                return assert!(said.contains("page 5"), "{said}");
            }
            let again = again.unwrap();
            again.write_at(&[2; 10 * PAGE as usize], 0).unwrap();
            again.sync_data().unwrap();
            drop(again);
            assert_eq!(std::fs::read(&path).unwrap(), [2; 10 * PAGE as usize]);
        });
    }
}
