//! A device that never answers: somebody is told which file and which pages, again and again, and what waits goes on when
//! the answer comes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::core::event::Reason;
use millpond::core::units::Nanos;
use millpond::device::{Asked, Device, Fault, FaultRule, FaultTarget, Faulty};
use millpond::{Error, OpenOptions, Options, PageCache, Warning};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Kind, Place, bounded, until};

const PAGE: u64 = 4096;
/// Warnings come after so long.
const LIMIT: Duration = Duration::from_millis(20);

type Heard = Arc<Mutex<Vec<(PathBuf, Asked, Option<Range<u64>>, Duration)>>>;

/// A cache on `device`, and what it has warned of.
fn cache(device: Arc<dyn Device>) -> (PageCache, Heard) {
    let heard = Heard::default();
    let options = Options {
        watchdog: Nanos(LIMIT.as_nanos() as u64),
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
        _ => Asked::SetLen,
    }
}

/// Holds what `target` says while `call` runs beside, until three warnings have come for it; then lets it go.
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

/// Nobody waits without end for a device that is silent but for those who asked it themselves: whoever needs memory, or
/// dirties more than there may be, is told after his patience.
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
            patience: Nanos::from_millis(100),
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
            support::linger(|| syncing.is_finished());
            assert!(!syncing.is_finished());
            device.clear();
            device.release().unwrap();
            syncing.join().unwrap().unwrap();
        });
        assert!(std::fs::read(&path).unwrap()[..10 * PAGE as usize] == [1; 10 * PAGE as usize]);
    });
}

/// The warning's own way can break: that poisons the cache, and whoever waits is told.
#[test]
fn a_hook_that_panics_poisons_the_cache_and_nobody_hangs() {
    bounded(|| {
        let folder = Place::Disk.folder();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 10 * PAGE as usize]).unwrap();
        let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let options = Options {
            watchdog: Nanos(LIMIT.as_nanos() as u64),
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
        // The one who waits may be the one who warns.
        assert!(!matches!(synced, Ok(Ok(()))), "{synced:?}");
        until("the cache is poisoned", || {
            matches!(file.page(0), Err(Error::Poisoned { .. }))
        });
        device.clear();
        device.release().unwrap();
    });
}
