//! The log's callback: which thread calls it, what it may do, and the effect of its errors.

use super::{PAGE, World, change, plain};
use crate::support::{bounded, linger, until};
use millpond::{Error, LogOrder, StablePages};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::{Nanos, Ratio};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

#[test]
fn a_sync_asks_the_log_and_gives_its_error_until_it_can() {
    bounded(|| {
        let world = World::new(4 << 20);
        let (is_broken, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let log = {
            let (is_broken, calls) = (is_broken.clone(), calls.clone());
            LogOrder::with_flush(move |n| {
                calls.fetch_add(1, SeqCst);
                match is_broken.load(SeqCst) {
                    true => Err(io::Error::other(format!("no room for record {n}"))),
                    false => Ok(n),
                }
            })
        }
        .unwrap();
        let file = world.open(plain().log(&log), 2);
        change(&file, 0, 1, 7);
        for _ in 0..2 {
            let error = file.sync_data().unwrap_err();
            assert!(matches!(error, Error::Log { .. }), "{error}");
            assert!(error.to_string().contains("no room for record 7"), "{error}");
            assert!(world.cache.sync_all().is_err());
        }
        assert!(calls.load(SeqCst) >= 4, "each sync asks anew");
        assert_eq!(file.page(0).unwrap()[0], 1);
        is_broken.store(false, SeqCst);
        file.sync_data().unwrap();
        assert_eq!((log.durable(), world.on_device()), (7, vec![1, 0]));
    });
}

#[test]
fn a_callback_that_panics_is_an_error_and_nobody_hangs() {
    bounded(|| {
        let world = World::new(4 << 20);
        let log = LogOrder::with_flush(|_| panic!("a mistake in the log")).unwrap();
        let file = world.open(plain().log(&log), 1);
        change(&file, 0, 1, 1);
        for _ in 0..2 {
            let error = file.sync_data().unwrap_err().to_string();
            assert!(error.contains("the log's callback has panicked"), "{error}");
        }
        log.advance(1);
        file.sync_data().unwrap();
    });
}

#[test]
fn pages_refused_by_the_log_at_the_last_drop_are_reported_as_lost_and_the_rest_is_written() {
    bounded(|| {
        let world = World::new(4 << 20);
        let log = LogOrder::with_flush(|n| {
            if n <= 1 {
                Ok(n)
            } else {
                Err(io::Error::other("full"))
            }
        })
        .unwrap();
        let file = world.open(plain().log(&log), 3);
        change(&file, 0, 1, 1);
        change(&file, 1, 1, 2);
        file.page_mut(2).unwrap().fill(1);
        log.advance(1);
        drop(file);
        let lost = world.cache.take_lost();
        assert!(
            matches!(lost[..], [Error::Log { is_kept: false, .. }]),
            "{lost:?}"
        );
        assert!(lost[0].to_string().ends_with("; its unwritten changes are lost"));
        assert_eq!(world.on_device(), [1, 0, 1]);
        // Without a callback, there is nothing left to say that the log is durable.
        let log = LogOrder::new();
        let file = world.open(plain().log(&log), 3);
        change(&file, 1, 1, 2);
        drop(log);
        let error = file.close().unwrap_err().to_string();
        assert!(error.contains("every LogOrder of its log was dropped"), "{error}");
        assert_eq!(world.cache.take_lost().len(), 1);
    });
}

#[test]
fn a_dirtier_makes_the_cache_ask_for_the_log_when_all_pages_wait_for_it() {
    bounded(|| {
        let world = World::new(1 << 20);
        let log = LogOrder::with_flush(Ok).unwrap();
        let file = world.open(plain().log(&log), 1000);
        for page in 0..1000 {
            change(&file, page, 1, 1 + page);
        }
        assert!(log.durable() > 0, "five times the limit of dirty pages");
        drop(file);
        assert_eq!(world.on_device(), [1; 1000]);
        assert!(world.cache.take_lost().is_empty());
        // And if the log can't, the dirtier gets the error.
        let log = LogOrder::with_flush(|_| Err(io::Error::other("full"))).unwrap();
        let file = world.open(plain().log(&log), 1000);
        let dirtied = (0..1000).try_for_each(|page| file.page_mut(page)?.set_order(1 + page));
        assert!(matches!(dirtied, Err(Error::Log { .. })), "{dirtied:?}");
    });
}

#[test]
fn a_page_is_not_held_still_for_a_log_that_takes_its_time() {
    bounded(|| {
        let world = World::new(4 << 20);
        let (record, calls, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let seen = Arc::new((record, calls, done));
        let log = {
            let seen = seen.clone();
            LogOrder::with_flush(move |n| {
                let (record, calls, done) = &*seen;
                if calls.fetch_add(1, SeqCst) == 0 {
                    // Until the page is ahead of what was asked for.
                    until("another change", || record.load(SeqCst) > n);
                } else {
                    until("the end", || done.load(SeqCst));
                }
                Ok(n)
            })
        }
        .unwrap();
        let file = world.open(plain().log(&log), 2);
        let (record, calls, done) = &*seen;
        let changed = |n| {
            change(&file, 0, n as u8, n);
            record.store(n, SeqCst);
        };
        std::thread::scope(|scope| {
            changed(1);
            scope.spawn(|| file.sync_data().unwrap());
            until("the first call", || calls.load(SeqCst) == 1);
            changed(2);
            until("the second call", || calls.load(SeqCst) == 2);
            // The second call does not end before the page could be changed again and again.
            (3..10).for_each(changed);
            done.store(true, SeqCst);
        });
    });
}

#[test]
fn the_log_may_be_a_file_of_the_same_cache() {
    bounded(|| {
        let world = World::new(1 << 20);
        let log_file = Arc::new(
            world
                .cache
                .open(world.folder.path().join("log"), plain().create(true))
                .unwrap(),
        );
        let log = {
            let log_file = log_file.clone();
            LogOrder::with_flush(move |_| {
                let end = log_file.len();
                log_file.sync_data().map_err(io::Error::other)?;
                Ok(end)
            })
        }
        .unwrap();
        let file = world.open(plain().log(&log), 400);
        for n in 0..2000_u64 {
            log_file.write_at(&[n as u8; 100], n * 100).unwrap();
            change(&file, n % 400, n as u8, (n + 1) * 100);
        }
        file.sync_data().unwrap();
        assert!(log.durable() >= 2000 * 100);
    });
}

/// What is dirty could leave only after the callback, and the callback paused until it had: 30 s, and then an error.
#[test]
fn a_callback_that_writes_to_a_file_of_the_cache_does_not_pause() {
    bounded(|| {
        let world = World::new(1 << 20);
        // More than half of the pool, which the limit is at least, and less than the background limit.
        let pages = world.cache.stats().derived.frames.0 * 11 / 20;
        let set = |background: u32, hard: u32| {
            let mut options = world.cache.options();
            options.alloc_timeout = Nanos::from_millis(50);
            options.dirty.background = DirtyLimit::Share(Ratio::percent(background));
            options.dirty.hard = DirtyLimit::Share(Ratio::percent(hard));
            world.cache.set_options(options).unwrap();
        };
        // A file with a log takes part of the pool for itself, so the limit is a good deal above.
        set(75, 90);
        let log_path = world.folder.path().join("log");
        let log_file = world.cache.open(log_path, plain().create(true)).unwrap();
        let log = LogOrder::with_flush(move |n| {
            log_file.append(&[1; 3 * PAGE]).map_err(io::Error::other)?;
            log_file.page_mut(0).map_err(io::Error::other)?.fill(2);
            log_file.sync_data().map_err(io::Error::other)?;
            Ok(n)
        });
        let file = world.open(plain().log(&log.unwrap()), pages);
        for page in 0..pages {
            change(&file, page, 1, 1 + page);
        }
        // As many threads together come above the limit of each.
        assert_eq!(world.cache.stats().occupancy.dirty.0, pages);
        set(1, 2);
        assert!(world.cache.stats().derived.dirty.hard.0 < pages);
        file.sync_data().unwrap();
        assert_eq!(world.on_device(), vec![1; pages as usize]);
    });
}

#[test]
fn a_page_that_is_always_ahead_of_its_log_is_written_all_the_same() {
    bounded(|| {
        for stable in [StablePages::Copy, StablePages::Wait] {
            let world = World::new(4 << 20);
            // As far as it was asked and not one record more, and not before the page has moved on, if it can.
            let record = Arc::new(AtomicU64::new(0));
            let log = {
                let record = record.clone();
                LogOrder::with_flush(move |n| {
                    linger(|| record.load(SeqCst) > n);
                    Ok(n)
                })
            }
            .unwrap();
            let file = world.open(plain().log(&log).stable_pages(stable), 2);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        let n = record.load(SeqCst) + 1;
                        let mut page = file.page_mut(0).unwrap();
                        page[..8].copy_from_slice(&n.to_le_bytes());
                        page.set_order(n).unwrap();
                        record.store(n, SeqCst);
                    }
                });
                until("a start", || record.load(SeqCst) > 100);
                for _ in 0..3 {
                    let before = record.load(SeqCst);
                    file.sync_data().unwrap();
                    let bytes = std::fs::read(world.path()).unwrap();
                    let there = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    assert!(there >= before, "{stable:?}: {there} is older than {before}");
                }
                done.store(true, SeqCst);
            });
        }
    });
}

/// What a callback uses, of a program in C, is freed as soon as the last call is over that could have it called.
#[test]
fn the_last_of_a_log_waits_for_a_call_that_is_under_way_and_none_begins_afterwards() {
    bounded(|| {
        for log_first in [false, true] {
            let world = World::new(4 << 20);
            let seen = Arc::new((AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0)));
            let own = seen.clone();
            let log = LogOrder::with_flush(move |n| {
                let (begun, goes_on, ended) = &*own;
                begun.fetch_add(1, SeqCst);
                until("the program to go on", || goes_on.load(SeqCst));
                ended.fetch_add(1, SeqCst);
                Ok(n)
            });
            let (log, (begun, goes_on, ended)) = (log.unwrap(), &*seen);
            let file = world.open(plain().log(&log), 1);
            change(&file, 0, 1, 7);
            std::thread::scope(|scope| {
                let syncs = scope.spawn(|| file.sync_data().unwrap());
                until("a call", || begun.load(SeqCst) == 1);
                // The log is durable by other means, and nothing waits for the call now.
                log.advance(7);
                syncs.join().unwrap();
            });
            let (first, last): (Box<dyn Send>, Box<dyn Send>) = match log_first {
                true => (Box::new(log), Box::new(file)),
                false => (Box::new(file), Box::new(log)),
            };
            drop(first);
            assert_eq!(ended.load(SeqCst), 0, "there is one left that has the log");
            let dropping = std::thread::spawn(move || drop(last));
            linger(|| dropping.is_finished());
            assert!(!dropping.is_finished());
            goes_on.store(true, SeqCst);
            dropping.join().unwrap();
            assert_eq!((begun.load(SeqCst), ended.load(SeqCst)), (1, 1));
        }
    });
}

#[test]
fn a_callback_that_drops_the_last_of_its_log_is_called_no_more_and_does_not_wait_for_itself() {
    bounded(|| {
        let world = World::new(4 << 20);
        let (calls, last) = (Arc::new(AtomicU64::new(0)), Arc::new(std::sync::Mutex::new(None)));
        let (own, taken) = (calls.clone(), last.clone());
        let log = LogOrder::with_flush(move |n| {
            own.fetch_add(1, SeqCst);
            until("the last handle", || taken.lock().unwrap().is_some());
            drop(taken.lock().unwrap().take());
            Ok(n)
        });
        let log = log.unwrap();
        let file = world.open(plain().log(&log), 1);
        change(&file, 0, 1, 7);
        std::thread::scope(|scope| {
            let syncs = scope.spawn(|| file.sync_data().unwrap());
            until("a call", || calls.load(SeqCst) == 1);
            log.advance(7);
            syncs.join().unwrap();
        });
        drop(file);
        *last.lock().unwrap() = Some(log);
        until("the end of its thread", || Arc::strong_count(&calls) == 1);
        assert_eq!(calls.load(SeqCst), 1);
    });
}
