//! A page goes to its file after its log: which calls wait for it, and which do not.

use super::{PAGE, World, change, plain};
use crate::support::{bounded, linger, until};
use millpond::{Error, LogOrder, OpenOptions, Options, StablePages};
use millpond_core::units::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn a_page_goes_to_its_file_after_its_log_and_others_do_not_wait_for_it() {
    bounded(|| {
        for stable in [StablePages::Copy, StablePages::Wait] {
            let world = World::new(4 << 20);
            let log = LogOrder::new();
            let file = Arc::new(world.open(plain().log(&log).stable_pages(stable), 3));
            change(&file, 0, 1, 10);
            change(&file, 1, 1, 20);
            // The higher one counts, whatever comes later.
            change(&file, 1, 2, 15);
            file.page_mut(2).unwrap().fill(1);
            log.advance(10);
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    file.sync_data().unwrap();
                    ended.store(true, SeqCst);
                });
                until("the sync's question", || log.wanted() == 20);
                linger(|| ended.load(SeqCst));
                assert!(
                    !ended.load(SeqCst),
                    "{stable:?}: a sync that does not wait for the log"
                );
                assert_eq!(world.on_device()[1], 0, "{stable:?}");
                log.advance(19);
                linger(|| ended.load(SeqCst));
                assert_eq!(world.on_device()[1], 0, "{stable:?}");
                log.advance(20);
            });
            assert_eq!(world.on_device(), [1, 2, 1]);
        }
    });
}

#[test]
fn the_flusher_leaves_what_waits_for_a_log_and_comes_back_when_it_advances() {
    bounded(|| {
        let world = World::new(4 << 20);
        let log = LogOrder::new();
        let file = world.open(plain().log(&log), 100);
        // A hundred are between the limits, of 86 and 172.
        for page in 0..100 {
            change(&file, page, 1, 1 + page);
        }
        // More is dirty than the background limit allows, and none of it can go.
        until("a question", || log.wanted() > 0);
        assert_eq!(world.cache.stats().counters.nr_written, 0);
        // No sync, and the next tick would be 100 ms away at most: the number of pages says that none came too early.
        log.advance(50);
        until("writes", || world.cache.stats().counters.nr_written > 0);
        linger(|| world.cache.stats().counters.nr_written > 50);
        assert!(world.cache.stats().counters.nr_written <= 50);
        assert!(world.on_device()[50..].iter().all(|&byte| byte == 0));
        log.advance(100);
        file.sync_data().unwrap();
        assert_eq!(world.on_device(), [1; 100]);
    });
}

#[test]
fn a_dirtier_behind_a_log_that_never_advances_gets_an_error_after_a_while() {
    bounded(|| {
        let world = World::new(1 << 20);
        let patience = Nanos::from_millis(50);
        let options = world.cache.options();
        world
            .cache
            .set_options(Options {
                alloc_timeout: patience,
                ..options
            })
            .unwrap();
        // There is no callback to ask for it.
        let log = LogOrder::new();
        let file = world.open(plain().log(&log), 1000);
        let dirtied = (0..1000).try_for_each(|page| file.page_mut(page)?.set_order(1 + page));
        assert!(matches!(dirtied, Err(Error::Log { .. })), "{dirtied:?}");
        log.advance(1000);
        file.sync_data().unwrap();
    });
}

#[test]
fn a_handle_s_options_must_match_the_file_s() {
    bounded(|| {
        let world = World::new(4 << 20);
        let (log, other) = (LogOrder::new(), LogOrder::new());
        let mut file = world.open(plain(), 1);
        let error = file.page_mut(0).unwrap().set_order(1).unwrap_err();
        assert!(matches!(error, Error::NoLog { .. }), "{error}");
        let open = |options: OpenOptions| world.cache.open(world.path(), options.write(true));
        let refused = |options| {
            let error = open(options).unwrap_err();
            assert!(matches!(error, Error::Open { .. }), "{error}");
        };
        refused(plain().log(&log));
        file.close().unwrap();
        refused(plain().log(&log).stable_pages(StablePages::Off));
        file = open(plain().log(&log)).unwrap();
        refused(plain().log(&other));
        refused(plain().stable_pages(StablePages::Wait));
        open(plain().log(&log)).unwrap();
        open(plain()).unwrap().page_mut(0).unwrap().set_order(0).unwrap();
        file.close().unwrap();
    });
}

#[test]
fn truncated_pages_wait_for_no_log() {
    bounded(|| {
        let world = World::new(4 << 20);
        let log = LogOrder::new();
        let file = world.open(plain().log(&log), 4);
        change(&file, 3, 1, 10);
        file.set_len(2 * PAGE as u64).unwrap();
        file.sync_data().unwrap();
        file.set_len(4 * PAGE as u64).unwrap();
        file.page_mut(3).unwrap().fill(2);
        file.sync_data().unwrap();
        assert_eq!(world.on_device(), [0, 0, 0, 2]);
    });
}
