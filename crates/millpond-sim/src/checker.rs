//! What must be true of any page cache, checked against every step.
//!
//! * **No lost write.** Every write gives a page a new version. A page that leaves memory must have its newest
//!   version on the device; a page that is read must bring it back; no old content replaces a newer one; a page that
//!   counts as clean is equal to the device's copy.
//! * **No false promise.** When the core says that a file was written, the versions that were there when the sync
//!   began are on the device; when the sync ends well, the device has said that they are durable. What it said may have
//!   been a lie; but when all was synced after it has stopped to lie, all is durable.
//! * **Budget.** No more frames are in use than the pool has, none that was withdrawn, and while the pool is larger
//!   than it shall be, none is given out.
//! * **Reserve.** A step that gives out frames leaves the reserve alone.
//! * **Transitions and counters.** The core's phase of each page that a step touched is what the world knows of the
//!   page; [`Manager::validate`] and the assertions of the core.
//! * **Progress.** No process waits for longer than [`PATIENCE`] of virtual time (checked by the world).

use super::frames::{SimFrame, SimFrames};
use millpond_core::admission::Form;
use millpond_core::event::{Effect, Effects};
use millpond_core::manager::Manager;
use millpond_core::page::Phase;
use millpond_core::units::{FileId, FrameNo, Instant, Nanos, PageCount, PageIndex, PageKey};
use millpond_core::writeback::SyncTicket;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The longest that an operation may take on a healthy device: far beyond any of the models.
pub const PATIENCE: Nanos = Nanos::from_secs(120);

/// The truth about every page, kept beside the cache.
#[derive(Debug)]
pub struct Checker {
    /// The newest version of each page that was ever written.
    newest: BTreeMap<PageKey, u64>,
    versions: u64,
    /// The version that the device gives when it is asked.
    stored: HashMap<PageKey, u64>,
    /// The version that the device says is durable, the one that is, and what it has taken and not yet made durable.
    durable: HashMap<PageKey, u64>,
    kept: HashMap<PageKey, u64>,
    volatile: BTreeMap<PageKey, u64>,
    /// What each sync that is under way has promised.
    promised: HashMap<SyncTicket, Vec<(PageKey, u64)>>,
    /// Frames of the pool, and those that left it.
    pool: PageCount,
    limit: PageCount,
    withdrawn: BTreeSet<FrameNo>,
    unclean_max: PageCount,
    validate_every: u64,
    steps: u64,
}

/// How a flush of the device's cache has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flushed {
    /// What it was about is durable.
    Kept,
    /// The device says so, and has done nothing.
    Lied,
    /// What it was about may be lost.
    Failed,
}

fn raise(versions: &mut HashMap<PageKey, u64>, key: PageKey, version: u64) {
    let old = versions.entry(key).or_insert(0);
    *old = version.max(*old);
}

fn pages_of(file: FileId) -> std::ops::RangeInclusive<PageKey> {
    PageKey::new(file, PageIndex(0))..=PageKey::new(file, PageIndex(PageKey::PAGES_MAX - 1))
}

impl Checker {
    /// A checker of a pool of `frames` frames that knows of no write. All structures are checked every
    /// `validate_every` steps; 0: never.
    pub fn new(frames: PageCount, validate_every: u64) -> Checker {
        Checker {
            newest: BTreeMap::new(),
            versions: 0,
            stored: HashMap::new(),
            durable: HashMap::new(),
            kept: HashMap::new(),
            volatile: BTreeMap::new(),
            promised: HashMap::new(),
            pool: frames,
            limit: frames,
            withdrawn: BTreeSet::new(),
            unclean_max: PageCount(0),
            validate_every,
            steps: 0,
        }
    }

    /// A write to the page: its new version.
    pub fn written(&mut self, key: PageKey) -> u64 {
        self.versions += 1;
        self.newest.insert(key, self.versions);
        self.versions
    }

    /// A page came from the device: the version that it brings.
    ///
    /// # Panics
    /// If the device does not have the newest: a write was lost.
    pub fn loaded(&self, key: PageKey) -> u64 {
        let stored = self.stored(key);
        let newest = self.newest.get(&key).copied().unwrap_or(0);
        assert_eq!(
            stored, newest,
            "lost write: {key:?} was read back with an old version"
        );
        stored
    }

    fn stored(&self, key: PageKey) -> u64 {
        self.stored.get(&key).copied().unwrap_or(0)
    }

    /// A page was written to the device.
    ///
    /// # Panics
    /// If the device had a newer version: an old write came late.
    pub fn store(&mut self, key: PageKey, version: u64) {
        let before = self.stored.insert(key, version).unwrap_or(0);
        assert!(
            before <= version,
            "lost write: {key:?} had version {before} on the device, and {version} came after it"
        );
        self.volatile.insert(key, version);
    }

    /// The page is no more.
    pub fn dropped(&mut self, key: PageKey) {
        self.newest.remove(&key);
        self.stored.remove(&key);
        self.durable.remove(&key);
        self.kept.remove(&key);
        self.volatile.remove(&key);
        for promise in self.promised.values_mut() {
            promise.retain(|&(page, _)| page != key);
        }
    }

    /// A process asks for the file to be durable.
    pub fn sync_began(&mut self, ticket: SyncTicket, file: FileId) {
        let promise = self.newest.range(pages_of(file)).map(|(&k, &v)| (k, v));
        self.promised.insert(ticket, promise.collect());
    }

    /// The core says that everything was written, or that it was not.
    ///
    /// # Panics
    /// If it says so while the device lacks something.
    pub fn sync_written(&self, ticket: SyncTicket, is_ok: bool) {
        for &(key, version) in self.promised.get(&ticket).into_iter().flatten() {
            assert!(
                !is_ok || self.stored(key) >= version,
                "{ticket:?} was written, but {key:?} {version} is not on the device"
            );
        }
    }

    /// A process is told that the file is durable, or that it is not.
    ///
    /// # Panics
    /// If he is told so and it is not.
    pub fn sync_ended(&mut self, ticket: SyncTicket, is_ok: bool) {
        for (key, version) in self.promised.remove(&ticket).unwrap_or_default() {
            let durable = self.durable.get(&key).copied().unwrap_or(0);
            assert!(
                !is_ok || durable >= version,
                "{ticket:?} ended well, but {key:?} {version} is not durable"
            );
        }
    }

    /// A flush of the device's cache begins: what it is about.
    pub fn flush_began(&self, file: FileId) -> Vec<(PageKey, u64)> {
        let volatile = self.volatile.range(pages_of(file));
        volatile.map(|(&k, &v)| (k, v)).collect()
    }

    /// And has ended. What a failed one was about is lost for those that run beside it as well.
    pub fn flush_ended(&mut self, taken: &[(PageKey, u64)], flushed: Flushed) {
        for &(key, version) in taken {
            let Some(&now) = self.volatile.get(&key) else {
                continue;
            };
            if now == version && flushed != Flushed::Lied {
                self.volatile.remove(&key);
            }
            if flushed != Flushed::Failed {
                raise(&mut self.durable, key, version);
            }
            if flushed == Flushed::Kept {
                raise(&mut self.kept, key, version);
            }
        }
    }

    /// The file was closed: what could not be written was given up and reported; what the device was unsure of is what
    /// it is. Returns how many pages were given up.
    pub fn closed(&mut self, file: FileId) -> u64 {
        let pages: Vec<_> = self.newest.range(pages_of(file)).map(|(&k, &v)| (k, v)).collect();
        let mut given_up = 0;
        for (key, newest) in pages {
            let stored = self.stored(key);
            given_up += u64::from(stored != newest);
            self.newest.insert(key, stored);
            self.durable.insert(key, stored);
            // What the device has not made durable yet it may still, unless it has lost it.
            if !self.volatile.contains_key(&key) {
                self.kept.insert(key, stored);
            }
        }
        given_up
    }

    /// The pool shall have so many frames from now on.
    pub fn memory_changed(&mut self, frames: PageCount) {
        if frames > self.pool {
            // Withdrawn frames come back first; which, is the core's choice.
            self.withdrawn.clear();
            self.pool = frames;
        }
        self.limit = frames;
    }

    /// How many frames are in the pool.
    pub fn pool(&self) -> PageCount {
        self.pool
    }

    /// The most pages that were dirty or being written at a time.
    pub fn unclean_max(&self) -> PageCount {
        self.unclean_max
    }

    /// After every step. `named`: frames that the event was about.
    ///
    /// # Panics
    /// If something is not as it must be; the message says what.
    pub fn after_step<A: Form>(
        &mut self,
        now: Instant,
        effects: &Effects,
        named: &[FrameNo],
        manager: &Manager<A>,
        frames: &mut SimFrames,
    ) {
        for (key, version) in frames.evicted.drain(..) {
            assert_eq!(
                self.stored(key),
                version,
                "lost write: {key:?} left memory and is not on the device"
            );
        }
        let mut granted = 0;
        for effect in &effects.list {
            match effect {
                Effect::Read { frames, .. } | Effect::Grant { frames, .. } => {
                    for frame in effects.frames(frames) {
                        assert!(
                            !self.withdrawn.contains(frame),
                            "{frame:?} was withdrawn and given out"
                        );
                    }
                    granted += frames.len();
                }
                Effect::Withdraw { frame } => {
                    assert!(self.withdrawn.insert(*frame), "{frame:?} was withdrawn twice");
                    self.pool -= PageCount(1);
                }
                _ => {}
            }
        }
        let occupancy = manager.occupancy(now);
        assert_eq!(
            occupancy.free.0 + frames.resident(),
            self.pool.0,
            "budget: free frames and pages in memory are not the pool: {occupancy:?}"
        );
        assert!(
            self.pool <= self.limit || (occupancy.free == PageCount(0) && granted == 0),
            "budget: {:?} of a pool that shall have {:?}, and {granted} were given out: {occupancy:?}",
            self.pool,
            self.limit
        );
        assert!(
            granted == 0 || occupancy.free >= manager.derived().reserve,
            "reserve: {granted} frames were given out: {occupancy:?}"
        );
        self.unclean_max = self.unclean_max.max(occupancy.dirty + occupancy.writing);
        assert_eq!(manager.stats().nr_vmscan_write, 0, "reclaim wrote file pages");
        for &frame in effects.frames.iter().chain(named) {
            check_phase(frames, manager, frame);
        }
        self.steps += 1;
        if self.validate_every > 0 && self.steps.is_multiple_of(self.validate_every) {
            self.validate(manager, frames);
        }
    }

    /// Checks everything, at some cost.
    ///
    /// # Panics
    /// If something is not as it must be; the message says what.
    pub fn validate<A: Form>(&self, manager: &Manager<A>, frames: &SimFrames) {
        manager.validate(frames);
        for (frame, state) in frames.all() {
            check_phase(frames, manager, frame);
            if manager.phase(frame) == Phase::Clean && !state.exclusive {
                assert_eq!(
                    self.stored(state.key),
                    state.version,
                    "lost write: {:?} is clean and not as on the device",
                    state.key
                );
            }
        }
    }

    /// When all is at rest: everything that was ever written is on the device.
    ///
    /// # Panics
    /// If it is not.
    pub fn all_stored(&self) {
        for (&key, &newest) in &self.newest {
            assert_eq!(self.stored(key), newest, "{key:?} never reached the device");
        }
    }

    /// After all was synced: everything that was ever written is durable.
    ///
    /// # Panics
    /// If it is not.
    pub fn all_durable(&self) {
        for (key, &newest) in &self.newest {
            let kept = self.kept.get(key).copied().unwrap_or(0);
            assert_eq!(kept, newest, "{key:?} was synced and is not durable");
        }
    }
}

/// The core's word for what the world knows of a page.
fn check_phase<A: Form>(frames: &SimFrames, manager: &Manager<A>, frame: FrameNo) {
    let state = frames.state(frame);
    let expected = match state {
        SimFrame {
            key: PageKey::NONE, ..
        } => Phase::Free,
        SimFrame { loading: true, .. } => Phase::Loading,
        SimFrame {
            writing: true, dirty, ..
        } if *dirty => Phase::Redirtied,
        SimFrame { writing: true, .. } => Phase::Writing,
        SimFrame { dirty: true, .. } => Phase::Dirty,
        _ => Phase::Clean,
    };
    assert_eq!(manager.phase(frame), expected, "{frame:?} holds {state:?}");
}
