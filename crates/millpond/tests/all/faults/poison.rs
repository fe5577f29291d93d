//! Devices that panic: the cache is unusable, every waiting thread gets an error, and none hangs.

use super::{PAGE, cache, faulty, open, prepared};
use crate::support::{self, Call, Hooked, Kind, Place, What, bounded, until};
use millpond::device::Op;
use millpond::{Error, OpenOptions};
use millpond_testing::{Fault, FaultRule, FaultTarget};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `poison` in a thread, which may panic, while others wait for page 5 and sync; then all threads must
/// have come back, and the cache must say that it is unusable.
fn no_caller_hangs_after_a_panic(breaks: impl Fn(Call) -> bool + Send + Sync + 'static) {
    bounded(move || {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        prepared(&path, 200);
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = armed.clone();
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call| {
            assert!(
                !(is_armed.load(Ordering::SeqCst) && breaks(call)),
                "the device breaks"
            );
        });
        let cache = cache(device);
        let file = Arc::new(open(&cache, &path));
        file.write_at(&[1; 100], 50 * PAGE).unwrap();
        armed.store(true, Ordering::SeqCst);
        let users: Vec<_> = (0..6_u64)
            .map(|n| {
                let file = file.clone();
                std::thread::spawn(move || {
                    for round in 0..1_000 {
                        let mut buf = [0; 3 * PAGE as usize];
                        let result = match n {
                            0 => file.page(5).map(|_| ()),
                            // It is not prefetched, so there is a read that a thread does itself.
                            1 => file.page(150).map(|_| ()),
                            2 => file.read_at(&mut buf, 4 * PAGE).map(|_| ()),
                            3 => file.write_at(&[2; 100], (5 + round % 90) * PAGE + 7),
                            4 => file.prefetch(0, 100 * PAGE),
                            _ => file.sync_data(),
                        };
                        if result.is_err() {
                            return;
                        }
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        let _: Vec<_> = users.into_iter().map(std::thread::JoinHandle::join).collect();
        until("the cache is poisoned", || {
            matches!(file.sync_data(), Err(Error::Poisoned { .. }))
        });
        assert!(file.is_resident(50 * PAGE), "a page in memory is no exception");
        assert!(matches!(file.page(50), Err(Error::Poisoned { .. })));
        assert!(matches!(file.prefetch(0, 0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.read_at(&mut [0], 0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.write_at(&[0], 0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.page_mut(0), Err(Error::Poisoned { .. })));
        assert!(matches!(file.set_len(0), Err(Error::Poisoned { .. })));
        assert!(matches!(
            cache.open(&path, OpenOptions::new()),
            Err(Error::Poisoned { .. })
        ));
        drop(file);
        assert!(
            !cache.take_lost().is_empty(),
            "what was dirty is lost, and it says so"
        );
    });
}

#[test]
fn a_device_that_panics_while_a_thread_reads_poisons_the_cache_and_no_call_hangs() {
    no_caller_hangs_after_a_panic(|call| call.what == What::OwnRead);
}

#[test]
fn a_device_that_panics_when_it_is_given_a_write_poisons_the_cache_and_no_call_hangs() {
    no_caller_hangs_after_a_panic(|call| call.what == What::Submit(Op::Write));
}

#[test]
fn a_device_that_panics_when_it_is_given_a_read_poisons_the_cache_and_no_call_hangs() {
    no_caller_hangs_after_a_panic(|call| call.what == What::Submit(Op::Read));
}

#[test]
fn a_device_that_panics_under_the_background_thread_poisons_the_cache_and_no_call_hangs() {
    no_caller_hangs_after_a_panic(|call| call.what == What::Wait);
}

#[test]
fn a_device_that_panics_in_a_sync_poisons_the_cache_and_no_call_hangs() {
    no_caller_hangs_after_a_panic(|call| call.what == What::Sync);
}

/// Each of the waits that a call can be in, on a device that takes writes and ends none: a pause, a frame, a sync, a cut.
#[test]
fn callers_that_pause_or_wait_for_a_frame_a_sync_or_a_cut_get_an_error_when_the_cache_is_poisoned() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (path, other) = (folder.path().join("data"), folder.path().join("other"));
        prepared(&path, 1_000);
        prepared(&other, 1_000);
        let faulty = faulty();
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = armed.clone();
        let device = Hooked::new(faulty.clone(), move |call: Call| {
            let breaks = call.what == What::Wait && is_armed.load(Ordering::SeqCst);
            assert!(!breaks, "the device breaks");
        });
        let cache = cache(device);
        let (file, other) = (open(&cache, &path), open(&cache, &other));
        faulty.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let pausing = scope
                .spawn(|| (0..1_000).try_for_each(|page| file.write_at(&[1; PAGE as usize], page * PAGE)));
            until("a pause", || cache.stats().occupancy.dirtiers_blocked > 0);
            let pinning = scope.spawn(|| {
                let guards: Result<Vec<_>, _> = (0..1_000).map(|page| other.page(page)).collect();
                guards.map(drop)
            });
            until("somebody waits for a frame", || {
                let counters = cache.stats().counters;
                counters.nr_vmscan_throttled_writeback + counters.nr_vmscan_throttled_noprogress > 0
            });
            let syncing = scope.spawn(|| file.sync_data());
            let cutting = scope.spawn(|| file.set_len(0));
            support::linger(|| syncing.is_finished() || cutting.is_finished());
            let all = [pausing, pinning, syncing, cutting];
            assert!(all.iter().all(|waiting| !waiting.is_finished()));
            armed.store(true, Ordering::SeqCst);
            // The reaper sleeps, as everything is on its way; this wakes it.
            cache.set_options(cache.options()).unwrap();
            all.into_iter().map(|waiting| waiting.join().unwrap()).collect()
        });
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
        }
        assert!(matches!(cache.set_memory(4 << 20), Err(Error::Poisoned { .. })));
        assert!(matches!(cache.sync_all(), Err(Error::Poisoned { .. })));
        assert!(matches!(file.discard_unwritten(), Err(Error::Poisoned { .. })));
        drop((file, other));
        assert!(!cache.take_lost().is_empty());
        // What is held still owns its file and its memory.
        faulty.clear();
        faulty.release().unwrap();
    });
}

/// The file's last handle was being dropped when the device broke; a thread that opened the file meanwhile
/// waited for that.
#[test]
fn opening_a_file_whose_last_handle_breaks_the_device_is_an_error() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let (closing, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, may_go) = (closing.clone(), go.clone());
        let device = Hooked::new(Kind::Pool.device().unwrap(), move |call: Call| {
            if call.what == What::Submit(Op::Write) {
                seen.store(true, Ordering::SeqCst);
                until("the other is there", || may_go.load(Ordering::SeqCst));
                panic!("the device breaks");
            }
        });
        let cache = cache(device);
        let file = open(&cache, &path);
        file.write_at(&[1; 100], 0).unwrap();
        let closer = std::thread::spawn(move || drop(file));
        until("the last write", || closing.load(Ordering::SeqCst));
        let opener = std::thread::spawn({
            let cache = cache.clone();
            move || cache.open(&path, OpenOptions::new()).map(|_| ())
        });
        support::linger(|| opener.is_finished());
        go.store(true, Ordering::SeqCst);
        assert!(closer.join().is_err());
        let opened = opener.join().unwrap();
        assert!(matches!(opened, Err(Error::Poisoned { .. })), "{opened:?}");
    });
}
