//! Deletes what nothing needs any more.
//!
//! An object is *dead* as of the commit that no longer needs it. It is deleted when a grace has passed since then, no
//! snapshot has it, and no reader's pin, read after the grace, is for an older commit. The newest commit is never dead.
//!
//! An object that is neither needed nor known to be dead is an orphan, left by a dead writer or a delayed request.
//! Orphans are searched for when a store is opened and from time to time, and are dead from then on.

use super::Writer;
use super::ages::Ages;
use super::sweep::{Sweep, objects};
use crate::format::{Commit, Key, Kind, ObjectId, Pin};
use crate::layout::load::{number, pause};
use crate::layout::requests::{Answer, Request, RequestId};
use crate::layout::state::Snapshot;
use crate::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Objects that one request deletes: what S3 takes.
const DELETED_MAX: usize = 1000;

/// A pin that has not changed for so many graces is given up.
const PIN_GRACES: u32 = 2;

#[derive(Debug)]
pub(super) struct Dead {
    pub(super) key: Key,
    /// Not needed from this commit on.
    pub(super) from: u64,
    /// When a grace has passed since.
    pub(super) due: Duration,
}

#[derive(Debug)]
enum Pass {
    Idle,
    ListingPins {
        request: RequestId,
        /// With when they were put.
        there: BTreeMap<Key, u64>,
        begun: Duration,
    },
    Pins {
        asked: BTreeMap<RequestId, (Key, u64)>,
        oldest: u64,
        /// What they say is as of then or later: a writer may sleep before it has the answers.
        begun: Duration,
    },
    Deleting {
        request: RequestId,
        keys: BTreeSet<Key>,
    },
}

/// What is dead, and how it is got rid of.
#[derive(Debug)]
pub(super) struct Garbage {
    pub(super) dead: Vec<Dead>,
    pass: Pass,
    pub(super) pass_at: Duration,
    /// Passes and sweeps that failed since the last that did not.
    pub(super) failures: u32,
    pub(super) sweep: Sweep,
    pub(super) sweep_at: Duration,
    /// What snapshots have, by their commits, once it is known of all.
    pub(super) snapshots: BTreeMap<u64, BTreeSet<Key>>,
    /// Snapshots that were given up before it was known what they have.
    pub(super) dropped_early: BTreeSet<u64>,
    pub(super) is_known: bool,
    /// Pins by what they said last, and when they are given up if they go on saying it.
    pins: BTreeMap<Key, (u64, Duration)>,
    pub(super) ages: Ages,
    /// The checkpoint that the newest commit names, and all that may be there: commit and epoch.
    pub(super) named: (u64, u32),
    checkpoints: BTreeSet<(u64, u32)>,
    pub(super) checkpoint_bytes: BTreeMap<(u64, u32), u64>,
    /// The commit that opening made, until it is known how old what it has superseded is, and when it was confirmed.
    pub(super) fence: u64,
    pub(super) fenced_at: Duration,
    /// The checkpoint that the store was loaded from.
    pub(super) loaded: (u64, u32),
    /// When checkpoints were put, by the store's clock: while it is looked how old what is dead is.
    pub(super) checkpoints_put: BTreeMap<(u64, u32), u64>,
}

impl Garbage {
    pub(super) fn new(now: Duration) -> Garbage {
        Garbage {
            dead: Vec::new(),
            pass: Pass::Idle,
            pass_at: now,
            failures: 0,
            sweep: Sweep::Idle,
            sweep_at: Duration::MAX,
            snapshots: BTreeMap::new(),
            dropped_early: BTreeSet::new(),
            is_known: false,
            pins: BTreeMap::new(),
            ages: Ages::default(),
            named: (0, 0),
            checkpoints: BTreeSet::new(),
            checkpoint_bytes: BTreeMap::new(),
            fence: 0,
            fenced_at: Duration::ZERO,
            loaded: (0, 0),
            checkpoints_put: BTreeMap::new(),
        }
    }

    /// Opening has made a commit.
    pub(super) fn is_fenced(&mut self, now: Duration, number: u64, loaded: (u64, u32), ages: Ages) {
        (self.fence, self.fenced_at, self.loaded, self.ages) = (number, now, loaded, ages);
    }

    /// Whether nothing is to be deleted at present, or it can't be.
    pub(super) fn is_settled(&self, now: Duration) -> bool {
        let is_idle = matches!(self.sweep, Sweep::Idle) && matches!(self.pass, Pass::Idle);
        let is_due = !self.dead.is_empty() && self.pass_at <= now;
        self.failures > 0 || self.is_known && is_idle && !is_due
    }

    pub(super) fn objects(&self) -> u64 {
        self.dead.len() as u64
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn is_swept(&self) -> bool {
        self.is_known && matches!(self.sweep, Sweep::Idle)
    }

    pub(super) fn next_tick(&self) -> Option<Duration> {
        let pass = matches!(self.pass, Pass::Idle) && self.is_known && !self.dead.is_empty();
        let sweep = matches!(self.sweep, Sweep::Idle).then_some(self.sweep_at);
        [pass.then_some(self.pass_at), sweep].into_iter().flatten().min()
    }

    /// A checkpoint is being made.
    pub(super) fn checkpoint_is_made(&mut self, number: u64, epoch: u32) {
        if number > 0 {
            self.checkpoints.insert((number, epoch));
        }
    }

    pub(super) fn is_held(&self, key: &Key) -> bool {
        self.snapshots.values().any(|keys| keys.contains(key))
    }

    pub(super) fn die(&mut self, key: Key, from: u64, due: Duration) {
        let due = match mutation::is(Mutation::GraceIgnored) {
            true => Duration::ZERO,
            false => due,
        };
        self.dead.push(Dead { key, from, due });
    }
}

impl Writer {
    /// A commit is the newest: what it has superseded is dead.
    pub(super) fn superseded(
        &mut self,
        now: Duration,
        commit: &Commit,
        dead: Vec<ObjectId>,
        dropped: Vec<Snapshot>,
    ) {
        let (from, due) = (commit.number, now + self.grace);
        for Snapshot { number, epoch } in dropped {
            // Those that are given up and in no commit yet are there if another writer takes the store.
            let mut names = self.state.snapshots.values().chain(&self.dropped);
            if names.any(|snapshot| snapshot.number == number) {
                // It has another name.
                continue;
            }
            match self.garbage.snapshots.remove(&number) {
                // A reader of the snapshot has pinned the commit at which it found it, and no earlier one.
                Some(keys) => {
                    let held = self
                        .garbage
                        .dead
                        .iter_mut()
                        .filter(|dead| keys.contains(&dead.key));
                    held.for_each(|dead| (dead.from, dead.due) = (from, due));
                }
                None => {
                    self.garbage.dropped_early.insert(number);
                }
            }
            let key = Key::Checkpoint { number, epoch };
            if !self.garbage.dead.iter().any(|dead| dead.key == key) {
                self.garbage.checkpoint_is_made(number, epoch);
            }
        }
        for object in dead {
            match object.key() {
                // It may be needed for its changes until there is a checkpoint.
                Key::Commit(number) => {
                    self.empty_commits.insert(number);
                }
                key => self.garbage.die(key, from, due),
            }
        }
        if !self.stored.contains_key(&ObjectId::commit(from)) {
            self.empty_commits.insert(from);
        }
        self.garbage.named = commit.checkpoint;
        let newer = self.garbage.checkpoints.split_off(&commit.checkpoint);
        for (number, epoch) in std::mem::replace(&mut self.garbage.checkpoints, newer) {
            // One that a snapshot has is held until that is given up.
            self.garbage.die(Key::Checkpoint { number, epoch }, from, due);
        }
        let kept = self.empty_commits.split_off(&(commit.checkpoint.0 + 1));
        for number in std::mem::replace(&mut self.empty_commits, kept) {
            self.commits.remove(&number);
            self.garbage.die(Key::Commit(number), from, due);
        }
        self.look_for_dead_commits();
        self.garbage.pass_at = self.garbage.pass_at.min(self.pass_due(now));
    }

    /// When the first of what is dead may be deleted.
    pub(super) fn pass_due(&self, now: Duration) -> Duration {
        let first = self.garbage.dead.iter().map(|dead| dead.due).min();
        first.unwrap_or(now + self.grace)
    }

    /// A commit makes a snapshot of what holds now.
    pub(super) fn snapshot_holds(&mut self, number: u64, epoch: u32) {
        let objects = objects(&self.state, number, epoch);
        self.garbage.snapshots.insert(number, objects);
    }

    pub(super) fn garbage_tick(&mut self, now: Duration) {
        if matches!(self.garbage.sweep, Sweep::Idle) && self.garbage.sweep_at <= now {
            self.sweep(now);
        }
        let is_due = self.garbage.pass_at <= now && self.garbage.is_known;
        if is_due && matches!(self.garbage.pass, Pass::Idle) {
            match self.garbage.dead.iter().any(|dead| dead.due <= now) {
                true => {
                    let (kind, after) = (Kind::Pin, None);
                    let request = self.outbox.ask(Request::List { kind, after });
                    self.garbage.pass = Pass::ListingPins {
                        request,
                        there: BTreeMap::new(),
                        begun: now,
                    };
                }
                false => self.garbage.pass_at = self.pass_due(now).max(now + self.grace / 64),
            }
        }
    }

    pub(super) fn garbage_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        if self.garbage.is_of_sweep(id) {
            return self.sweep_answered(now, id, answer);
        }
        self.pass_answered(now, id, answer);
    }

    fn pass_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        match &mut self.garbage.pass {
            Pass::ListingPins {
                request,
                there,
                begun,
            } if *request == id => match answer {
                Answer::Part(listed) => {
                    there.extend(listed.iter().map(|listed| (listed.key, listed.put_unix_ms)))
                }
                Answer::Listed(listed) => {
                    there.extend(listed.iter().map(|listed| (listed.key, listed.put_unix_ms)));
                    let (there, begun) = (std::mem::take(there), *begun);
                    self.garbage.pins.retain(|key, _| there.contains_key(key));
                    let asked = there.into_iter().map(|(key, put_unix_ms)| {
                        let request = Request::Get { key, range: None };
                        (self.outbox.ask(request), (key, put_unix_ms))
                    });
                    let asked = asked.collect();
                    self.garbage.pass = Pass::Pins {
                        asked,
                        oldest: u64::MAX,
                        begun,
                    };
                    self.delete_if_known(now);
                }
                other => self.pass_failed(now, other.why("list of pins")),
            },
            Pass::Pins { asked, oldest, begun } => {
                let Some((key, put_unix_ms)) = asked.remove(&id) else {
                    return;
                };
                match answer {
                    Answer::Bytes(bytes) => {
                        // It has said what it says since it was put, at least if nobody renews it while it is read.
                        let age = self.garbage.ages.of_stamp(*begun, put_unix_ms);
                        let given_up = now + self.grace * PIN_GRACES;
                        // One that can't be read holds everything, as long as it changes.
                        let (number, beat) = match Pin::decode(&bytes) {
                            Ok(pin) => (pin.number, pin.beat),
                            Err(_) => (0, crate::format::checksum(&bytes)),
                        };
                        let first = (beat, given_up.saturating_sub(age));
                        let seen = self.garbage.pins.entry(key).or_insert(first);
                        if seen.0 != beat {
                            *seen = (beat, given_up);
                        }
                        if seen.1 > *begun {
                            *oldest = (*oldest).min(number);
                        } else {
                            self.garbage.die(key, 0, Duration::ZERO);
                        }
                    }
                    Answer::Absent => {}
                    other => return self.pass_failed(now, other.why("pin")),
                }
                self.delete_if_known(now);
            }
            Pass::Deleting { request, keys } if *request == id => {
                if answer != Answer::Deleted {
                    return self.pass_failed(now, answer.why("deletion"));
                }
                let keys = std::mem::take(keys);
                self.garbage.dead.retain(|dead| !keys.contains(&dead.key));
                for key in keys {
                    match key {
                        Key::Chunk { epoch, number } => self.stored.remove(&ObjectId::chunk(epoch, number)),
                        Key::Commit(number) => {
                            self.commit_bytes.remove(&number);
                            self.stored.remove(&ObjectId::commit(number))
                        }
                        Key::Checkpoint { number, epoch } => {
                            self.garbage.checkpoint_bytes.remove(&(number, epoch))
                        }
                        Key::Pin(_) => None,
                    };
                }
                self.garbage.pass = Pass::Idle;
                self.garbage.failures = 0;
                // There may be more that can go now; what is held is looked at later.
                self.garbage.pass_at = self.pass_due(now).max(now + self.grace / 64);
            }
            _ => {}
        }
    }

    fn pass_failed(&mut self, now: Duration, why: String) {
        self.garbage.pass = Pass::Idle;
        self.garbage.pass_at = now + pause(self.garbage.failures);
        self.garbage.failures += 1;
        self.trouble = Some(why);
    }

    fn delete_if_known(&mut self, now: Duration) {
        let Pass::Pins { asked, oldest, begun } = &self.garbage.pass else {
            return;
        };
        if !asked.is_empty() {
            return;
        }
        let oldest = match mutation::is(Mutation::PinsIgnored) {
            true => u64::MAX,
            false => *oldest,
        };
        let (newest, begun) = (self.number, *begun);
        let is_held = |key: &Key| self.garbage.is_held(key) && !mutation::is(Mutation::SnapshotsIgnored);
        let may_go = self.garbage.dead.iter().filter(|dead| {
            let is_over = dead.due <= begun;
            let is_newest = number(dead.key).is_some_and(|number| number >= newest);
            is_over && dead.from <= oldest && !is_newest && !is_held(&dead.key)
        });
        let keys: BTreeSet<Key> = may_go.map(|dead| dead.key).take(DELETED_MAX).collect();
        if keys.is_empty() {
            self.garbage.pass = Pass::Idle;
            self.garbage.pass_at = now + self.grace / 8;
            return;
        }
        let request = self.outbox.ask(Request::Delete {
            keys: keys.iter().copied().collect(),
        });
        self.garbage.pass = Pass::Deleting { request, keys };
    }
}
