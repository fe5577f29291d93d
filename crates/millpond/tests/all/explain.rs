//! A call that took long can say what it waited for, and for how long. Each wait is caused here, and held until it has
//! been seen; so it lasts at least as long as it was held, on any day.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, Place, bounded, linger, until};
use millpond::explain::{Call, Explanation, Wait};
use millpond::{Error, File, LogOrder, OpenOptions, Options, PageCache, explain};
use millpond_core::admission::AdmissionOptions;
use millpond_core::admission::bytes::BytesOptions;
use millpond_core::io::Reason;
use millpond_core::units::{Bytes, Nanos};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

fn device() -> Arc<Faulty> {
    Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1))
}

fn cache(device: &Arc<Faulty>, options: Options) -> PageCache {
    let builder = PageCache::builder().memory(2 << 20).options(options);
    builder.device(device.clone()).build().unwrap()
}

/// A file of 200 pages.
fn make(path: &Path) {
    std::fs::write(path, vec![7; 200 * PAGE]).unwrap();
}

fn open(cache: &PageCache, path: &Path) -> File {
    let file = cache.open(path, OpenOptions::new().write(true)).unwrap();
    file.advise(millpond::Advice::Random).unwrap();
    file
}

/// The explanation of a call that waited for at least as long as it was held, after some tries: between the moment at
/// which it can be seen from outside that it will wait and the moment at which it does, it may lose the processor.
fn waited(wait: Wait, mut attempt: impl FnMut() -> (Explanation, Duration)) -> (Explanation, Duration) {
    let mut tries = Vec::new();
    while tries.len() < 50 {
        let (why, span) = attempt();
        assert!(why.took >= why.waited_total(), "{why:?}");
        if why.waited(wait) >= span {
            return (why, span);
        }
        tries.push((why, span));
    }
    panic!("it never waited for {wait:?}: {tries:?}");
}

/// Has `call` explained while `target` is held, from when `is_held` on for some time. Also that time.
fn held(
    device: &Faulty,
    (target, wait): (FaultTarget, Wait),
    call: impl Fn() + Sync,
    is_held: impl Fn() -> bool,
) -> (Explanation, Duration) {
    waited(wait, || {
        device.add(FaultRule::always(target, Fault::Hold));
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| explain(&call).1);
            until("it is held", || device.held() > 0 && is_held());
            let began = Instant::now();
            linger(|| calling.is_finished());
            let span = began.elapsed();
            assert!(!calling.is_finished());
            device.clear();
            device.release().unwrap();
            (calling.join().unwrap(), span)
        })
    })
}

/// Has `call` explained, which waits for what `let_go` gives up some time later.
fn until_let_go<T>(
    wait: Wait,
    take: impl Fn() -> T,
    call: impl Fn() + Sync,
    let_go: impl Fn(T),
) -> (Explanation, Duration) {
    waited(wait, || {
        let taken = take();
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| explain(&call).1);
            linger(|| calling.is_finished());
            let began = Instant::now();
            linger(|| calling.is_finished());
            let span = began.elapsed();
            assert!(!calling.is_finished());
            let_go(taken);
            (calling.join().unwrap(), span)
        })
    })
}

#[test]
fn a_read_says_that_it_waited_for_the_device_and_a_hit_for_nothing() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        make(&path);
        let device = device();
        let cache = cache(&device, Options::default());
        let file = open(&cache, &path);
        let read = || assert_eq!(file.read_at(&mut [0; 2 * PAGE], 0).unwrap(), 2 * PAGE);
        let drop_and_read = || {
            file.invalidate(0..u64::MAX).unwrap();
            read();
        };
        let (why, _) = held(&device, (FaultTarget::Reads, Wait::Read), drop_and_read, || true);
        assert_eq!(why.call, Some(Call::Read(2 * PAGE)));
        assert!(why.to_string().starts_with("read of 8 KiB waited "), "{why}");
        let ((), why) = explain(read);
        assert_eq!((why.call, why.waited_total()), (None, Duration::ZERO));
        // A thread that wants a page that another is reading waits for the device as well.
        let (why, _) = waited(Wait::Read, || {
            file.invalidate(0..u64::MAX).unwrap();
            device.add(FaultRule::always(FaultTarget::Reads, Fault::Hold));
            std::thread::scope(|scope| {
                let first = scope.spawn(|| drop(file.page(9).unwrap()));
                until("it is held", || device.held() > 0);
                let second = scope.spawn(|| explain(|| file.page(9).unwrap()[0]));
                linger(|| second.is_finished());
                device.clear();
                device.release().unwrap();
                first.join().unwrap();
                let (byte, why) = second.join().unwrap();
                assert_eq!(byte, 7);
                // A thread that comes when it has been read waits for nothing.
                (why, Duration::from_nanos(1))
            })
        });
        assert_eq!(why.call, Some(Call::Read(PAGE)));
    });
}

#[test]
fn a_sync_tells_its_writes_from_the_devices_flush() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        make(&path);
        let device = device();
        let cache = cache(&device, Options::default());
        let file = open(&cache, &path);
        for (target, wait) in [
            (FaultTarget::Writes, Wait::Writes),
            (FaultTarget::Syncs, Wait::Flush),
        ] {
            let sync = || {
                file.write_at(&[1; PAGE], 0).unwrap();
                file.sync_data().unwrap();
            };
            let (why, _) = held(&device, (target, wait), sync, || true);
            assert_eq!(why.call, Some(Call::Sync));
            assert!(why.to_string().starts_with("sync waited "), "{why}");
        }
        let ((), why) = explain(|| file.set_len(300 * PAGE as u64).unwrap());
        assert!(why.waited(Wait::Length) > Duration::ZERO, "{why:?}");
    });
}

/// One write at a time is let through, and that one is held.
#[test]
fn a_sync_says_how_long_the_admission_held_its_writes_back_and_the_statistics_for_what() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        make(&path);
        let device = device();
        let mut options = Options {
            admission: AdmissionOptions::Bytes(BytesOptions {
                high: Bytes::from_kib(4),
                low: Bytes(0),
            }),
            ..Options::default()
        };
        options.flusher.write_behind = false;
        let cache = cache(&device, options);
        let file = open(&cache, &path);
        let sync = || {
            for page in [0, 10, 20] {
                file.write_at(&[1; 2 * PAGE], page * PAGE as u64).unwrap();
            }
            file.sync_data().unwrap();
        };
        let (why, span) = held(&device, (FaultTarget::Writes, Wait::Writes), sync, || true);
        assert!(why.held_back >= span, "{why:?}");
        assert!(why.to_string().contains("held back by admission; "), "{why}");
        let counters = cache.stats().counters;
        let sync = Reason::Sync as usize;
        // Three for each try.
        assert_eq!(counters.io_requests[sync] % 3, 0);
        assert_eq!(
            counters.io_bytes[sync],
            counters.io_requests[sync] * 2 * PAGE as u64
        );
        assert!(counters.io_requests[sync] > 0);
        assert!(counters.admission_waits[sync] > 0);
        assert!(counters.admission_wait_ns[sync] >= span.as_nanos() as u64);
        assert!(counters.io_ns_max[sync] >= span.as_nanos() as u64);
        let others: u64 = counters.admission_waits.iter().sum();
        assert_eq!(others, counters.admission_waits[sync]);
    });
}

#[test]
fn a_write_says_that_it_paused_and_how_full_of_dirty_pages_memory_was() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        make(&path);
        let device = device();
        let cache = cache(&device, Options::default());
        let file = open(&cache, &path);
        let pauses = || cache.stats().occupancy.dirtiers_blocked > 0;
        let write = || file.write_at(&[1; 200 * PAGE], 0).unwrap();
        let (why, _) = held(&device, (FaultTarget::Writes, Wait::DirtyLimit), write, pauses);
        assert!(matches!(why.call, Some(Call::Write(_))), "{why:?}");
        let pressure = why.pressure.unwrap();
        assert!(pressure.unclean > pressure.background, "{why}");
        assert!(pressure.in_transit > Bytes(0), "{why}");
        assert!(why.to_string().contains("for the dirty limit"), "{why}");
        // What was begun while it paused was begun for its sake.
        let counters = cache.stats().counters;
        assert!(
            counters.io_requests[Reason::DirtierBlocked as usize] > 0,
            "{counters}"
        );
    });
}

#[test]
fn waits_for_a_held_page_or_a_frame_are_explained() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 1000 * PAGE]).unwrap();
        let cache = PageCache::builder().memory(1 << 20).build().unwrap();
        let file = open(&cache, &path);
        let lock = || file.page_mut(3).unwrap();
        until_let_go(Wait::Busy, lock, || drop(file.page(3).unwrap()), drop);
        until_let_go(Wait::Busy, lock, || drop(file.page_mut(3).unwrap()), drop);

        let patience = |patience| {
            cache
                .set_options(Options {
                    alloc_timeout: patience,
                    ..cache.options()
                })
                .unwrap()
        };
        let take_all = || {
            // Of what is being written now the frames would be free later.
            file.sync_data().unwrap();
            patience(Nanos::from_millis(500));
            let mut guards = Vec::new();
            let error = loop {
                match file.page(10 + guards.len() as u64) {
                    Ok(guard) => guards.push(guard),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::NoFrames { .. }), "{error}");
            patience(Options::default().alloc_timeout);
            guards
        };
        let read = || {
            assert_eq!(
                file.read_at(&mut [0; 40 * PAGE], 900 * PAGE as u64).unwrap(),
                40 * PAGE
            )
        };
        let (why, _) = until_let_go(Wait::Frame, take_all, read, drop);
        assert_eq!(why.call, Some(Call::Read(40 * PAGE)));
        assert!(why.to_string().contains("for a frame"), "{why}");
    });
}

#[test]
fn a_sync_says_that_it_waited_for_the_log() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        make(&path);
        let log = LogOrder::new();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let options = OpenOptions::new().write(true).log(&log);
        let file = cache.open(&path, options).unwrap();
        let record = AtomicU64::new(0);
        let change = || {
            let n = record.fetch_add(1, Ordering::SeqCst) + 1;
            file.page_mut(5).unwrap().set_order(n).unwrap();
            n
        };
        let (why, _) = until_let_go(
            Wait::Log,
            change,
            || file.sync_data().unwrap(),
            |n| log.advance(n),
        );
        assert!(why.to_string().contains("for the log"), "{why}");
    });
}
