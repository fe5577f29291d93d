//! A device that never answers: the hook is told which file and which pages, again and again, and what waits
//! goes on when the answer comes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, Place, bounded, until};
use millpond::device::{Asked, Awaited, Device};
use millpond::{Error, LogOrder, OpenOptions, Options, PageCache, Warning};
use millpond_core::io::Reason;
use millpond_core::units::Nanos;
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const PAGE: u64 = 4096;
/// The time before warnings.
const LIMIT: Duration = Duration::from_millis(20);

type Heard = Arc<Mutex<Vec<(PathBuf, Asked, Option<Range<u64>>, Duration)>>>;

/// A cache on `device`, and what it has warned of.
fn cache(device: Arc<dyn Device>) -> (PageCache, Heard) {
    let heard = Heard::default();
    let options = Options {
        hung_io_timeout: Nanos(LIMIT.as_nanos() as u64),
        ..Options::default()
    };
    let notes = heard.clone();
    let hook = move |warning: &Warning| {
        assert!(warning.to_string().contains("data"), "{warning}");
        if let Warning::Overdue {
            path,
            asked,
            reason,
            pages,
            waited,
        } = warning
        {
            let is_read = match asked {
                Asked::Read => Some(true),
                Asked::Write => Some(false),
                _ => None,
            };
            assert_eq!(reason.map(Reason::is_read), is_read, "{warning}");
            let note = (path.clone(), *asked, pages.clone(), *waited);
            notes.lock().unwrap().push(note);
        }
    };
    let builder = PageCache::builder().memory(2 << 20).options(options);
    let cache = builder.device(device).on_warning(hook).build().unwrap();
    (cache, heard)
}

fn asked_for(target: FaultTarget) -> Asked {
    match target {
        FaultTarget::Reads => Asked::Read,
        FaultTarget::Writes => Asked::Write,
        FaultTarget::Syncs => Asked::Sync,
        FaultTarget::Punches => Asked::Punch,
        FaultTarget::Allocations => Asked::Allocate,
        _ => Asked::SetLen,
    }
}

/// Holds `target` while `call` runs, until three warnings have come for it; then releases it.
fn held(
    target: FaultTarget,
    kind: Kind,
    call: impl Fn(&Path, &PageCache) + Sync,
) -> Vec<(Asked, Option<Range<u64>>)> {
    let Some(inner) = kind.device() else {
        return Vec::new();
    };
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![7; 100 * PAGE as usize]).unwrap();
    let device = Arc::new(Faulty::new(inner, 1));
    let (cache, heard) = cache(device.clone());
    // On a slow day other requests are overdue as well.
    let of_target = || {
        let mut heard = heard.lock().unwrap().clone();
        heard.retain(|(_, asked, ..)| *asked == asked_for(target));
        heard
    };
    device.add(FaultRule::always(target, Fault::Hold));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&path, &cache));
        until("it is held", || device.held() > 0);
        until("three warnings", || of_target().len() >= 3);
        assert!(!waiting.is_finished());
        device.clear();
        device.release().unwrap();
        waiting.join().unwrap();
    });
    let heard = of_target();
    assert!(cache.stats().warnings as usize >= heard.len());
    for ((_, _, _, waited), factor) in heard.iter().zip([1, 2, 4]) {
        assert!(*waited >= LIMIT * factor, "{heard:?}");
    }
    for (of, ..) in &heard {
        assert_eq!(*of, path);
    }
    heard
        .into_iter()
        .take(3)
        .map(|(_, asked, pages, _)| (asked, pages))
        .collect()
}

fn open(cache: &PageCache, path: &Path) -> millpond::File {
    cache.open(path, OpenOptions::new().write(true)).unwrap()
}

#[test]
fn a_read_that_never_ends_is_named_again_and_again() {
    bounded(|| {
        let heard = held(FaultTarget::Reads, Kind::Pool, |path, cache| {
            let file = open(cache, path);
            file.advise(millpond::Advice::Random).unwrap();
            assert_eq!(file.page(42).unwrap()[0], 7);
        });
        assert_eq!(heard, vec![(Asked::Read, Some(42..43)); 3]);
    });
}

#[test]
fn a_write_that_never_ends_is_named_again_and_again_by_every_device() {
    for kind in [Kind::Pool, Kind::Ring] {
        bounded(move || {
            let heard = held(FaultTarget::Writes, kind, |path, cache| {
                let file = open(cache, path);
                file.write_at(&[1; 3 * PAGE as usize], 10 * PAGE).unwrap();
                file.sync_data().unwrap();
            });
            assert!(
                heard.iter().all(|one| *one == (Asked::Write, Some(10..13))),
                "{heard:?}"
            );
        });
    }
}

#[test]
fn a_sync_that_never_ends_is_named_again_and_again() {
    bounded(|| {
        let heard = held(FaultTarget::Syncs, Kind::Pool, |path, cache| {
            let file = open(cache, path);
            file.write_at(&[1; 10], 0).unwrap();
            file.sync_data().unwrap();
        });
        assert_eq!(heard, vec![(Asked::Sync, None); 3]);
    });
}

#[test]
fn a_change_of_the_length_that_never_ends_is_named_again_and_again() {
    bounded(|| {
        let heard = held(FaultTarget::Lengths, Kind::Pool, |path, cache| {
            open(cache, path).set_len(50).unwrap();
        });
        assert_eq!(heard, vec![(Asked::SetLen, None); 3]);
    });
}

#[test]
fn a_hole_that_is_never_made_is_named_again_and_again() {
    bounded(|| {
        let heard = held(FaultTarget::Punches, Kind::Pool, |path, cache| {
            open(cache, path).punch(20 * PAGE, 5 * PAGE).unwrap();
        });
        assert_eq!(heard, vec![(Asked::Punch, Some(20..25)); 3]);
    });
}

#[test]
fn an_allocation_that_never_ends_is_named_again_and_again() {
    bounded(|| {
        let heard = held(FaultTarget::Allocations, Kind::Pool, |path, cache| {
            open(cache, path).allocate(20 * PAGE, 5 * PAGE).unwrap();
        });
        assert_eq!(heard, vec![(Asked::Allocate, Some(20..25)); 3]);
    });
}

/// No thread waits without end for a device that is silent, except those that asked it themselves: a thread
/// that needs memory, or dirties more than there may be, gets an error when its timeout is over.
#[test]
fn beside_a_silent_device_whoever_needs_memory_is_told_and_the_rest_goes_on() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (path, other) = (folder.path().join("data"), folder.path().join("data-2"));
        std::fs::write(&path, vec![7; 1_000 * PAGE as usize]).unwrap();
        std::fs::write(&other, vec![8; 100 * PAGE as usize]).unwrap();
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let (cache, heard) = cache(device.clone());
        let options = Options {
            alloc_timeout: Nanos::from_millis(100),
            ..cache.options()
        };
        cache.set_options(options).unwrap();
        let (file, other) = (open(&cache, &path), open(&cache, &other));
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let dirtied = (0..1_000).try_for_each(|page| file.write_at(&[1; PAGE as usize], page * PAGE));
        let error = dirtied.unwrap_err();
        assert!(matches!(error, Error::NoFrames { .. }), "{error}");
        // Reads go on, also of what is not in memory; memory can be changed; a sync waits, and is answered.
        for page in 0..100 {
            assert_eq!(other.page(page).unwrap()[0], 8);
        }
        cache.set_memory(4 << 20).unwrap();
        cache.set_memory(2 << 20).unwrap();
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| file.sync_data());
            until("a warning", || !heard.lock().unwrap().is_empty());
            crate::support::linger(|| syncing.is_finished());
            assert!(!syncing.is_finished());
            device.clear();
            device.release().unwrap();
            syncing.join().unwrap().unwrap();
        });
        assert!(std::fs::read(&path).unwrap()[..10 * PAGE as usize] == [1; 10 * PAGE as usize]);
    });
}

/// The warning's own path can break: that poisons the cache, and the waiting threads get errors.
#[test]
fn a_hook_that_panics_poisons_the_cache_and_nobody_hangs() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 10 * PAGE as usize]).unwrap();
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let options = Options {
            hung_io_timeout: Nanos(LIMIT.as_nanos() as u64),
            ..Options::default()
        };
        let builder = PageCache::builder().memory(2 << 20).options(options);
        let cache = builder
            .device(device.clone())
            .on_warning(|_| panic!("the hook breaks"))
            .build()
            .unwrap();
        let file = open(&cache, &path);
        device.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        file.write_at(&[1; 10], 0).unwrap();
        let synced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| file.sync_data()));
        // The thread that waits may be the one that warns.
        assert!(!matches!(synced, Ok(Ok(()))), "{synced:?}");
        until("the cache is poisoned", || {
            matches!(file.page(0), Err(Error::Poisoned { .. }))
        });
        device.clear();
        device.release().unwrap();
    });
}

/// Waits that were warned of: in which file, for what, and which thread.
type Waits = Arc<Mutex<Vec<(PathBuf, Awaited, String)>>>;

/// A cache that reports what is waited for, and of which file.
fn cache_with_waits() -> (PageCache, Waits) {
    let heard = Waits::default();
    let notes = heard.clone();
    let options = Options {
        hung_io_timeout: Nanos(LIMIT.as_nanos() as u64),
        ..Options::default()
    };
    let builder = PageCache::builder().memory(2 << 20).options(options);
    let hook = move |warning: &Warning| {
        if let Warning::Waiting {
            path,
            awaited,
            thread,
            waited,
        } = warning
        {
            assert!(*waited >= LIMIT, "{warning}");
            assert!(warning.to_string().contains(thread), "{warning}");
            notes
                .lock()
                .unwrap()
                .push((path.clone(), *awaited, thread.clone()));
        }
    };
    (builder.on_warning(hook).build().unwrap(), heard)
}

/// Runs `call` on a thread of its own until it was warned twice that it waits for `awaited`; then `let_go`.
fn waits_for(
    awaited: impl Fn(Awaited) -> bool,
    (cache, heard): &(PageCache, Waits),
    path: &Path,
    call: impl FnOnce() + Send,
    let_go: impl FnOnce(),
) {
    let warnings = cache.stats().warnings;
    std::thread::scope(|scope| {
        let waiting = std::thread::Builder::new().name("who waits".into());
        let waiting = waiting.spawn_scoped(scope, call).unwrap();
        let is_it = |(of, what, thread): &(PathBuf, Awaited, String)| {
            of == path && awaited(*what) && thread.ends_with(" (who waits)")
        };
        until("two warnings", || {
            heard.lock().unwrap().iter().filter(|heard| is_it(heard)).count() >= 2
        });
        assert!(!waiting.is_finished());
        let_go();
        waiting.join().unwrap();
    });
    assert!(cache.stats().warnings >= warnings + 2);
    heard.lock().unwrap().clear();
}

/// There was no warning, whichever thread waited for a guard and for however long.
#[test]
fn a_wait_for_a_page_that_somebody_has_in_hand_is_said_with_the_page_and_who_waits() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 10 * PAGE as usize]).unwrap();
        let said = cache_with_waits();
        let cache = said.0.clone();
        let file = open(&cache, &path);
        let page = |n| move |awaited| awaited == Awaited::Page { page: n };
        let (write, cut) = (
            || file.write_at(&[1], PAGE).unwrap(),
            || file.set_len(100).unwrap(),
        );
        let reading = file.page(1).unwrap();
        waits_for(page(1), &said, &path, write, || drop(reading));
        let changing = file.page_mut(2).unwrap();
        let read = || assert_eq!(file.read_at(&mut [0], 2 * PAGE).unwrap(), 1);
        waits_for(page(2), &said, &path, read, || drop(changing));
        let changing = file.page_mut(3).unwrap();
        let sync = || file.sync_data().unwrap();
        let changed = |awaited| awaited == Awaited::Changed { page: 3 };
        waits_for(changed, &said, &path, sync, || drop(changing));
        let reading = file.page(4).unwrap();
        waits_for(page(4), &said, &path, cut, || drop(reading));
    });
}

/// Dropping the last handle waited for ever, and so did a thread that opened the file again.
#[test]
fn a_guard_that_was_forgotten_is_named_to_who_drops_the_last_handle_and_who_opens_the_file() {
    // What waits for it never ends.
    let folder = Box::leak(Box::new(Place::Disk.folder()));
    let path = folder.path().join("data");
    let (cache, heard) = cache_with_waits();
    let file = cache.open(&path, OpenOptions::new().create(true)).unwrap();
    file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
    std::mem::forget(file.page(1).unwrap());
    std::thread::spawn(move || drop(file));
    let is_heard = |what: Awaited| heard.lock().unwrap().iter().any(|(_, heard, _)| *heard == what);
    until("the page is named", || is_heard(Awaited::Page { page: 1 }));
    assert!(cache.stats().guard_wait > Duration::ZERO);
    // All was written before.
    assert_eq!(std::fs::read(&path).unwrap(), [1; 3 * PAGE as usize]);
    let opener = cache.clone();
    std::thread::spawn(move || opener.open(&path, OpenOptions::new()).map(drop));
    until("the end of the file is named", || is_heard(Awaited::Close));
}

/// A sync waited for it without a word, and so did all threads that waited for the sync.
#[test]
fn a_sync_behind_a_log_that_does_not_advance_is_said_with_both_records_and_shows_in_the_figures() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        let said = cache_with_waits();
        let cache = said.0.clone();
        let log = LogOrder::new();
        let options = OpenOptions::new().create(true).log(&log);
        let file = cache.open(&path, options).unwrap();
        file.set_len(PAGE).unwrap();
        log.advance(3);
        file.page_mut(0).unwrap().set_order(7).unwrap();
        assert_eq!(cache.stats().log_wait, Duration::ZERO);
        let awaited = Awaited::Log {
            wanted: 7,
            durable: 3,
        };
        let sync = || file.sync_data().unwrap();
        waits_for(
            |it| it == awaited,
            &said,
            &path,
            sync,
            || {
                assert!(cache.stats().log_wait >= LIMIT);
                log.advance(7);
            },
        );
        assert_eq!(cache.stats().log_wait, Duration::ZERO);
    });
}

/// It ran on the thread that all others wait for: one that wrote to a file and dropped it waited for itself.
#[test]
fn a_hook_for_warnings_may_do_with_the_cache_whatever_a_program_may() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let (path, other) = (folder.path().join("data"), folder.path().join("data-2"));
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let (used, uses) = std::sync::mpsc::channel();
        let of_cache: Arc<OnceLock<PageCache>> = Arc::default();
        let (own, to) = (of_cache.clone(), other.clone());
        let hook = move |_: &Warning| {
            let Some(cache) = own.get() else { return };
            let file = cache.open(&to, OpenOptions::new().create(true)).unwrap();
            file.write_at(&[1; 3 * PAGE as usize], 0).unwrap();
            file.sync_data().unwrap();
            file.write_at(b"z", 0).unwrap();
            drop(file);
            cache.set_memory(3 << 20).unwrap();
            cache.sync_all().unwrap();
            let _ = used.send(());
        };
        let options = Options {
            hung_io_timeout: Nanos(LIMIT.as_nanos() as u64),
            ..Options::default()
        };
        let builder = PageCache::builder().memory(2 << 20).options(options);
        let cache = builder.device(device.clone()).on_warning(hook).build().unwrap();
        let file = open(&cache, {
            std::fs::write(&path, [0; 10]).unwrap();
            &path
        });
        of_cache.set(cache.clone()).unwrap();
        file.write_at(&[1; 10], 0).unwrap();
        // One write is held: the hook's own writes go on.
        device.add(FaultRule {
            times: 1,
            ..FaultRule::always(FaultTarget::Writes, Fault::Hold)
        });
        std::thread::scope(|scope| {
            let syncing = scope.spawn(|| file.sync_data());
            until("it is held", || device.held() > 0);
            // `sync_all` in it waits for what is held, as any program would.
            until("the other file is written", || {
                std::fs::read(&other).is_ok_and(|bytes| bytes.len() == 3 * PAGE as usize && bytes[0] == b'z')
            });
            device.release().unwrap();
            syncing.join().unwrap().unwrap();
        });
        uses.recv().unwrap();
    });
}
