//! What must be true of any page cache, checked against every step.
//!
//! * **No lost write.** Every write gives a page a new version. A page that leaves memory must have its newest
//!   version on the device; a page that is read must bring it back; when a sync ends well, the versions that
//!   were there when it began are on the device.
//! * **Budget.** No more pages in memory than frames.
//! * **Reserve.** An ordinary allocation leaves the reserve alone.
//! * **Transitions and counters.** [`Manager::validate`] and the assertions of the core.
//! * **Progress.** No process waits for longer than [`PATIENCE`] of virtual time (checked by the world).

use super::frames::SimFrames;
use millpond_core::event::SyncTicket;
use millpond_core::manager::Manager;
use millpond_core::units::{FileId, Instant, Nanos, PageIndex, PageKey};
use std::collections::{BTreeMap, HashMap};

/// The longest that a process may wait for one thing: far beyond any device of the models.
pub const PATIENCE: Nanos = Nanos::from_secs(120);

/// The truth about every page, kept beside the cache.
#[derive(Debug, Default)]
pub struct Checker {
    /// The newest version of each page that was ever written.
    newest: BTreeMap<PageKey, u64>,
    /// The version on the device.
    durable: HashMap<PageKey, u64>,
    /// What each sync that is under way has promised.
    promised: HashMap<SyncTicket, Vec<(PageKey, u64)>>,
    validate_every: u64,
    steps: u64,
}

impl Checker {
    /// A checker that knows of no write. All structures are checked every `validate_every` steps; 0: never.
    pub fn new(validate_every: u64) -> Checker {
        Checker {
            validate_every,
            ..Checker::default()
        }
    }

    /// A write to the page: its new version.
    pub fn written(&mut self, key: PageKey) -> u64 {
        let newest = self.newest.entry(key).or_insert(0);
        *newest += 1;
        *newest
    }

    /// A page came from the device: the version that it brings.
    ///
    /// # Panics
    /// If the device does not have the newest: a write was lost.
    pub fn loaded(&self, key: PageKey) -> u64 {
        let durable = self.durable.get(&key).copied().unwrap_or(0);
        let newest = self.newest.get(&key).copied().unwrap_or(0);
        assert_eq!(
            durable, newest,
            "lost write: {key:?} was read back with an old version"
        );
        durable
    }

    /// A page was written to the device.
    pub fn stored(&mut self, key: PageKey, version: u64) {
        self.durable.insert(key, version);
    }

    /// The page is no more.
    pub fn dropped(&mut self, key: PageKey) {
        self.newest.remove(&key);
        self.durable.remove(&key);
        for promise in self.promised.values_mut() {
            promise.retain(|&(page, _)| page != key);
        }
    }

    /// Somebody asks for the file to be durable.
    pub fn sync_began(&mut self, ticket: SyncTicket, file: FileId) {
        let pages = PageKey::new(file, PageIndex(0))..=PageKey::new(file, PageIndex(PageKey::PAGES_MAX - 1));
        let promise = self
            .newest
            .range(pages)
            .map(|(&key, &version)| (key, version))
            .collect();
        self.promised.insert(ticket, promise);
    }

    /// And is told that it is, or that it is not.
    ///
    /// # Panics
    /// If it is told so while the device lacks something.
    pub fn sync_ended(&mut self, ticket: SyncTicket, is_ok: bool) {
        let promise = self.promised.remove(&ticket).unwrap_or_default();
        for (key, version) in promise {
            let durable = self.durable.get(&key).copied().unwrap_or(0);
            assert!(
                !is_ok || durable >= version,
                "{ticket:?} ended well, but {key:?} {version} is not durable"
            );
        }
    }

    /// After every step.
    ///
    /// # Panics
    /// If something is not as it must be; the message says what.
    pub fn after_step(&mut self, now: Instant, manager: &Manager, frames: &mut SimFrames) {
        for (key, version) in frames.evicted.drain(..) {
            let durable = self.durable.get(&key).copied().unwrap_or(0);
            assert_eq!(
                durable, version,
                "lost write: {key:?} left memory and is not on the device"
            );
        }
        let occupancy = manager.occupancy(now);
        let held = occupancy.frames.0.max(frames.resident());
        // While the pool shrinks, frames leave it one by one.
        if occupancy.free.0 > 0 {
            assert!(
                frames.resident() <= held,
                "{} pages in {} frames",
                frames.resident(),
                occupancy.frames.0
            );
        }
        assert!(
            occupancy.free >= manager.derived().reserve || manager.stats().reserve_taken == 0,
            "an ordinary allocation took from the reserve: {occupancy:?}"
        );
        assert_eq!(manager.stats().nr_vmscan_write, 0, "reclaim wrote file pages");
        self.steps += 1;
        if self.validate_every > 0 && self.steps.is_multiple_of(self.validate_every) {
            manager.validate(frames);
        }
    }
}
