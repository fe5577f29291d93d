//! What nothing needs any more is deleted.
//!
//! An object is *dead* as of the commit that no longer needs it. It is deleted when all of this holds: a grace has passed
//! since then; no snapshot has it; no reader's pin, looked at after the grace, is of an older commit. The newest commit is
//! never dead.
//!
//! What is in the store and neither needed nor known to be dead is an orphan: of a writer that died, or of a request that
//! was delayed. It is looked for when a store is opened and then now and then, and is dead from then on.

use super::Writer;
use crate::format::{Checkpoint, Commit, Key, Kind, ObjectId, Pin};
use crate::layout::load::{number, pause};
use crate::layout::requests::{Answer, Listed, Request, RequestId};
use crate::layout::state::{Snapshot, State};
use crate::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Objects that one request deletes: what S3 takes.
const DELETED_MAX: usize = 1000;

/// Orphans are looked for after so many graces.
const SWEEP_GRACES: u32 = 24;

/// A pin that has not changed for so many graces is given up.
const PIN_GRACES: u32 = 2;

#[derive(Debug)]
struct Dead {
    key: Key,
    /// Not needed from this commit on.
    from: u64,
    since: Duration,
}

#[derive(Debug)]
enum Pass {
    Idle,
    ListingPins {
        request: RequestId,
        there: BTreeSet<Key>,
        begun: Duration,
    },
    Pins {
        asked: BTreeMap<RequestId, Key>,
        oldest: u64,
        /// What they say is as of then or later: a writer may sleep before it has the answers.
        begun: Duration,
    },
    Deleting {
        request: RequestId,
        keys: BTreeSet<Key>,
    },
}

#[derive(Debug)]
enum Sweep {
    Idle,
    Snapshots(BTreeMap<RequestId, Snapshot>),
    Listing(RequestId, Kind),
}

/// What is dead, and how it is got rid of.
#[derive(Debug)]
pub(super) struct Garbage {
    dead: Vec<Dead>,
    pass: Pass,
    pass_at: Duration,
    /// Passes and sweeps that failed since the last that did not.
    failures: u32,
    sweep: Sweep,
    sweep_at: Duration,
    /// What snapshots have, by their commits, once it is known of all.
    snapshots: BTreeMap<u64, BTreeSet<Key>>,
    /// Snapshots that were given up before it was known what they have.
    dropped_early: BTreeSet<u64>,
    is_known: bool,
    /// Pins by what they said last, and since when.
    pins: BTreeMap<Key, (u64, Duration)>,
    /// The checkpoint that the newest commit names, and all that may be there: commit and epoch.
    named: (u64, u32),
    checkpoints: BTreeSet<(u64, u32)>,
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
            named: (0, 0),
            checkpoints: BTreeSet::new(),
        }
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

    fn die(&mut self, key: Key, from: u64, since: Duration) {
        self.dead.push(Dead { key, from, since });
    }
}

fn grace(grace: Duration) -> Duration {
    match mutation::is(Mutation::GraceIgnored) {
        true => Duration::ZERO,
        false => grace,
    }
}

/// What a snapshot has.
fn objects(state: &State, number: u64, epoch: u32) -> BTreeSet<Key> {
    let pages = state.live.keys().map(|object| object.key());
    pages.chain([Key::Checkpoint { number, epoch }]).collect()
}

fn snapshot_state(answer: Answer) -> Result<State, String> {
    let Answer::Bytes(bytes) = answer else {
        return Err(answer.why("checkpoint"));
    };
    let checkpoint = Checkpoint::decode(&bytes).map_err(|error| error.to_string())?;
    State::from_ops(&checkpoint.ops, checkpoint.page_bytes).map_err(|error| error.to_string())
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
        let from = commit.number;
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
                    held.for_each(|dead| (dead.from, dead.since) = (from, now));
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
                key => self.garbage.die(key, from, now),
            }
        }
        if !self.stored.contains_key(&ObjectId::commit(from)) {
            self.empty_commits.insert(from);
        }
        self.garbage.named = commit.checkpoint;
        let newer = self.garbage.checkpoints.split_off(&commit.checkpoint);
        for (number, epoch) in std::mem::replace(&mut self.garbage.checkpoints, newer) {
            // One that a snapshot has is held until that is given up.
            self.garbage.die(Key::Checkpoint { number, epoch }, from, now);
        }
        let kept = self.empty_commits.split_off(&(commit.checkpoint.0 + 1));
        for number in std::mem::replace(&mut self.empty_commits, kept) {
            self.commits.remove(&number);
            self.garbage.die(Key::Commit(number), from, now);
        }
        self.garbage.pass_at = self.garbage.pass_at.min(self.pass_due(now));
    }

    /// When the first of what is dead may be deleted.
    fn pass_due(&self, now: Duration) -> Duration {
        let oldest = self.garbage.dead.iter().map(|dead| dead.since).min();
        oldest.map_or(now + self.grace, |oldest| oldest + grace(self.grace))
    }

    /// A commit makes a snapshot of what holds now.
    pub(super) fn snapshot_holds(&mut self, number: u64, epoch: u32) {
        let objects = objects(&self.state, number, epoch);
        self.garbage.snapshots.insert(number, objects);
    }

    /// Begins to look for orphans, and for what snapshots have.
    pub(super) fn sweep(&mut self, now: Duration) {
        self.garbage.sweep_at = now + self.grace * SWEEP_GRACES;
        let mut asked = BTreeMap::new();
        for snapshot in self.state.snapshots.values() {
            let Snapshot { number, epoch } = *snapshot;
            if !self.garbage.snapshots.contains_key(&number) {
                let key = Key::Checkpoint { number, epoch };
                asked.insert(self.outbox.ask(Request::Get { key, range: None }), *snapshot);
            }
        }
        self.garbage.sweep = Sweep::Snapshots(asked);
        self.sweep_on();
    }

    fn sweep_on(&mut self) {
        if matches!(&self.garbage.sweep, Sweep::Snapshots(asked) if asked.is_empty()) {
            self.garbage.is_known = true;
            self.sweep_list(Kind::Chunk);
        }
    }

    fn sweep_list(&mut self, kind: Kind) {
        let request = self.outbox.ask(Request::List { kind, after: None });
        self.garbage.sweep = Sweep::Listing(request, kind);
    }

    /// Looks at a part of a list: what is kept of it is what is an orphan.
    fn swept(&mut self, now: Duration, listed: &[Listed]) {
        let mut orphans = BTreeSet::new();
        for &Listed { key, bytes } in listed {
            let is_orphan = match key {
                Key::Chunk { epoch, number } if epoch < self.epoch => {
                    let object = ObjectId::chunk(epoch, number);
                    self.stored.insert(object, bytes).is_none()
                }
                // With its head, which is small.
                Key::Commit(number) if self.state.live.contains_key(&ObjectId::commit(number)) => {
                    self.stored.insert(ObjectId::commit(number), bytes);
                    false
                }
                Key::Commit(number) => number <= self.garbage.named.0 && !self.commits.contains(&number),
                Key::Checkpoint { number, epoch } if epoch < self.epoch => {
                    (number, epoch) != self.garbage.named && !self.garbage.is_held(&key)
                }
                _ => false,
            };
            if is_orphan {
                orphans.insert(key);
            }
        }
        if orphans.is_empty() {
            return;
        }
        self.garbage.dead.iter().for_each(|dead| {
            orphans.remove(&dead.key);
        });
        let from = self.number;
        orphans
            .into_iter()
            .for_each(|key| self.garbage.die(key, from, now));
        self.garbage.pass_at = self.garbage.pass_at.min(self.pass_due(now));
    }

    /// All objects of a kind were looked at.
    fn sweep_next(&mut self, kind: Kind) {
        match kind {
            Kind::Chunk => self.sweep_list(Kind::Commit),
            Kind::Commit => self.sweep_list(Kind::Checkpoint),
            _ => {
                self.garbage.sweep = Sweep::Idle;
                self.garbage.failures = 0;
            }
        }
    }

    pub(super) fn garbage_tick(&mut self, now: Duration) {
        if matches!(self.garbage.sweep, Sweep::Idle) && self.garbage.sweep_at <= now {
            self.sweep(now);
        }
        let is_due = self.garbage.pass_at <= now && self.garbage.is_known;
        if is_due && matches!(self.garbage.pass, Pass::Idle) {
            match self
                .garbage
                .dead
                .iter()
                .any(|dead| dead.since + grace(self.grace) <= now)
            {
                true => {
                    let (kind, after) = (Kind::Pin, None);
                    let request = self.outbox.ask(Request::List { kind, after });
                    self.garbage.pass = Pass::ListingPins {
                        request,
                        there: BTreeSet::new(),
                        begun: now,
                    };
                }
                false => self.garbage.pass_at = self.pass_due(now).max(now + self.grace / 64),
            }
        }
    }

    pub(super) fn garbage_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
        match &mut self.garbage.sweep {
            Sweep::Snapshots(asked) => {
                if let Some(Snapshot { number, epoch }) = asked.remove(&id) {
                    match snapshot_state(answer) {
                        Ok(state) => {
                            if !self.garbage.dropped_early.contains(&number) {
                                let objects = objects(&state, number, epoch);
                                self.garbage.snapshots.insert(number, objects);
                            }
                            self.sweep_on();
                        }
                        // Nothing is deleted until it is known what a snapshot has.
                        Err(why) => {
                            let key = Key::Checkpoint { number, epoch };
                            self.sweep_failed(now, format!("what a snapshot has, {key}: {why}"));
                        }
                    }
                    return;
                }
            }
            Sweep::Listing(request, kind) if *request == id => {
                let kind = *kind;
                match answer {
                    Answer::Part(listed) => self.swept(now, &listed),
                    Answer::Listed(listed) => {
                        self.swept(now, &listed);
                        self.sweep_next(kind);
                    }
                    other => self.sweep_failed(now, other.why("list")),
                }
                return;
            }
            _ => {}
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
                Answer::Part(listed) => there.extend(listed.iter().map(|listed| listed.key)),
                Answer::Listed(listed) => {
                    there.extend(listed.iter().map(|listed| listed.key));
                    let (there, begun) = (std::mem::take(there), *begun);
                    self.garbage.pins.retain(|key, _| there.contains(key));
                    let asked = there.into_iter().map(|key| {
                        let request = Request::Get { key, range: None };
                        (self.outbox.ask(request), key)
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
                let Some(key) = asked.remove(&id) else { return };
                match answer {
                    Answer::Bytes(bytes) => {
                        // One that can't be read holds everything, as long as it changes.
                        let (number, beat) = match Pin::decode(&bytes) {
                            Ok(pin) => (pin.number, pin.beat),
                            Err(_) => (0, crate::format::checksum(&bytes)),
                        };
                        let seen = self.garbage.pins.entry(key).or_insert((beat, now));
                        if seen.0 != beat {
                            *seen = (beat, now);
                        }
                        if seen.1 + self.grace * PIN_GRACES > *begun {
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
                        Key::Commit(number) => self.stored.remove(&ObjectId::commit(number)),
                        _ => None,
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

    fn sweep_failed(&mut self, now: Duration, why: String) {
        self.garbage.sweep = Sweep::Idle;
        self.garbage.sweep_at = now + self.grace / 16;
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
            let is_over = dead.since + grace(self.grace) <= begun;
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
