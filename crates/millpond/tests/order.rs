//! Pages that wait for a log, pages that stay as they are while they are written, and pages that are checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use millpond::core::dirty::limits::DirtyLimit;
use millpond::core::units::{Nanos, Ratio};
use millpond::device::{
    Access, AfterCrash, Crashing, DeviceFile, Fate, Fault, FaultRule, FaultTarget, Faulty, FileIdentity,
};
use millpond::{Error, File, LogOrder, OpenOptions, Options, PageCache, PageCheck, StablePages};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use support::{Draw, Kind, Place, bounded, linger, until};

const PAGE: usize = 4096;

/// A cache over a device with faults, and a folder in memory.
struct World {
    folder: tempfile::TempDir,
    faulty: Arc<Faulty>,
    cache: PageCache,
}

impl World {
    fn new(memory: u64) -> World {
        let faulty = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let cache = PageCache::builder()
            .memory(memory)
            .device(faulty.clone())
            .calibrate(false);
        World {
            folder: Place::Memory.folder(),
            cache: cache.build().unwrap(),
            faulty,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    fn open(&self, options: OpenOptions, pages: u64) -> File {
        let file = self.cache.open(self.path(), options.create(true)).unwrap();
        file.set_len(pages * PAGE as u64).unwrap();
        file
    }

    /// What the file on the device has, a byte for each page.
    fn on_device(&self) -> Vec<u8> {
        let bytes = std::fs::read(self.path()).unwrap();
        bytes.chunks(PAGE).map(|page| page[0]).collect()
    }
}

fn change(file: &File, page: u64, value: u8, order: u64) {
    let mut guard = file.page_mut(page).unwrap();
    guard.fill(value);
    guard.set_order(order).unwrap();
}

fn plain() -> OpenOptions {
    OpenOptions::new()
}

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
fn what_its_log_refuses_when_the_last_handle_goes_is_reported_as_lost_and_the_rest_is_written() {
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
        assert!(matches!(lost[..], [Error::Log { .. }]), "{lost:?}");
        assert_eq!(world.on_device(), [1, 0, 1]);
        // Without a callback, nobody is left to say that the log is durable.
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
fn who_dirties_while_all_waits_for_the_log_makes_the_cache_ask_for_it() {
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
        // And if the log can't, the dirtier is told.
        let log = LogOrder::with_flush(|_| Err(io::Error::other("full"))).unwrap();
        let file = world.open(plain().log(&log), 1000);
        let dirtied = (0..1000).try_for_each(|page| file.page_mut(page)?.set_order(1 + page));
        assert!(matches!(dirtied, Err(Error::Log { .. })), "{dirtied:?}");
    });
}

#[test]
fn who_dirties_behind_a_log_that_never_advances_is_told_after_a_while() {
    bounded(|| {
        let world = World::new(1 << 20);
        let patience = Nanos::from_millis(50);
        let options = world.cache.options();
        world.cache.set_options(Options { patience, ..options }).unwrap();
        // Nobody can be asked for it.
        let log = LogOrder::new();
        let file = world.open(plain().log(&log), 1000);
        let dirtied = (0..1000).try_for_each(|page| file.page_mut(page)?.set_order(1 + page));
        assert!(matches!(dirtied, Err(Error::Log { .. })), "{dirtied:?}");
        log.advance(1000);
        file.sync_data().unwrap();
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
        let set = |background: u32, hard: u32| {
            let mut options = world.cache.options();
            options.patience = Nanos::from_millis(50);
            options.dirty.background = DirtyLimit::Share(Ratio::percent(background));
            options.dirty.hard = DirtyLimit::Share(Ratio::percent(hard));
            world.cache.set_options(options).unwrap();
        };
        set(60, 80);
        let log_path = world.folder.path().join("log");
        let log_file = world.cache.open(log_path, plain().create(true)).unwrap();
        let log = LogOrder::with_flush(move |n| {
            log_file.append(&[1; 3 * PAGE]).map_err(io::Error::other)?;
            log_file.page_mut(0).map_err(io::Error::other)?.fill(2);
            log_file.sync_data().map_err(io::Error::other)?;
            Ok(n)
        });
        let file = world.open(plain().log(&log.unwrap()), 50);
        for page in 0..50 {
            change(&file, page, 1, 1 + page);
        }
        // As many threads together come above the limit of each.
        assert_eq!(world.cache.stats().occupancy.dirty.0, 50);
        set(1, 2);
        assert!(world.cache.stats().derived.dirty.hard.0 < 50);
        file.sync_data().unwrap();
        assert_eq!(world.on_device(), [1; 50]);
    });
}

#[test]
fn what_a_handle_asks_for_must_be_what_the_file_has() {
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
fn what_is_cut_off_waits_for_no_log() {
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

/// Holds a write in the middle, changes its page, and lets it go on.
fn changed_in_transit(stable: StablePages) -> (Vec<u8>, bool) {
    let world = World::new(4 << 20);
    let file = Arc::new(world.open(plain().stable_pages(stable), 1));
    file.page_mut(0).unwrap().fill(1);
    world.faulty.add(FaultRule {
        times: 1,
        ..FaultRule::always(FaultTarget::Writes, Fault::Hold)
    });
    let changed = AtomicBool::new(false);
    let (mut seen, mut waited) = (Vec::new(), false);
    std::thread::scope(|scope| {
        let syncer = scope.spawn(|| file.sync_data().unwrap());
        until("a write in transit", || world.faulty.held() == 1);
        scope.spawn(|| {
            let mut page = file.page_mut(0).unwrap();
            page[..PAGE / 2].fill(2);
            changed.store(true, SeqCst);
        });
        linger(|| changed.load(SeqCst));
        waited = !changed.load(SeqCst);
        // Readers do not wait.
        assert_eq!(file.page(0).unwrap()[PAGE - 1], 1);
        world.faulty.release().unwrap();
        syncer.join().unwrap();
        seen = std::fs::read(world.path()).unwrap();
    });
    file.sync_data().unwrap();
    let after = std::fs::read(world.path()).unwrap();
    assert!(after[..PAGE / 2].iter().all(|&byte| byte == 2), "{stable:?}");
    (seen, waited)
}

#[test]
fn a_page_that_changes_in_transit_is_stored_as_it_was() {
    bounded(|| {
        assert_eq!(changed_in_transit(StablePages::Copy), (vec![1; PAGE], false));
        assert_eq!(changed_in_transit(StablePages::Wait), (vec![1; PAGE], true));
        // What this is about.
        let (torn, _) = changed_in_transit(StablePages::Off);
        assert_eq!((torn[0], torn[PAGE - 1]), (2, 1));
    });
}

#[test]
fn when_all_copies_are_in_transit_changers_wait_and_pages_stay_whole() {
    bounded(|| {
        // A sixteenth of it is 16 copies.
        let world = World::new(1 << 20);
        let mut options = world.cache.options();
        options.dirty.hard = DirtyLimit::Share(Ratio::percent(90));
        world.cache.set_options(options).unwrap();
        let file = world.open(plain().stable_pages(StablePages::Copy), 40);
        world
            .faulty
            .add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        let changed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // Every second page, so that each is a write of its own.
            for page in (0..40).step_by(2) {
                file.page_mut(page).unwrap().fill(1);
            }
            scope.spawn(|| file.sync_data().unwrap());
            until("all in transit", || world.faulty.held() == 20);
            for page in (0..40).step_by(2) {
                let (file, changed) = (&file, &changed);
                scope.spawn(move || {
                    file.page_mut(page).unwrap()[..100].fill(2);
                    changed.fetch_add(1, SeqCst);
                });
            }
            until("changes of what was copied", || changed.load(SeqCst) == 16);
            linger(|| changed.load(SeqCst) > 16);
            assert_eq!(changed.load(SeqCst), 16);
            world.faulty.clear();
            world.faulty.release().unwrap();
        });
        file.sync_data().unwrap();
        let bytes = std::fs::read(world.path()).unwrap();
        for page in bytes.chunks(PAGE).step_by(2) {
            assert_eq!((page[0], page[100]), (2, 1));
        }
    });
}

/// Says of each page which it is and a sum of it, in its last 16 bytes.
#[derive(Default)]
struct Sums {
    stamped: AtomicU64,
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes[..PAGE - 8].chunks_exact(8);
    words.fold(17, |sum: u64, word| {
        (sum ^ u64::from_le_bytes(word.try_into().unwrap())).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl PageCheck for Sums {
    fn before_write(&self, page: u64, bytes: &mut [u8]) {
        self.stamped.fetch_add(1, SeqCst);
        bytes[PAGE - 16..PAGE - 8].copy_from_slice(&page.to_le_bytes());
        let sum = sum(bytes);
        bytes[PAGE - 8..].copy_from_slice(&sum.to_le_bytes());
    }

    fn after_read(&self, page: u64, bytes: &[u8]) -> Result<(), String> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let is = u64::from_le_bytes(bytes[PAGE - 16..PAGE - 8].try_into().unwrap());
        if is != page {
            return Err(format!("it says that it is page {is}"));
        }
        match bytes[PAGE - 8..] == sum(bytes).to_le_bytes() {
            true => Ok(()),
            false => Err("its sum is wrong".into()),
        }
    }
}

#[test]
fn what_the_check_refuses_is_an_error_with_its_page_and_stays_out_of_memory() {
    bounded(|| {
        let world = World::new(4 << 20);
        let check = Arc::new(Sums::default());
        let options = plain().check(check.clone());
        let file = world.open(options.clone(), 64);
        for page in 0..64 {
            file.page_mut(page).unwrap()[..8].fill(page as u8 + 1);
        }
        file.sync_data().unwrap();
        assert!(check.stamped.load(SeqCst) >= 64);
        assert_eq!(
            file.page(5).unwrap()[PAGE - 16],
            0,
            "the page in memory is not stamped"
        );
        file.close().unwrap();
        // A bit turns.
        let mut bytes = std::fs::read(world.path()).unwrap();
        bytes[40 * PAGE + 100] ^= 1;
        std::fs::write(world.path(), &bytes).unwrap();

        let file = world.cache.open(world.path(), options.write(true)).unwrap();
        // Read-ahead meets it and says nothing.
        file.prefetch(0, 64 * PAGE as u64).unwrap();
        let mut buf = vec![0; PAGE];
        for page in 0..64_u64 {
            let read = file.read_at(&mut buf, page * PAGE as u64);
            if page != 40 {
                assert_eq!(read.unwrap(), PAGE);
                assert_eq!(buf[0], page as u8 + 1);
                continue;
            }
            for error in [
                read.unwrap_err(),
                file.page(40).unwrap_err(),
                file.page_mut(40).unwrap_err(),
            ] {
                let Error::Check { page, what, .. } = &error else {
                    panic!("{error}")
                };
                assert_eq!((*page, what.as_str()), (40, "its sum is wrong"));
            }
            assert!(!file.is_resident(40 * PAGE as u64));
        }
        // Mended behind the cache's back, as by a repair.
        bytes[40 * PAGE + 100] ^= 1;
        std::fs::write(world.path(), &bytes).unwrap();
        assert_eq!(file.page(40).unwrap()[0], 41);
    });
}

#[test]
fn a_check_that_panics_poisons_the_cache_and_nobody_hangs() {
    struct Broken(AtomicBool);
    impl PageCheck for Broken {
        fn before_write(&self, _: u64, _: &mut [u8]) {
            assert!(!self.0.load(SeqCst), "a mistake in the check");
        }
        fn after_read(&self, _: u64, _: &[u8]) -> Result<(), String> {
            assert!(!self.0.load(SeqCst), "a mistake in the check");
            Ok(())
        }
    }
    bounded(|| {
        for writes in [true, false] {
            let world = World::new(4 << 20);
            let check = Arc::new(Broken(AtomicBool::new(false)));
            let file = world.open(plain().check(check.clone()), 3);
            if writes {
                file.page_mut(0).unwrap().fill(1);
            }
            check.0.store(true, SeqCst);
            let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match writes {
                true => file.sync_data(),
                false => file.page(1).map(drop),
            }));
            assert!(matches!(panics, Err(_) | Ok(Err(Error::Poisoned { .. }))));
            let error = file.page(2).unwrap_err().to_string();
            assert!(error.contains("its page check has panicked"), "{error}");
        }
    });
}

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the example as it is, with a main that nobody calls here"
)]
#[path = "../examples/log_before_page.rs"]
mod example;

/// The folder of a child that does the example's work.
const CHILD: &str = "MILLPOND_ORDER_CHILD_FOLDER";

/// Not a test: what the child does.
#[test]
fn the_child_of_the_example_goes_on_until_it_is_killed() {
    use std::io::Write;
    if let Some(folder) = std::env::var_os(CHILD) {
        let tell = |n: u64| writeln!(std::io::stderr(), "acknowledged {n}").unwrap();
        example::work(folder.as_ref(), tell).unwrap();
    }
}

#[test]
fn the_example_has_what_it_acknowledged_when_it_is_killed_again_and_again() {
    use std::io::BufRead;
    bounded(|| {
        let folder = Place::Memory.folder();
        for round in 1..=5 {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["the_child_of_the_example_goes_on", "--nocapture"]);
            child.env(CHILD, folder.path());
            child.stdout(std::process::Stdio::null());
            let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
            let told = std::io::BufReader::new(child.stderr.take().unwrap());
            let numbers = told.lines().map_while(Result::ok);
            let numbers = numbers.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
            // At another place of its round each time.
            let acknowledged = numbers.take(20 + 7 * round).last().unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            example::verify(folder.path(), acknowledged).unwrap();
            std::fs::remove_file(folder.path().join("log")).unwrap();
            std::fs::remove_file(folder.path().join("pages")).unwrap();
        }
    });
}

/// A device that knows what a crash could leave, under a cache.
fn crashing(memory: u64) -> (Arc<Crashing>, PageCache, tempfile::TempDir) {
    let device = Arc::new(Crashing::new(Kind::Pool.device().unwrap(), 512));
    let cache = PageCache::builder()
        .memory(memory)
        .device(device.clone())
        .calibrate(false);
    (device, cache.build().unwrap(), Place::Memory.folder())
}

fn identity(path: &Path) -> FileIdentity {
    DeviceFile::open(path, Access::Read).unwrap().identity()
}

/// What a file holds if the crash comes when there are `at` entries. `at` must not become smaller.
fn until_entry(file: &mut AfterCrash<'_>, at: usize) {
    while file.until() < at && file.advance().is_some() {}
}

#[test]
fn in_every_crash_of_the_example_no_page_is_newer_than_the_durable_log_and_nothing_acknowledged_is_lost() {
    bounded(|| {
        let (device, cache, folder) = crashing(1 << 20);
        let mut acknowledged = vec![(0, 0)];
        let mut store = example::Store::open(&cache, folder.path()).unwrap();
        for n in 0..600 {
            let [page, slot, value] = example::nth(n);
            store.put(page, slot, value).unwrap();
            if n % 20 == 19 {
                store.commit().unwrap();
                acknowledged.push((device.position(), n + 1));
            }
            if n % 50 == 45 {
                store.checkpoint().unwrap();
            }
        }
        let journal = device.journal();
        let file = |name| journal.file(identity(&folder.path().join(name))).unwrap();
        let (mut log, mut pages) = (file("log"), file("pages"));
        let (mut recovered, mut newest) = (0, 0);
        for at in 0..=device.position() {
            until_entry(&mut log, at);
            until_entry(&mut pages, at);
            let durable = (example::records(log.durable()).len() * example::RECORD) as u64;
            let (image, _) = pages.image(Fate::Kept);
            for (n, page) in image.chunks_exact(PAGE).enumerate() {
                let lsn = example::lsn(page).unwrap();
                newest = newest.max(lsn);
                assert!(
                    lsn <= durable,
                    "page {n} has the log up to {lsn}, which is durable up to {durable}"
                );
            }
            if at % 25 != 0 && at != device.position() {
                continue;
            }
            for fate in [Fate::Lost, Fate::Kept, Fate::Drawn(at as u64)] {
                let after = Place::Memory.folder();
                std::fs::write(after.path().join("log"), log.image(fate).0).unwrap();
                std::fs::write(after.path().join("pages"), pages.image(fate).0).unwrap();
                let (_, promised) = acknowledged
                    .iter()
                    .rfind(|(position, _)| *position <= at)
                    .unwrap();
                example::verify(after.path(), *promised).unwrap();
                recovered += 1;
            }
        }
        assert!(
            recovered > 20 && newest > 0,
            "{recovered} recovered, {newest} seen"
        );
    });
}

/// Threads change pages, each change with the next record of a log that is made durable by and by; files are synced,
/// cut and grown, in memory that is too small for them. After every crash no page is newer than the log was durable when
/// it was written, and none is a mixture of two versions.
fn order_holds(seed: u64) -> u64 {
    const PAGES: u64 = 120;
    let mut draw = Draw(seed);
    let (device, cache, folder) = crashing((1 << 20) + draw.below(2) * (1 << 20));
    let stable = [StablePages::Copy, StablePages::Wait][draw.below(2) as usize];
    let asks = draw.below(2) == 0;
    // How far the log was made durable, and how many entries the journal had before.
    let advanced = Arc::new(Mutex::new(vec![(0, 0)]));
    let record = Arc::new(AtomicU64::new(0));
    let note = {
        let (device, advanced) = (device.clone(), advanced.clone());
        move |n: u64| advanced.lock().push((device.position(), n))
    };
    let log = if asks {
        let (note, record) = (note.clone(), record.clone());
        LogOrder::with_flush(move |n| {
            let end = record.load(SeqCst).max(n);
            note(end);
            Ok(end)
        })
        .unwrap()
    } else {
        LogOrder::new()
    };
    let path = folder.path().join("pages");
    let options = OpenOptions::new().create(true).log(&log).stable_pages(stable);
    let file = cache.open(&path, options).unwrap();
    file.set_len(PAGES * PAGE as u64).unwrap();
    let done = AtomicU64::new(0);
    const WRITERS: u64 = 2;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut draw = Draw(seed ^ (writer + 1) << 32);
            let (file, record, done) = (&file, &record, &done);
            scope.spawn(move || {
                for _ in 0..400 {
                    // A few pages are changed often.
                    let pages = if draw.below(2) == 0 { 4 } else { PAGES };
                    let Ok(mut page) = file.page_mut(draw.below(pages)) else {
                        continue;
                    };
                    let n = record.fetch_add(1, SeqCst) + 1;
                    page.chunks_exact_mut(8)
                        .for_each(|word| word.copy_from_slice(&n.to_le_bytes()));
                    page.set_order(n).unwrap();
                }
                done.fetch_add(1, SeqCst);
            });
        }
        let (file, record, done, note, log) = (&file, &record, &done, &note, &log);
        scope.spawn(move || {
            while !asks && done.load(SeqCst) < WRITERS + 1 {
                let n = record.load(SeqCst);
                note(n);
                log.advance(n);
                std::thread::yield_now();
            }
        });
        scope.spawn(move || {
            while done.load(SeqCst) < WRITERS {
                match draw.below(3) {
                    0 => file
                        .set_len((PAGES / 2 + draw.below(PAGES / 2)) * PAGE as u64)
                        .unwrap(),
                    1 => file.set_len(PAGES * PAGE as u64).unwrap(),
                    _ => file.sync_data().unwrap(),
                }
            }
            file.sync_data().unwrap();
            done.fetch_add(1, SeqCst);
        });
    });
    let advanced = advanced.lock();
    let journal = device.journal();
    let mut pages = journal.file(identity(&path)).unwrap();
    let mut images = 0;
    let (mut next, mut durable) = (0, 0);
    loop {
        // A write that was begun before the end of this step: the log was made durable before that.
        let at = pages.until();
        while let Some((_, n)) = advanced.get(next).filter(|(position, _)| *position <= at) {
            durable = durable.max(*n);
            next += 1;
        }
        if pages.advance().is_none() {
            break;
        }
        images += 1;
        let (image, _) = pages.image(Fate::Kept);
        for (n, page) in image.chunks_exact(PAGE).enumerate() {
            let version = u64::from_le_bytes(page[..8].try_into().unwrap());
            assert!(
                version <= durable,
                "seed {seed}: page {n} has record {version}, the log was durable up to {durable}"
            );
            let is_whole = page.chunks_exact(8).all(|word| word == &page[..8]);
            assert!(is_whole, "seed {seed}, {stable:?}: page {n} is a mixture");
        }
    }
    images
}

#[test]
fn no_page_is_newer_than_its_log_nor_a_mixture_in_any_crash() {
    let var = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().unwrap())
    };
    let seeds = match var("MILLPOND_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..var("MILLPOND_HISTORIES").unwrap_or(12),
    };
    for seed in seeds {
        let images = bounded(move || order_holds(seed));
        assert!(images > 0, "seed {seed} has written nothing");
    }
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

#[test]
fn a_page_with_a_check_waits_for_room_for_its_copy() {
    bounded(|| {
        // 16 copies.
        let world = World::new(1 << 20);
        let check = Arc::new(Sums::default());
        let file = world.open(plain().check(check.clone()), 40);
        world
            .faulty
            .add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        std::thread::scope(|scope| {
            for page in (0..40).step_by(2) {
                file.page_mut(page).unwrap()[0] = 1;
            }
            scope.spawn(|| file.sync_data().unwrap());
            until("writes in transit", || world.faulty.held() == 16);
            linger(|| world.faulty.held() > 16);
            assert_eq!((world.faulty.held(), check.stamped.load(SeqCst)), (16, 16));
            world.faulty.clear();
            world.faulty.release().unwrap();
        });
        let bytes = std::fs::read(world.path()).unwrap();
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            check.after_read(n as u64, page).unwrap();
            assert_eq!(usize::from(page[0]), (n + 1) % 2);
        }
    });
}

#[test]
fn who_wants_to_change_a_page_in_transit_is_told_when_the_device_dies() {
    bounded(|| {
        let dies = Arc::new(AtomicBool::new(false));
        let faulty = Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1));
        let hook = {
            let dies = dies.clone();
            move |call: support::Call| {
                let is_its_time = call.what == support::What::Wait && dies.load(SeqCst);
                assert!(!is_its_time, "the device dies");
            }
        };
        let device = support::Hooked::new(faulty.clone(), hook);
        let cache = PageCache::builder()
            .memory(4 << 20)
            .device(device)
            .calibrate(false);
        let (cache, folder) = (cache.build().unwrap(), Place::Memory.folder());
        let options = plain().create(true).stable_pages(StablePages::Wait);
        let file = cache.open(folder.path().join("pages"), options).unwrap();
        file.set_len(2 * PAGE as u64).unwrap();
        file.page_mut(0).unwrap().fill(1);
        faulty.add(FaultRule::always(FaultTarget::Writes, Fault::Hold));
        std::thread::scope(|scope| {
            let syncer = scope.spawn(|| file.sync_data());
            until("a write in transit", || faulty.held() == 1);
            let changer = scope.spawn(|| file.page_mut(0).map(drop));
            linger(|| changer.is_finished());
            assert!(!changer.is_finished(), "it is being written");
            dies.store(true, SeqCst);
            // Something for the cache's thread to do.
            let _ = file.write_at(&[2; PAGE], PAGE as u64);
            for result in [syncer.join().unwrap(), changer.join().unwrap()] {
                assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
            }
        });
    });
}
