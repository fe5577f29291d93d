//! The invariants of any page cache, checked after every step.
//!
//! * **No lost write.** Every write gives a page a new version. A page that leaves memory must have its newest version
//!   on the device, and a page that is read must bring it back. No old content replaces newer content. A clean page is
//!   identical to the device's copy.
//! * **No false promise.** When the core reports that a file was written, the versions from the start of the sync are
//!   on the device. When the sync succeeds, the device has reported them durable. That report may be a lie, but once
//!   everything was synced after the device stopped lying, everything is durable.
//! * **Budget.** No more frames are in use than the pool has, and no withdrawn frame is. While the pool is above its
//!   target size, no frame is given out.
//! * **Reserve.** A step that gives out frames leaves the reserve alone.
//! * **Transitions and counters.** The core's phase of each page that a step touched matches the world's view.
//!   [`Manager::validate`] and the assertions of the core hold.
//! * **Progress.** No process waits longer than [`PATIENCE`] of virtual time (checked by the world).

use super::frames::{SimFrame, SimFrames};
use millpond_core::admission::Form;
use millpond_core::event::{Effect, Effects};
use millpond_core::manager::Manager;
use millpond_core::page::Phase;
use millpond_core::units::{FileId, FrameNo, Instant, Nanos, PageCount, PageIndex, PageKey};
use millpond_core::writeback::SyncTicket;
use std::collections::{BTreeMap, BTreeSet};

/// The longest that an operation may take on a healthy device: far beyond any of the models.
pub const PATIENCE: Nanos = Nanos::from_secs(120);

/// The truth about every page, kept beside the cache.
#[derive(Debug)]
pub struct Checker {
    /// By file and by page, up to the last that was ever written.
    pages: Vec<Vec<Versions>>,
    versions: u64,
    /// The promises of each sync under way.
    promised: BTreeMap<SyncTicket, Vec<(PageKey, u64)>>,
    /// Frames of the pool, and those that left it.
    pool: PageCount,
    limit: PageCount,
    withdrawn: BTreeSet<FrameNo>,
    unclean_max: PageCount,
    validate_every: u64,
    steps: u64,
}

/// Versions of one page's content; 0: it was never written.
#[derive(Clone, Copy, Default, Debug)]
struct Versions {
    /// The newest that was ever written.
    newest: u64,
    /// The one that the device gives when it is asked.
    stored: u64,
    /// The one that the device reports as durable; `kept` is the one that is.
    durable: u64,
    kept: u64,
    /// What the device has acknowledged and not yet made durable, if anything.
    volatile: u64,
}

const UNWRITTEN: Versions = Versions {
    newest: 0,
    stored: 0,
    durable: 0,
    kept: 0,
    volatile: 0,
};

/// The result of a flush of the device's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flushed {
    /// Its writes are durable.
    Kept,
    /// The device says so, and has done nothing.
    Lied,
    /// Its writes may be lost.
    Failed,
}

impl Checker {
    /// A checker of a pool of `frames` frames that knows of no write. All structures are checked every
    /// `validate_every` steps; 0: never.
    pub fn new(frames: PageCount, validate_every: u64) -> Checker {
        Checker {
            pages: Vec::new(),
            versions: 0,
            promised: BTreeMap::new(),
            pool: frames,
            limit: frames,
            withdrawn: BTreeSet::new(),
            unclean_max: PageCount(0),
            validate_every,
            steps: 0,
        }
    }

    fn page(&self, key: PageKey) -> &Versions {
        let pages = self.pages.get(key.file().0 as usize);
        let page = pages.and_then(|pages| pages.get(key.index().0 as usize));
        page.unwrap_or(&UNWRITTEN)
    }

    fn page_mut(&mut self, key: PageKey) -> &mut Versions {
        let (file, page) = (key.file().0 as usize, key.index().0 as usize);
        if file >= self.pages.len() {
            self.pages.resize_with(file + 1, Vec::new);
        }
        let pages = &mut self.pages[file];
        if page >= pages.len() {
            pages.resize(page + 1, UNWRITTEN);
        }
        &mut pages[page]
    }

    /// What `version` says of the pages of `file`, of those of which it says anything.
    fn of_file(&self, file: FileId, version: impl Fn(&Versions) -> u64) -> Vec<(PageKey, u64)> {
        let pages = self.pages.get(file.0 as usize).map_or(&[][..], Vec::as_slice);
        let versions = (0..).map(PageIndex).zip(pages.iter().map(version));
        let there = versions.filter(|&(_, version)| version > 0);
        there
            .map(|(page, version)| (PageKey::new(file, page), version))
            .collect()
    }

    /// All pages.
    fn all(&self) -> impl Iterator<Item = (PageKey, &Versions)> {
        let files = (0..).map(FileId).zip(&self.pages);
        files.flat_map(|(file, pages)| {
            let pages = (0..).map(PageIndex).zip(pages);
            pages.map(move |(page, versions)| (PageKey::new(file, page), versions))
        })
    }

    /// A write to the page: its new version.
    pub fn written(&mut self, key: PageKey) -> u64 {
        self.versions += 1;
        self.page_mut(key).newest = self.versions;
        self.versions
    }

    /// A page came from the device: the version that it brings.
    ///
    /// # Panics
    /// If the device does not have the newest: a write was lost.
    pub fn loaded(&self, key: PageKey) -> u64 {
        let &Versions { stored, newest, .. } = self.page(key);
        assert_eq!(
            stored, newest,
            "lost write: {key:?} was read back with an old version"
        );
        stored
    }

    fn stored(&self, key: PageKey) -> u64 {
        self.page(key).stored
    }

    /// A page was written to the device.
    ///
    /// # Panics
    /// If the device had a newer version: an old write came late.
    pub fn store(&mut self, key: PageKey, version: u64) {
        assert!(version > 0, "{key:?} was written to the device and never changed");
        let page = self.page_mut(key);
        let before = std::mem::replace(&mut page.stored, version);
        page.volatile = version;
        assert!(
            before <= version,
            "lost write: {key:?} had version {before} on the device, and {version} came after it"
        );
    }

    /// The pages of `file` from `first` on are gone.
    pub fn truncated(&mut self, file: FileId, first: PageIndex) {
        if let Some(pages) = self.pages.get_mut(file.0 as usize) {
            pages.truncate(first.0 as usize);
        }
        for promise in self.promised.values_mut() {
            promise.retain(|&(page, _)| page.file() != file || page.index() < first);
        }
    }

    /// A process asks for the file to be durable.
    pub fn sync_began(&mut self, ticket: SyncTicket, file: FileId) {
        let promise = self.of_file(file, |page| page.newest);
        self.promised.insert(ticket, promise);
    }

    /// The core says that everything was written, or that it was not.
    ///
    /// # Panics
    /// If `is_ok` and the device lacks a promised page.
    pub fn sync_written(&self, ticket: SyncTicket, is_ok: bool) {
        for &(key, version) in self.promised.get(&ticket).into_iter().flatten() {
            assert!(
                !is_ok || self.stored(key) >= version,
                "{ticket:?} was written, but {key:?} {version} is not on the device"
            );
        }
    }

    /// A process gets the answer that the file is durable, or that it is not.
    ///
    /// # Panics
    /// If the answer is that it is, and it is not.
    pub fn sync_ended(&mut self, ticket: SyncTicket, is_ok: bool) {
        for (key, version) in self.promised.remove(&ticket).unwrap_or_default() {
            let durable = self.page(key).durable;
            assert!(
                !is_ok || durable >= version,
                "{ticket:?} ended well, but {key:?} {version} is not durable"
            );
        }
    }

    /// A flush of the device's cache begins: what it is about.
    pub fn flush_began(&self, file: FileId) -> Vec<(PageKey, u64)> {
        self.of_file(file, |page| page.volatile)
    }

    /// And has ended. What a failed one was about is lost for those that run beside it as well.
    pub fn flush_ended(&mut self, taken: &[(PageKey, u64)], flushed: Flushed) {
        for &(key, version) in taken {
            if self.page(key).volatile == 0 {
                continue;
            }
            let page = self.page_mut(key);
            if page.volatile == version && flushed != Flushed::Lied {
                page.volatile = 0;
            }
            if flushed != Flushed::Failed {
                page.durable = page.durable.max(version);
            }
            if flushed == Flushed::Kept {
                page.kept = page.kept.max(version);
            }
        }
    }

    /// The file was closed: what could not be written was given up and reported; what the device was unsure of is what
    /// it is. Returns how many pages were given up.
    pub fn closed(&mut self, file: FileId) -> u64 {
        let mut given_up = 0;
        for page in self.pages.get_mut(file.0 as usize).into_iter().flatten() {
            if page.newest == 0 {
                continue;
            }
            given_up += u64::from(page.stored != page.newest);
            page.newest = page.stored;
            page.durable = page.stored;
            // What the device has not made durable yet it may still, unless it has lost it.
            if page.volatile == 0 {
                page.kept = page.stored;
            }
        }
        given_up
    }

    /// Sets the number of the pool's frames.
    pub fn memory_changed(&mut self, frames: PageCount) {
        if frames > self.pool {
            // Withdrawn frames come back first; which, is the core's choice.
            self.withdrawn.clear();
            self.pool = frames;
        }
        self.limit = frames;
    }

    /// The number of frames in the pool.
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
        // In words only where something is wrong: it asks each device.
        let occupancy = || manager.occupancy(now);
        let free = manager.free();
        assert_eq!(
            free.0 + frames.resident(),
            self.pool.0,
            "budget: free frames and pages in memory are not the pool: {:?}",
            occupancy()
        );
        assert!(
            self.pool <= self.limit || (free == PageCount(0) && granted == 0),
            "budget: {:?} of a pool that shall have {:?}, and {granted} were given out: {:?}",
            self.pool,
            self.limit,
            occupancy()
        );
        assert!(
            granted == 0 || free >= manager.derived().reserve,
            "reserve: {granted} frames were given out: {:?}",
            occupancy()
        );
        self.unclean_max = self.unclean_max.max(manager.dirty() + manager.writing());
        assert_eq!(manager.stats().nr_vmscan_write, 0, "reclaim wrote file pages");
        for &frame in effects.frames.iter().chain(named) {
            check_phase(frames.state(frame), manager, frame);
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
            if check_phase(state, manager, frame) == Phase::Clean && !state.exclusive {
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
        for (key, page) in self.all() {
            assert_eq!(page.stored, page.newest, "{key:?} never reached the device");
        }
    }

    /// After all was synced: everything that was ever written is durable.
    ///
    /// # Panics
    /// If it is not.
    pub fn all_durable(&self) {
        for (key, page) in self.all() {
            assert_eq!(page.kept, page.newest, "{key:?} was synced and is not durable");
        }
    }
}

/// The core's word for what the world knows of a page.
fn check_phase<A: Form>(state: &SimFrame, manager: &Manager<A>, frame: FrameNo) -> Phase {
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
    let phase = manager.phase(frame);
    assert_eq!(phase, expected, "{frame:?} holds {state:?}");
    phase
}
