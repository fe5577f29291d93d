//! How long objects in a store have been dead, as known when it is opened.
//!
//! If the grace started over with each writer, a writer that lives shorter than a grace would delete nothing. So it is
//! measured by the store's own clock, which stamps each object; the stamp of the commit just made gives the current
//! time. An object is dead since the commit that stopped using it was put, if that commit is after the newest
//! checkpoint. For objects already dead at that checkpoint the time is unknown; but what a checkpoint older than a
//! grace did not use, of epochs before it, can be deleted.
//! ```text
//!   checkpoint, a grace old ─ … ─ checkpoint ── commit, empties c/3 ── commit ── the fence
//!          │                                            └── c/3: dead for so long ──┘
//!          └── what is not live in it, of epochs before: dead for a grace
//! ```
//!
//! A store's clock that jumps ahead makes objects look older than they are. An object deleted too early affects a
//! reader without a pin, or whose pin is not renewed, which then starts over; and a writer that slept while two others
//! had the store.

use super::Writer;
use crate::format::{Key, ObjectId};
use crate::layout::loaded::{Loaded, Replayed};
use crate::layout::state::State;
use crate::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Lists have whole seconds.
const STAMP: Duration = Duration::from_secs(1);

/// A checkpoint that is older than a grace.
#[derive(Debug)]
struct Evidence {
    number: u64,
    epoch: u32,
    live: BTreeSet<ObjectId>,
}

/// What a load has said of when.
#[derive(Default, Debug)]
pub(super) struct Ages {
    replayed: Vec<Replayed>,
    /// When commits were put, by the store's clock.
    put: BTreeMap<u64, u64>,
    /// From which commit on an object has no live page.
    emptied: BTreeMap<ObjectId, u64>,
    /// The last commit that gives a snapshot up.
    dropped: u64,
    /// The epoch of the writer before, if that has not closed: what it has put and not committed can be had for a grace.
    held: Option<u32>,
    /// The fence: when it was confirmed here, and when it was put by the store's clock.
    fence: Option<(Duration, u64)>,
    evidence: Option<Evidence>,
}

impl Ages {
    pub(super) fn new(loaded: &Loaded) -> Ages {
        let mut emptied = BTreeMap::new();
        for commit in &loaded.replayed {
            emptied.extend(commit.emptied.iter().map(|object| (*object, commit.number)));
        }
        let drops = loaded.replayed.iter().filter(|commit| commit.drops_snapshot);
        Ages {
            put: loaded
                .commits
                .iter()
                .map(|(number, listed)| (*number, listed.put_unix_ms))
                .collect(),
            emptied,
            dropped: drops.map(|commit| commit.number).max().unwrap_or(0),
            held: loaded
                .last_writer
                .as_ref()
                .filter(|last| !last.closed)
                .map(|last| last.epoch),
            replayed: loaded.replayed.clone(),
            ..Ages::default()
        }
    }

    /// The fence was confirmed at `at`, and has this stamp.
    pub(super) fn is_fenced(&mut self, at: Duration, put_unix_ms: u64) {
        self.fence = (put_unix_ms > 0).then_some((at, put_unix_ms));
    }

    /// How long ago an object was put, at least.
    pub(super) fn of_stamp(&self, now: Duration, put_unix_ms: u64) -> Duration {
        let Some((at, fence)) = self.fence.filter(|_| put_unix_ms > 0) else {
            return Duration::ZERO;
        };
        let is = Duration::from_millis(fence) + now.saturating_sub(at);
        is.saturating_sub(Duration::from_millis(put_unix_ms) + STAMP)
    }

    /// A checkpoint that is older than a grace had this. What it has of snapshots that are given up may be dead for less.
    pub(super) fn has_evidence(&mut self, number: u64, epoch: u32, was: &State, is: &State) {
        let kept: BTreeSet<u64> = is.snapshots.values().map(|snapshot| snapshot.number).collect();
        if was
            .snapshots
            .values()
            .all(|snapshot| kept.contains(&snapshot.number))
        {
            let live = was.live.keys().copied().collect();
            self.evidence = Some(Evidence { number, epoch, live });
        }
    }

    fn first(&self, is: impl Fn(&Replayed) -> bool) -> Option<&Replayed> {
        self.replayed.iter().find(|commit| is(commit))
    }

    /// The first commit of an epoch behind this one.
    fn over(&self, epoch: u32) -> Option<&Replayed> {
        self.first(|commit| commit.epoch > epoch)
    }

    /// The commit from which on something has not been needed, at the latest; of what was dead when the fence was made.
    fn commit_of(&self, key: Key) -> Option<&Replayed> {
        let commit = match key {
            Key::Chunk { epoch, number } => match self.emptied.get(&ObjectId::chunk(epoch, number)) {
                Some(emptied) => self.first(|commit| commit.number == *emptied),
                None if self.held == Some(epoch) => None,
                // It was dead at the checkpoint, or is of no commit.
                None => self.over(epoch).or(self.replayed.first()),
            },
            Key::Commit(number) => {
                let named = self.first(|commit| commit.checkpoint.0 >= number)?;
                match self.emptied.get(&ObjectId::commit(number)) {
                    Some(emptied) if *emptied > named.number => {
                        self.first(|commit| commit.number == *emptied)
                    }
                    _ => Some(named),
                }
            }
            Key::Checkpoint { number, epoch } => match self.first(|commit| commit.checkpoint.0 > number) {
                None if self.held == Some(epoch) => None,
                None => self.over(epoch),
                named => named,
            },
            Key::Pin(_) => None,
        }?;
        // What a snapshot had is dead since that was given up.
        let dropped = self.first(|other| other.number == self.dropped && other.number > commit.number);
        Some(dropped.unwrap_or(commit))
    }

    /// Whether it has been dead for a grace.
    fn is_proven(&self, key: Key) -> bool {
        let Some(Evidence { number, epoch, live }) = &self.evidence else {
            return false;
        };
        let was_live = |object: ObjectId| live.contains(&object) || self.emptied.contains_key(&object);
        match key {
            Key::Chunk { epoch: of, number } => of < *epoch && !was_live(ObjectId::chunk(of, number)),
            Key::Commit(of) => of <= *number && !was_live(ObjectId::commit(of)),
            Key::Checkpoint { number: of, .. } => of < *number,
            Key::Pin(_) => false,
        }
    }
}

impl Writer {
    /// From which commit on something that is dead since the fence or before is not needed, and when it may be deleted.
    pub(super) fn due_of(&self, now: Duration, key: Key, put_unix_ms: u64) -> (u64, Duration) {
        let ages = &self.garbage.ages;
        let fence = ages.fence.map_or(now, |(at, _)| at);
        let due = |age: Duration| (fence + self.grace).saturating_sub(age);
        if mutation::is(Mutation::GraceAnew) {
            return (self.number, now + self.grace);
        }
        if let Some(evidence) = ages.evidence.as_ref().filter(|_| ages.is_proven(key)) {
            return (evidence.number + 1, due(self.grace));
        }
        match ages.commit_of(key) {
            Some(commit) => {
                let stamp = ages.put.get(&commit.number).copied().unwrap_or(0);
                let own = match put_unix_ms {
                    0 => Duration::MAX,
                    put => ages.of_stamp(fence, put),
                };
                (commit.number, due(ages.of_stamp(fence, stamp).min(own)))
            }
            None => (self.number, now + self.grace),
        }
    }

    /// The newest checkpoint that is older than a grace, if it is not the one that the store was loaded from.
    pub(super) fn evidence(&self, now: Duration) -> Option<(u64, u32)> {
        let old = self.garbage.checkpoints_put.iter().filter(|(checkpoint, put)| {
            let is_old = self.garbage.ages.of_stamp(now, **put) >= self.grace;
            is_old && checkpoint.1 < self.epoch
        });
        old.map(|(checkpoint, _)| *checkpoint).max()
    }
}
