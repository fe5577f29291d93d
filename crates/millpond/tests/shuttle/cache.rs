//! A cache as the engine has it, with numbers for memory, and what runs threads of it in all orders.

use crate::sync;
use crate::table::{ExclusivePin, Holder, Load, Lookup, Memory, SharedPin, Table, Vacated, WriteToken};
use crate::world::sync::{Arc, Mutex};
use crate::world::thread;
use millpond_core::frame::FrameTable;
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};
#[cfg(not(miri))]
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

#[cfg(not(miri))]
const SCHEDULES: usize = 2_000;
#[cfg(not(miri))]
const SEED: u64 = 0x6d69_6c6c_706f_6e64;

#[cfg(not(miri))]
pub(crate) fn runner<S: Scheduler + 'static>(scheduler: S) -> shuttle::Runner<S> {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    shuttle::Runner::new(scheduler, config)
}

/// Ten orders for each seed of Miri's, one of which takes longer to start than to run.
#[cfg(miri)]
pub(crate) fn explore(test: fn()) {
    (0..10).for_each(|_| test());
}

#[cfg(not(miri))]
pub(crate) fn explore(test: fn()) {
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
pub(crate) struct Numbers(pub(crate) Vec<Number>);

#[derive(Default)]
pub(crate) struct Number {
    users: AtomicI64,
    pub(crate) content: AtomicU64,
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
    pub(crate) fn with<R>(&self, frame: FrameNo, weight: i64, act: impl FnOnce(&AtomicU64) -> R) -> R {
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
pub(crate) struct Cache {
    pub(crate) table: Table<Numbers>,
    pub(crate) core: Mutex<Core>,
}

pub(crate) struct Core {
    pub(crate) token: WriteToken,
    pub(crate) free: Vec<FrameNo>,
}

impl Holder for Arc<Cache> {
    type Memory = Numbers;

    fn table(&self) -> &Table<Numbers> {
        &self.table
    }
}

pub(crate) fn key(page: u64) -> PageKey {
    PageKey::new(FileId(0), PageIndex(page))
}

/// The content of page `page` after `changes` changes.
pub(crate) fn content(page: u64, changes: u64) -> u64 {
    page << 32 | changes
}

pub(crate) fn cache(frames: u32, pages: Range<u64>) -> Arc<Cache> {
    let (table, mut token) = Table::new(Numbers((0..8).map(|_| Number::default()).collect())).unwrap();
    table.locked(&mut token).grow(frames).unwrap();
    let free = (0..frames).rev().map(FrameNo).collect();
    let cache = Arc::new(Cache {
        table,
        core: Mutex::new(Core { token, free }),
    });
    for page in pages {
        let load = cache.begin(page).expect("a free frame");
        cache.finish(load, page);
    }
    cache
}

impl Cache {
    pub(crate) fn begin(&self, page: u64) -> Option<Load> {
        let mut core = self.core.lock().unwrap();
        let Core { token, free } = &mut *core;
        let mut locked = self.table.locked(token);
        if locked.lookup(key(page)).is_some() {
            return None;
        }
        Some(locked.insert(key(page), free.pop()?))
    }

    pub(crate) fn fill(&self, load: &mut Load, page: u64) {
        let fill = |number: &AtomicU64| number.store(content(page, 0), Relaxed);
        self.table
            .memory()
            .with(self.table.loading_frame(load), ALONE, fill);
    }

    pub(crate) fn finish(&self, mut load: Load, page: u64) {
        self.fill(&mut load, page);
        self.table.finish_load(load);
    }

    /// Evicts what can be evicted of the frames, and frees it. How many.
    pub(crate) fn evict(&self, frames: Range<u32>) -> usize {
        let mut core = self.core.lock().unwrap();
        let Core { token, free } = &mut *core;
        let mut victims = frames.map(FrameNo).collect();
        self.table.locked(token).evict(&mut victims);
        self.table.locked(token).validate();
        free.extend(&victims);
        victims.len()
    }

    pub(crate) fn forget(&self, page: u64, frame: FrameNo) {
        loop {
            let mut core = self.core.lock().unwrap();
            let mut frames = vec![frame];
            self.table.locked(&mut core.token).forget(&mut frames);
            if !frames.is_empty() {
                return;
            }
            drop(core);
            self.table.wait_unused(frame, key(page), None);
        }
    }

    /// Reads a page if it is in memory, and checks that it is that page. Returns whether it was.
    pub(crate) fn read_if_there(&self, page: u64) -> bool {
        match self.table.pin(key(page), None) {
            Lookup::Found(pin) => {
                look(&pin, page);
                true
            }
            Lookup::Busy(frame) => panic!("{frame:?} is busy for one who waits"),
            Lookup::Loading(_) | Lookup::Absent => false,
        }
    }

    /// Changes a page that is there. Whether it was clean.
    pub(crate) fn change(&self, page: u64) -> bool {
        let Lookup::Found(mut pin) = self.table.lock(key(page), None) else {
            panic!("page {page} is not there")
        };
        add_one(&mut pin, page);
        pin.first_dirty()
    }
}

pub(crate) fn look<H: Holder<Memory = Numbers>>(pin: &SharedPin<H>, page: u64) -> u64 {
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

pub(crate) fn add_one<H: Holder<Memory = Numbers>>(pin: &mut ExclusivePin<H>, page: u64) {
    assert_eq!(pin.key(), key(page), "X2");
    let memory = pin.table().memory();
    let before = memory.with(pin.frame(), ALONE, |number| number.fetch_add(1, Relaxed));
    let after = memory.with(pin.frame(), ALONE, |number| number.load(Relaxed));
    assert_eq!(before >> 32, page, "T2: page {page} is another page");
    assert_eq!(before + 1, after, "T2: page {page} changed beside its owner");
}

/// Runs the functions on threads of their own, and waits for them.
pub(crate) fn together<const N: usize>(cache: &Arc<Cache>, acts: [fn(&Arc<Cache>); N]) {
    let spawn = |act: fn(&Arc<Cache>)| {
        let cache = Arc::clone(cache);
        thread::spawn(move || act(&cache))
    };
    acts.map(spawn)
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let mut core = cache.core.lock().unwrap();
    cache.table.locked(&mut core.token).validate();
}
