//! Everything is dirty, guards hold all that they can, and the device is slow or silent: an allocation waits
//! or gives [`Error::NoFrames`], and no thread hangs. `MILLPOND_RUNS` runs, 20 by default; `MILLPOND_SEED`
//! for others.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints what it met"
)]

use crate::support::{Draw, Kind, Place, bounded, number, until};
use millpond::{Error, File, OpenOptions, Options, PageCache};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::units::{Nanos, Ratio};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PAGE: u64 = 4096;
/// Of the file: several times what memory holds.
const PAGES: u64 = 2_000;
const WRITERS: u64 = 3;

/// The device's behaviour while the pool is crowded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slow {
    /// Each write takes a few milliseconds.
    Late,
    /// No write ends before all are told.
    Silent,
}

/// The pages that guards hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// All but a few frames.
    Most,
    /// As many as there are.
    All,
}

#[derive(Default, Debug)]
struct Met {
    guards: AtomicU64,
    no_frames: AtomicU64,
    done: AtomicU64,
}

/// Whether the call succeeded; the only other answer is that there was no frame.
fn went_well<T>(met: &Met, result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => {
            met.done.fetch_add(1, Ordering::Relaxed);
            Some(value)
        }
        Err(Error::NoFrames { waited, .. }) => {
            assert!(waited >= Duration::from_millis(100), "{waited:?}");
            met.no_frames.fetch_add(1, Ordering::Relaxed);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Changes pages here and there, until told to stop, but none that may be held: a thread that wants such a
/// page waits for its guard, as long as that lives.
fn write(file: &File, draw: &mut Draw, met: &Met, (step, stop): (u64, &AtomicBool)) {
    for _ in 0..200 {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let page = draw.below(PAGES / step) * step + 1 + draw.below(step - 1);
        let bytes = [(page % 251) as u8; PAGE as usize];
        went_well(met, file.write_at(&bytes, page * PAGE));
    }
}

fn crowd(seed: u64, slow: Slow, held: Held) -> Met {
    let folder = Place::Disk.folder();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![0; (PAGES * PAGE) as usize]).unwrap();
    let device = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), seed));
    let mut options = Options {
        alloc_timeout: Nanos::from_millis(100),
        ..Options::default()
    };
    // All that may be dirty at all may be.
    options.dirty.hard = DirtyLimit::Share(Ratio::percent(100));
    options.dirty.background = DirtyLimit::Share(Ratio::percent(50));
    let builder = PageCache::builder().memory(1 << 20).options(options);
    let cache = builder.device(device.clone()).build().unwrap();
    let file = cache.open(&path, OpenOptions::new().write(true)).unwrap();
    let frames = cache.stats().derived.frames.0;
    let step = PAGES / frames;
    let fault = match slow {
        Slow::Late => Fault::Delay(Duration::from_millis(3)),
        Slow::Silent => Fault::Hold,
    };
    device.add(FaultRule::always(FaultTarget::Writes, fault));
    let (met, stop, may_write) = (Met::default(), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (file, met, stop, may_write) = (&file, &met, &stop, &may_write);
        let writers: Vec<_> = (0..WRITERS)
            .map(|who| {
                scope.spawn(move || {
                    until("half of memory is held", || may_write.load(Ordering::Relaxed));
                    write(file, &mut Draw(seed ^ who << 32), met, (step, stop));
                })
            })
            .collect();
        // Two of each four guards are to change their page, in ascending order: no thread waits for
        // itself.
        let holder = scope.spawn(move || {
            let (mut reading, mut changing) = (Vec::new(), Vec::new());
            let wanted = match held {
                Held::Most => frames * 3 / 4,
                Held::All => frames,
            };
            for n in 0..wanted {
                may_write.fetch_or(n == frames / 2, Ordering::Relaxed);
                let page = n * step;
                if n % 4 < 2 {
                    reading.extend(went_well(met, file.page(page)));
                } else if let Some(mut guard) = went_well(met, file.page_mut(page)) {
                    guard.fill((page % 251) as u8);
                    changing.push(guard);
                }
                if n > frames / 2 && met.no_frames.load(Ordering::Relaxed) > 3 * WRITERS {
                    break;
                }
            }
            met.guards
                .store((reading.len() + changing.len()) as u64, Ordering::Relaxed);
            if slow == Slow::Silent {
                // Held until others have been told that there is nothing, or were done.
                until("somebody is told", || {
                    met.no_frames.load(Ordering::Relaxed) >= WRITERS
                });
            }
        });
        holder.join().unwrap();
        if slow == Slow::Silent {
            stop.store(true, Ordering::Relaxed);
            until("every writer has an answer", || {
                writers.iter().all(|writer| writer.is_finished())
            });
        }
        device.clear();
        device.release().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    // It was the crowd and nothing else. What it has left is written first, for which 100 ms may be too few.
    cache.set_options(millpond::Options::default()).unwrap();
    file.write_at(&[7; PAGE as usize], 1_999 * PAGE).unwrap();
    file.sync_data().unwrap();
    assert_eq!(cache.stats().occupancy.dirty.0, 0);
    let on_device = std::fs::read(&path).unwrap();
    for page in 0..PAGES - 1 {
        let bytes = file.page(page).unwrap();
        assert!(
            bytes[..] == on_device[(page * PAGE) as usize..][..PAGE as usize],
            "page {page}"
        );
        let stamp = bytes[0];
        assert!(bytes.iter().all(|&byte| byte == stamp), "page {page}");
        assert!(stamp == 0 || stamp == (page % 251) as u8, "page {page}");
    }
    met
}

#[test]
fn with_everything_dirty_held_and_slow_an_allocation_waits_or_fails_and_no_call_hangs() {
    let (runs, seed) = (
        number("MILLPOND_RUNS").unwrap_or(20),
        number("MILLPOND_SEED")
            .or_else(|| number("MILLPOND_FIRST_SEED"))
            .unwrap_or(1),
    );
    for run in 0..runs {
        let slow = [Slow::Late, Slow::Silent][run as usize % 2];
        let held = [Held::Most, Held::All][run as usize / 2 % 2];
        let met = bounded(move || crowd(seed + run, slow, held));
        println!("run {run}, {slow:?} device, {held:?} frames wanted: {met:?}");
        let told = met.no_frames.load(Ordering::Relaxed);
        assert!(
            slow == Slow::Late || told > 0,
            "a silent device, and nobody was told"
        );
        assert!(met.guards.load(Ordering::Relaxed) > 20 && met.done.load(Ordering::Relaxed) > 40);
    }
}
