//! Pages that wait for their log, and what that costs others: looks, ticks, and a sync whose log refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Kind, Place, bounded, until};
use millpond::internal::{Answer, Recorder, Step};
use millpond::{Error, File, LogOrder, OpenOptions, PageCache};
use millpond_core::dirty::limits::DirtyLimit;
use millpond_core::event::Event;
use millpond_core::units::{Nanos, Ratio};
use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const PAGE: usize = 4096;

/// Counts what the state machine does.
#[derive(Clone, Default, Debug)]
struct Counts {
    /// Pages that were to be written, whether they could be or not.
    looks: Arc<AtomicU64>,
    ticks: Arc<AtomicU64>,
    /// After which the next was wanted within 50 ms.
    ticks_in_haste: Arc<AtomicU64>,
}

impl Recorder for Counts {
    fn step(&mut self, step: Step<'_>) {
        let is_look = |answer: &&Answer| matches!(answer, Answer::BeginWrite(..));
        let looks = step.answers.iter().filter(is_look).count();
        self.looks.fetch_add(looks as u64, SeqCst);
        if matches!(step.event, Event::Tick) {
            self.ticks.fetch_add(1, SeqCst);
            let next = step.effects.next_tick;
            let is_in_haste = next.is_some_and(|at| at.since(step.now) < Nanos::from_millis(50));
            self.ticks_in_haste.fetch_add(u64::from(is_in_haste), SeqCst);
        }
    }
}

struct World {
    folder: tempfile::TempDir,
    faulty: Arc<Faulty>,
    counts: Counts,
    cache: PageCache,
}

impl World {
    fn new(memory: u64) -> World {
        let (faulty, counts) = (
            Arc::new(Faulty::new(Kind::Pool.device().unwrap(), 1)),
            Counts::default(),
        );
        let cache = PageCache::builder()
            .memory(memory)
            .device(faulty.clone())
            .recorder(counts.clone())
            .calibrate(false);
        World {
            folder: Place::Memory.folder(),
            cache: cache.build().unwrap(),
            faulty,
            counts,
        }
    }

    fn open(&self, log: &LogOrder, pages: u64) -> File {
        let options = OpenOptions::new().create(true).log(log);
        let file = self
            .cache
            .open(self.folder.path().join("pages"), options)
            .unwrap();
        file.set_len(pages * PAGE as u64).unwrap();
        file
    }

    /// The file's content on the device, a byte for each page.
    fn on_device(&self) -> Vec<u8> {
        let bytes = std::fs::read(self.folder.path().join("pages")).unwrap();
        bytes.chunks(PAGE).map(|page| page[0]).collect()
    }
}

fn change(file: &File, page: u64, value: u8, order: u64) {
    let mut guard = file.page_mut(page).unwrap();
    guard.fill(value);
    guard.set_order(order).unwrap();
}

/// With every change the flusher went through a slice of what waited, under the lock that every miss needs: 2000 changes
/// were 2,008,931 looks.
#[test]
fn a_page_that_waits_for_its_log_is_looked_at_once_until_the_log_has_come() {
    bounded(|| {
        const PAGES: u64 = 2000;
        let world = World::new(32 << 20);
        let mut options = world.cache.options();
        options.dirty.background = DirtyLimit::Share(Ratio::percent(1));
        options.dirty.hard = DirtyLimit::Share(Ratio::percent(60));
        world.cache.set_options(options).unwrap();
        let log = LogOrder::new();
        let file = world.open(&log, PAGES);
        (0..PAGES).for_each(|page| change(&file, page, 1, 1 + page));
        let looks = || world.counts.looks.load(SeqCst);
        let stuck = looks();
        // Nor does a log that comes a record at a time cost more than what it lets go.
        for record in 1..=PAGES {
            log.advance(record);
        }
        file.sync_data().unwrap();
        assert_eq!(world.on_device(), [1; PAGES as usize]);
        // One while a thread is changing the page, one when it has its order, one when the log has come.
        assert!(stuck <= 3 * PAGES, "{stuck} looks");
        assert!(looks() <= 5 * PAGES, "{} looks", looks());
    });
}

/// It stayed, for pages that could not be written, and checked them a thousand times a second.
#[test]
fn a_sync_that_its_log_has_ended_leaves_nothing_that_ticks() {
    bounded(|| {
        let world = World::new(4 << 20);
        let (calls, go_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let log = {
            let (calls, go_on) = (calls.clone(), go_on.clone());
            LogOrder::with_flush(move |n| {
                if calls.fetch_add(1, SeqCst) == 0 {
                    until("another change", || go_on.load(SeqCst));
                    return Ok(n);
                }
                Err(io::Error::other("full"))
            })
        };
        let file = world.open(&log.unwrap(), 2);
        change(&file, 0, 1, 1);
        std::thread::scope(|scope| {
            let syncer = scope.spawn(|| file.sync_data());
            until("the first call", || calls.load(SeqCst) == 1);
            change(&file, 0, 2, 2);
            go_on.store(true, SeqCst);
            let error = syncer.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Log { .. }), "{error}");
        });
        let (ticks, in_haste) = (&world.counts.ticks, &world.counts.ticks_in_haste);
        // One that had begun may have seen the sync.
        let before = ticks.load(SeqCst);
        until("a tick", || ticks.load(SeqCst) > before);
        let (before, hasty) = (ticks.load(SeqCst), in_haste.load(SeqCst));
        until("three ticks", || ticks.load(SeqCst) > before + 2);
        assert_eq!(in_haste.load(SeqCst), hasty, "ticks that want another at once");
        assert_eq!(file.page(0).unwrap()[0], 2);
    });
}

/// It did nothing at all: pages that wait for no log stayed in memory, and what the device had refused was not tried again.
#[test]
fn a_sync_whose_log_refuses_writes_what_waits_for_no_log() {
    bounded(|| {
        let world = World::new(4 << 20);
        let log = LogOrder::with_flush(|_| Err(io::Error::other("full"))).unwrap();
        let file = world.open(&log, 4);
        change(&file, 0, 1, 7);
        (1..4).for_each(|page| file.page_mut(page).unwrap().fill(1));
        world.faulty.add(FaultRule {
            offsets: 2 * PAGE as u64..3 * PAGE as u64,
            ..FaultRule::always(FaultTarget::Writes, Fault::Fail(libc::EIO))
        });
        for all in [false, true] {
            let error = match all {
                true => world.cache.sync_all(),
                false => file.sync_data(),
            };
            assert!(matches!(error, Err(Error::Log { .. })), "{error:?}");
            assert_eq!(world.on_device(), [0, 1, 0, 1]);
        }
        world.faulty.clear();
        let error = file.sync_data();
        assert!(matches!(error, Err(Error::Log { .. })), "{error:?}");
        assert_eq!(world.on_device(), [0, 1, 1, 1], "what had failed is tried again");
        log.advance(7);
        file.sync_data().unwrap();
        assert_eq!(world.on_device(), [1; 4]);
    });
}

/// It left out what pages wait for, and the copies of pages that are written.
#[test]
fn metadata_are_counted_with_what_pages_wait_for_and_their_copies() {
    bounded(|| {
        let world = World::new(4 << 20);
        let metadata = || world.cache.stats().metadata.0;
        let before = metadata();
        let log = LogOrder::new();
        let file = world.open(&log, 64 * 50);
        // A sixteenth of the budget, four bytes for the number of each, and what is known of a file.
        let copies = (4 << 20) / 16 + 4 * 64;
        assert!((copies..copies + 4096).contains(&(metadata() - before)));
        (0..50).for_each(|n| drop(file.page(64 * n).unwrap()));
        for round in 0..2 {
            let before = metadata();
            (0..50).for_each(|n| change(&file, 64 * n, 1, 1 + n + 50 * round));
            assert_eq!(
                metadata() - before,
                50 * (26 + 51),
                "dirty, each alone, with an order"
            );
            log.advance(50 + 50 * round);
            file.sync_data().unwrap();
        }
    });
}
