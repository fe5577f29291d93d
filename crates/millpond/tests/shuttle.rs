//! The frame table under a scheduler that decides every interleaving.
//!
//! The files are the library's own; only `sync`, from which they take atomics, locks and thread-locals,
//! is another one here. Every test runs some thousand schedules from a fixed seed, half of them random
//! and half by PCT (Burckhardt et al. 2010), which finds orders that chance rarely tries. A failing
//! schedule is printed with the call that replays it. What shuttle cannot show, because it has no weak
//! memory, is argued in `hazard.rs` (H3 to H5) and `wait.rs`.
//!
//! What the tests watch is a memory of their own, in which every frame has one number for its content and
//! a count of who believes to have a right to it.
#![allow(dead_code, unreachable_pub, reason = "the modules are the library's, whole")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../src/hazard.rs"]
mod hazard;
#[path = "../src/index.rs"]
mod index;
#[path = "../src/state.rs"]
mod state;
#[path = "../src/table.rs"]
mod table;
#[path = "../src/wait.rs"]
mod wait;

/// The library's `sync`, as shuttle has it.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use shuttle::sync::{Condvar, Mutex};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use shuttle::thread_local;

    pub(crate) const RECORDS_MAX: usize = 6;
    // Few, so that schedules are short and those who wait do sleep.
    pub(crate) const SPINS: u32 = 1;
    pub(crate) const YIELDS: u32 = 1;

    pub(crate) fn spin_loop() {}

    macro_rules! global {
        (static $name:ident: $type:ty = $init:expr;) => {
            shuttle::lazy_static! { static ref $name: $type = $init; }
        };
    }
    pub(crate) use global;

    pub(crate) struct Reserved<T>(Box<[T]>);

    impl<T: Default> Reserved<T> {
        pub(crate) fn new(len: usize) -> std::io::Result<Reserved<T>> {
            Ok(Reserved((0..len).map(|_| T::default()).collect()))
        }

        pub(crate) fn release(&self, _: std::ops::Range<usize>) {}

        pub(crate) fn use_huge_pages(&self, _: usize) {}
    }

    impl<T> std::ops::Deref for Reserved<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    /// A unit test of one of the files, in one schedule of one thread.
    pub(crate) fn run(test: impl Fn() + Send + Sync + 'static) {
        super::runner(shuttle::scheduler::RandomScheduler::new_from_seed(0, 1)).run(test);
    }
}

use millpond_core::frame::FrameTable;
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use table::{ExclusivePin, Holder, Load, Lookup, Memory, SharedPin, Table, Turn, Vacated};

const SCHEDULES: usize = 2_000;
const SEED: u64 = 0x6d69_6c6c_706f_6e64;

fn runner<S: Scheduler + 'static>(scheduler: S) -> shuttle::Runner<S> {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config)
}

fn explore(test: fn()) {
    let seed: u64 = std::env::var("SEED").map_or(SEED, |s| s.parse().unwrap());
    runner(RandomScheduler::new_from_seed(seed, SCHEDULES)).run(test);
    runner(PctScheduler::new_from_seed(
        seed,
        std::env::var("DEPTH").map_or(3, |s| s.parse().unwrap()),
        SCHEDULES * std::env::var("TIMES").map_or(1, |s| s.parse().unwrap()),
    ))
    .run(test);
}

/// Frames of one number each. Users: readers count 1, an exclusive one counts `ALONE`.
struct Numbers(Vec<Number>);

#[derive(Default)]
struct Number {
    users: AtomicI64,
    content: AtomicU64,
    /// Something that the scheduler knows of.
    step: sync::AtomicU32,
}

const ALONE: i64 = 1 << 32;

impl Memory for Numbers {
    fn frames_max(&self) -> u32 {
        self.0.len() as u32
    }

    fn commit(&self, _: Range<u32>) -> std::io::Result<()> {
        Ok(())
    }

    fn discard(&self, vacated: Vacated) {
        self.withdraw(vacated);
    }

    fn withdraw(&self, vacated: Vacated) {
        for frame in vacated.frames().clone() {
            assert_eq!(
                self.0[frame as usize].users.load(Relaxed),
                0,
                "T4: f{frame} is in use"
            );
        }
    }
}

impl Numbers {
    /// Is there, with others of its kind, while something else may happen.
    fn with<R>(&self, frame: FrameNo, weight: i64, act: impl FnOnce(&AtomicU64) -> R) -> R {
        let number = &self.0[frame.index()];
        let others = number.users.fetch_add(weight, Relaxed);
        let allowed = if weight == ALONE {
            others == 0
        } else {
            others < ALONE
        };
        assert!(
            allowed,
            "T1, T2, T3: {frame:?} has {others:#x} users beside a new one of {weight:#x}"
        );
        let result = act(&number.content);
        // A place to be interrupted at. Not `yield_now`, by which PCT would let all others go first.
        number.step.load(sync::Ordering::Relaxed);
        number.users.fetch_sub(weight, Relaxed);
        result
    }
}

/// A cache as the engine will have it: the table, and the core lock with what it guards.
struct Cache {
    table: Table<Numbers>,
    core: Mutex<Core>,
}

struct Core {
    turn: Turn,
    free: Vec<FrameNo>,
}

impl Holder for Arc<Cache> {
    type Memory = Numbers;

    fn table(&self) -> &Table<Numbers> {
        &self.table
    }
}

fn key(page: u64) -> PageKey {
    PageKey::new(FileId(0), PageIndex(page))
}

/// What page `page` holds after `changes` changes.
fn content(page: u64, changes: u64) -> u64 {
    page << 32 | changes
}

fn cache(frames: u32, pages: Range<u64>) -> Arc<Cache> {
    let (table, mut turn) = Table::new(Numbers((0..8).map(|_| Number::default()).collect())).unwrap();
    table.locked(&mut turn).grow(frames).unwrap();
    let free = (0..frames).rev().map(FrameNo).collect();
    let cache = Arc::new(Cache {
        table,
        core: Mutex::new(Core { turn, free }),
    });
    for page in pages {
        let load = cache.begin(page).expect("a free frame");
        cache.finish(load, page);
    }
    cache
}

impl Cache {
    fn begin(&self, page: u64) -> Option<Load> {
        let mut core = self.core.lock().unwrap();
        let Core { turn, free } = &mut *core;
        let mut locked = self.table.locked(turn);
        if locked.lookup(key(page)).is_some() {
            return None;
        }
        Some(locked.insert(key(page), free.pop()?))
    }

    fn fill(&self, load: &mut Load, page: u64) {
        let fill = |number: &AtomicU64| number.store(content(page, 0), Relaxed);
        self.table
            .memory()
            .with(self.table.loading_frame(load), ALONE, fill);
    }

    fn finish(&self, mut load: Load, page: u64) {
        self.fill(&mut load, page);
        self.table.finish_load(load);
    }

    /// Evicts what can be evicted of the frames, and frees it. How many.
    fn evict(&self, frames: Range<u32>) -> usize {
        let mut core = self.core.lock().unwrap();
        let Core { turn, free } = &mut *core;
        let mut victims = frames.map(FrameNo).collect();
        self.table.locked(turn).evict(&mut victims);
        self.table.locked(turn).validate();
        free.extend(&victims);
        victims.len()
    }

    /// Reads a page that is there or not, never one that is another. Whether it was there.
    fn read_if_there(&self, page: u64) -> bool {
        match self.table.pin(key(page)) {
            Lookup::Found(pin) => {
                look(&pin, page);
                true
            }
            Lookup::Busy(frame) => panic!("{frame:?} is busy for one who waits"),
            Lookup::Loading(_) | Lookup::Absent => false,
        }
    }

    /// Changes a page that is there. Whether it was clean.
    fn change(&self, page: u64) -> bool {
        let Lookup::Found(mut pin) = self.table.lock(key(page)) else {
            panic!("page {page} is not there")
        };
        add_one(&mut pin, page);
        pin.first_dirty()
    }
}

fn look<H: Holder<Memory = Numbers>>(pin: &SharedPin<H>, page: u64) -> u64 {
    assert_eq!(pin.key(), key(page), "X2");
    let before = pin
        .table()
        .memory()
        .with(pin.frame(), 1, |number| number.load(Relaxed));
    let after = pin
        .table()
        .memory()
        .with(pin.frame(), 1, |number| number.load(Relaxed));
    assert_eq!(before, after, "T1: page {page} changed while it was pinned");
    assert_eq!(before >> 32, page, "T1: page {page} is another page");
    before & 0xffff_ffff
}

fn add_one<H: Holder<Memory = Numbers>>(pin: &mut ExclusivePin<H>, page: u64) {
    assert_eq!(pin.key(), key(page), "X2");
    let memory = pin.table().memory();
    let before = memory.with(pin.frame(), ALONE, |number| number.fetch_add(1, Relaxed));
    let after = memory.with(pin.frame(), ALONE, |number| number.load(Relaxed));
    assert_eq!(before >> 32, page, "T2: page {page} is another page");
    assert_eq!(before + 1, after, "T2: page {page} changed beside its owner");
}

/// Runs the functions on threads of their own, and waits for them.
fn together<const N: usize>(cache: &Arc<Cache>, acts: [fn(&Arc<Cache>); N]) {
    let spawn = |act: fn(&Arc<Cache>)| {
        let cache = Arc::clone(cache);
        thread::spawn(move || act(&cache))
    };
    acts.map(spawn)
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let mut core = cache.core.lock().unwrap();
    cache.table.locked(&mut core.turn).validate();
}

#[test]
fn pinned_page_is_not_evicted_and_its_frame_not_given_away() {
    explore(|| {
        let cache = cache(2, 0..2);
        let reader: fn(&Arc<Cache>) = |cache| {
            cache.read_if_there(0);
            cache.read_if_there(1);
            cache.read_if_there(0);
        };
        together(
            &cache,
            [reader, reader, |cache| {
                for page in 2..5 {
                    cache.evict(0..2);
                    if let Some(load) = cache.begin(page) {
                        cache.finish(load, page);
                    }
                }
            }],
        );
    });
}

#[test]
fn frame_that_got_another_page_is_not_mistaken_for_its_former_one() {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    fn replace(cache: &Cache) {
        if cache.evict(0..1) == 1
            && let Some(mut load) = cache.begin(1)
        {
            cache.fill(&mut load, 1);
            if WRITTEN.load(Relaxed) {
                add_one(&mut cache.table.finish_load_exclusive(load), 1);
            } else {
                cache.table.finish_load(load);
            }
        }
    }
    fn read_or_write() {
        let one = cache(1, 0..1);
        together(
            &one,
            [
                |cache| replace(cache),
                |cache| {
                    cache.read_if_there(0);
                },
            ],
        );
        let one = cache(1, 0..1);
        together(
            &one,
            [
                |cache| replace(cache),
                |cache| {
                    if let Lookup::Found(mut pin) = cache.table.lock(key(0)) {
                        add_one(&mut pin, 0);
                    }
                },
            ],
        );
    }
    WRITTEN.store(false, Relaxed);
    explore(read_or_write);
    WRITTEN.store(true, Relaxed);
    explore(read_or_write);
}

/// Who asks for page 0 and is overtaken gets an answer while page 1 is held in its frame: the holder waits for
/// the asker here, so that to wait for the holder would be for ever. `read_before`: the asker may find page 0
/// pinned at first, and so has reason to wait and to ask for precedence.
fn ask_while_the_next_page_is_held(
    ask: fn(&Arc<Cache>),
    read_before: bool,
    hold: fn(&Cache, Load, thread::JoinHandle<()>),
) {
    let cache = cache(1, 0..1);
    let pin = match cache.table.pin(key(0)) {
        Lookup::Found(pin) if read_before => Some(pin),
        _ => None,
    };
    let asker = {
        let cache = Arc::clone(&cache);
        thread::spawn(move || ask(&cache))
    };
    drop(pin);
    if cache.evict(0..1) == 0 {
        return asker.join().unwrap();
    }
    let mut load = cache.begin(1).expect("the only frame, which is free");
    cache.fill(&mut load, 1);
    hold(&cache, load, asker);
    let word = cache.table.word(FrameNo(0));
    assert!(!word.is_wanted(), "nobody wants page 1: {word:?}");
}

fn hold_alone(cache: &Cache, load: Load, asker: thread::JoinHandle<()>) {
    let _pin = cache.table.finish_load_exclusive(load);
    asker.join().unwrap();
}

fn hold_with_others(cache: &Cache, load: Load, asker: thread::JoinHandle<()>) {
    let _pin = cache.table.finish_load_pinned(load);
    asker.join().unwrap();
}

#[test]
fn reader_of_a_page_that_left_does_not_wait_for_who_has_its_frame() {
    fn read(cache: &Arc<Cache>) {
        cache.read_if_there(0);
    }
    explore(|| ask_while_the_next_page_is_held(read, false, hold_alone));
}

#[test]
fn writer_of_a_page_that_left_does_not_wait_for_who_has_its_frame() {
    fn write(cache: &Arc<Cache>) {
        if let Lookup::Found(mut pin) = cache.table.lock(key(0)) {
            add_one(&mut pin, 0);
        }
    }
    explore(|| ask_while_the_next_page_is_held(write, false, hold_alone));
    explore(|| ask_while_the_next_page_is_held(write, false, hold_with_others));
    explore(|| ask_while_the_next_page_is_held(write, true, hold_alone));
    explore(|| ask_while_the_next_page_is_held(write, true, hold_with_others));
}

#[test]
fn page_that_is_written_is_read_before_or_after_never_during() {
    explore(|| {
        let cache = cache(1, 0..1);
        let reader: fn(&Arc<Cache>) = |cache| {
            for _ in 0..2 {
                assert!(cache.read_if_there(0));
            }
        };
        let writer: fn(&Arc<Cache>) = |cache| {
            cache.change(0);
            cache.change(0);
        };
        together(&cache, [reader, reader, writer, writer]);
        let Lookup::Found(pin) = cache.table.pin(key(0)) else {
            panic!("page 0 is not there")
        };
        assert_eq!(look(&pin, 0), 4, "changes");
    });
}

#[test]
fn reader_may_pin_again_what_it_has_pinned_while_a_writer_waits() {
    explore(|| {
        let cache = cache(1, 0..1);
        let reader: fn(&Arc<Cache>) = |cache| {
            let Lookup::Found(outer) = cache.table.pin(key(0)) else {
                panic!("page 0 is not there")
            };
            let changes = look(&outer, 0);
            let Lookup::Found(inner) = cache.table.pin(key(0)) else {
                panic!("page 0 is not there")
            };
            assert_eq!(look(&inner, 0), changes);
        };
        together(
            &cache,
            [reader, reader, |cache| {
                cache.change(0);
                cache.change(0);
            }],
        );
    });
}

#[test]
fn every_dirty_edge_is_reported_once_and_no_change_is_lost() {
    static EDGES: AtomicU64 = AtomicU64::new(0);
    static WRITES: AtomicU64 = AtomicU64::new(0);
    static DEVICE: AtomicU64 = AtomicU64::new(0);
    explore(|| {
        EDGES.store(0, Relaxed);
        WRITES.store(0, Relaxed);
        DEVICE.store(content(0, 0), Relaxed);
        let cache = cache(1, 0..1);
        let writer: fn(&Arc<Cache>) = |cache| {
            for _ in 0..2 {
                if let Lookup::Found(mut pin) = cache.table.lock(key(0)) {
                    add_one(&mut pin, 0);
                    EDGES.fetch_add(u64::from(pin.first_dirty()), Relaxed);
                }
            }
        };
        together(
            &cache,
            [writer, writer, |cache| {
                for fails in [true, false, false] {
                    let is_dirty = cache.table.word(FrameNo(0)).is_dirty();
                    let mut core = cache.core.lock().unwrap();
                    let begun = is_dirty && cache.table.locked(&mut core.turn).begin_write(FrameNo(0));
                    drop(core);
                    if begun {
                        WRITES.fetch_add(1, Relaxed);
                        let frame = cache.table.writing_frame(FrameNo(0));
                        let seen = cache.table.memory().0[frame.index()].content.load(Relaxed);
                        thread::yield_now();
                        assert_eq!(cache.evict(0..1), 0, "evicted under writeback");
                        if fails {
                            EDGES.fetch_add(u64::from(cache.table.fail_write(frame)), Relaxed);
                        } else {
                            DEVICE.store(seen, Relaxed);
                            cache.table.end_write(frame);
                        }
                    }
                }
            }],
        );
        let is_dirty = cache.table.word(FrameNo(0)).is_dirty();
        let Lookup::Found(pin) = cache.table.pin(key(0)) else {
            panic!("page 0 is not there")
        };
        let on_device = content(0, look(&pin, 0)) == DEVICE.load(Relaxed);
        assert!(is_dirty || on_device, "S4: a clean page differs from the device");
        drop(pin);
        let (edges, writes) = (EDGES.load(Relaxed), WRITES.load(Relaxed));
        assert_eq!(
            edges,
            writes + u64::from(is_dirty),
            "T6: edges, {writes} writes, dirty: {is_dirty}"
        );
        assert_eq!(cache.evict(0..1) == 0, is_dirty, "S4");
    });
}

#[test]
fn faults_on_one_page_share_one_load_and_survive_its_failure() {
    static LOADS: AtomicU64 = AtomicU64::new(0);
    explore(|| {
        LOADS.store(0, Relaxed);
        let cache = cache(1, 0..0);
        let reader: fn(&Arc<Cache>) = |cache| {
            loop {
                match cache.table.pin(key(7)) {
                    Lookup::Found(pin) => {
                        look(&pin, 7);
                        return;
                    }
                    Lookup::Loading(frame) => cache.table.wait_loading(frame, key(7)),
                    Lookup::Busy(frame) => panic!("{frame:?} is busy for one who waits"),
                    Lookup::Absent => {
                        let Some(mut load) = cache.begin(7) else { continue };
                        cache.fill(&mut load, 7);
                        if LOADS.fetch_add(1, Relaxed) == 0 {
                            let mut core = cache.core.lock().unwrap();
                            let frame = cache.table.locked(&mut core.turn).fail_load(load);
                            core.free.push(frame);
                        } else {
                            look(&cache.table.finish_load_pinned(load), 7);
                            return;
                        }
                    }
                }
            }
        };
        together(&cache, [reader, reader, reader]);
        assert_eq!(LOADS.load(Relaxed), 2, "one that failed and one that did not");
    });
}

impl Cache {
    fn forget(&self, page: u64, frame: FrameNo) {
        loop {
            let mut core = self.core.lock().unwrap();
            let mut frames = vec![frame];
            self.table.locked(&mut core.turn).forget(&mut frames);
            if !frames.is_empty() {
                return;
            }
            drop(core);
            self.table.wait_unused(frame, key(page));
        }
    }
}

#[test]
fn page_that_is_forgotten_is_waited_for_and_gone_for_all() {
    explore(|| {
        let cache = cache(1, 0..1);
        let user: fn(&Arc<Cache>) = |cache| {
            if let Lookup::Found(mut pin) = cache.table.lock(key(0)) {
                add_one(&mut pin, 0);
            }
            cache.read_if_there(0);
        };
        together(&cache, [user, user, |cache| cache.forget(0, FrameNo(0))]);
        assert!(matches!(cache.table.try_pin(key(0)), Lookup::Absent));
    });
}

#[test]
fn end_of_a_load_wakes_who_waits_for_it() {
    explore(|| {
        for fails in [false, true] {
            let cache = cache(1, 0..0);
            let mut load = cache.begin(0).expect("a free frame");
            let waiter = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    cache.table.wait_loading(FrameNo(0), key(0));
                    assert_eq!(cache.read_if_there(0), !fails);
                })
            };
            cache.fill(&mut load, 0);
            if fails {
                cache
                    .table
                    .locked(&mut cache.core.lock().unwrap().turn)
                    .fail_load(load);
            } else {
                cache.table.finish_load(load);
            }
            waiter.join().unwrap();
        }
    });
}

#[test]
fn end_of_a_write_wakes_who_waits_for_it() {
    explore(|| {
        let cache = cache(1, 0..1);
        assert!(cache.change(0));
        let mut core = cache.core.lock().unwrap();
        assert!(cache.table.locked(&mut core.turn).begin_write(FrameNo(0)));
        drop(core);
        together(
            &cache,
            [
                |cache| cache.forget(0, FrameNo(0)),
                |cache| {
                    cache.table.wait_written(FrameNo(0), key(0));
                    let word = cache.table.word(FrameNo(0));
                    assert!(!word.is_writeback(), "{word:?}");
                },
                |cache| cache.table.end_write(FrameNo(0)),
            ],
        );
    });
}

#[test]
fn page_that_is_pinned_by_its_write_is_copied_as_it_was_and_no_change_is_lost() {
    explore(|| {
        let cache = cache(1, 0..1);
        assert!(cache.change(0));
        let writer: fn(&Arc<Cache>) = |cache| {
            cache.change(0);
        };
        together(
            &cache,
            [
                writer,
                writer,
                |cache| {
                    cache.read_if_there(0);
                },
                |cache| {
                    for fails in [true, false] {
                        let mut core = cache.core.lock().unwrap();
                        let mut locked = cache.table.locked(&mut core.turn);
                        let pinned = locked.begin_write_pinned(FrameNo(0), Arc::clone(cache));
                        drop(core);
                        // Somebody is changing it.
                        let Some(pin) = pinned else { continue };
                        let copy = look(&pin, 0);
                        assert!(!cache.table.word(FrameNo(0)).is_dirty(), "changed under the pin");
                        if fails {
                            // As for a page whose order has risen: it is dirty before anybody else can have it.
                            cache.table.fail_write(FrameNo(0));
                            assert!(cache.table.word(FrameNo(0)).is_dirty());
                            continue;
                        }
                        assert_eq!(look(&pin, 0), copy);
                        drop(pin);
                        cache.table.end_write(FrameNo(0));
                        let is_dirty = cache.table.word(FrameNo(0)).is_dirty();
                        let Lookup::Found(pin) = cache.table.pin(key(0)) else {
                            panic!("page 0 is not there")
                        };
                        assert!(is_dirty || look(&pin, 0) == copy || cache.table.word(FrameNo(0)).is_dirty());
                    }
                },
            ],
        );
    });
}

#[test]
fn who_waits_for_the_pin_of_a_write_goes_on_when_waiting_is_called_off() {
    explore(|| {
        let cache = cache(1, 0..1);
        assert!(cache.change(0));
        let mut core = cache.core.lock().unwrap();
        let mut locked = cache.table.locked(&mut core.turn);
        let pin = locked.begin_write_pinned(FrameNo(0), Arc::clone(&cache));
        assert!(pin.is_some());
        drop(core);
        together(
            &cache,
            [
                |cache| assert!(matches!(cache.table.lock(key(0)), Lookup::Busy(_))),
                |cache| cache.table.call_off(),
            ],
        );
        drop(pin);
    });
}

#[test]
fn page_is_never_missed_under_the_lock_nor_mistaken_without_it_while_chains_change() {
    explore(|| {
        let cache = cache(2, 0..2);
        let reader: fn(&Arc<Cache>) = |cache| {
            for page in [0, 1] {
                if !cache.read_if_there(page) {
                    let mut core = cache.core.lock().unwrap();
                    let found = cache.table.locked(&mut core.turn).lookup(key(page));
                    assert!(found.is_some(), "X1: page {page} is missed under the lock");
                }
            }
        };
        together(
            &cache,
            [reader, reader, |cache| {
                for frames in [5, 7] {
                    let mut core = cache.core.lock().unwrap();
                    let Core { turn, free } = &mut *core;
                    let mut locked = cache.table.locked(turn);
                    let now = locked.frames();
                    locked.grow(frames).unwrap();
                    let load = locked.insert(key(9), FrameNo(now));
                    locked.fail_load(load);
                    assert_eq!(locked.shrink(0), 2, "frames 0 and 1 are in use");
                    locked.validate();
                    assert!(free.is_empty());
                }
            }],
        );
    });
}

/// Pins page 0 some times on a thread of its own.
fn pins_of_a_thread(cache: &Arc<Cache>, count: usize) -> thread::JoinHandle<Vec<SharedPin<Arc<Cache>>>> {
    let cache = Arc::clone(cache);
    thread::spawn(move || {
        let pin = |_| loop {
            match cache.table.pin(key(0)) {
                Lookup::Found(pin) => break pin.hold_by(Arc::clone(&cache)),
                // Somebody tries to evict it.
                _ => thread::yield_now(),
            }
        };
        (0..count).map(pin).collect()
    })
}

#[test]
fn pins_outlive_their_thread_and_the_next_owner_of_its_record() {
    explore(|| {
        let cache = cache(1, 0..1);
        let one = pins_of_a_thread(&cache, 2).join().unwrap();
        assert_eq!(cache.table.word(FrameNo(0)).pins(), 0, "both are hazards");
        let two = pins_of_a_thread(&cache, 3);
        assert_eq!(cache.evict(0..1), 0);
        drop(two.join().unwrap());
        assert_eq!(cache.evict(0..1), 0, "the first thread's pins are there");
        look(&one[0], 0);
        drop(one);
        assert_eq!(cache.evict(0..1), 1);
    });
}

#[test]
fn writer_waits_for_pins_of_both_kinds_on_any_thread() {
    explore(|| {
        let cache = cache(1, 0..1);
        // More than a record has slots.
        let threads = [pins_of_a_thread(&cache, 10), pins_of_a_thread(&cache, 1)];
        let pins = threads.map(|thread| thread.join().unwrap());
        let writer = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || cache.change(0))
        };
        for pin in pins.into_iter().flatten() {
            assert_eq!(look(&pin, 0), 0);
        }
        assert!(writer.join().unwrap(), "the first change of a clean page");
    });
}
