//! Finds orphans: objects in the store that are neither needed nor known to be dead, left by a dead writer or a delayed
//! request. The store is searched when it is opened and from time to time. An orphan is dead from then on, or since an
//! earlier writer could have known it.
//!
//! ```text
//!   what each snapshot has ──► all commits ──► all checkpoints ──► one that is older than a grace ──► all chunks
//! ```

use super::Writer;
use super::garbage::Garbage;
use crate::format::{Checkpoint, Key, Kind, ObjectId};
use crate::layout::requests::{Answer, Listed, Request, RequestId};
use crate::layout::state::{Snapshot, State};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Orphans are looked for after so many graces.
const SWEEP_GRACES: u32 = 24;

#[derive(Debug)]
pub(super) enum Sweep {
    Idle,
    Snapshots(BTreeMap<RequestId, Snapshot>),
    Listing(RequestId, Kind),
    /// Of a checkpoint that is older than a grace.
    Evidence(RequestId, (u64, u32)),
}

/// What a snapshot has.
pub(super) fn objects(state: &State, number: u64, epoch: u32) -> BTreeSet<Key> {
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

impl Garbage {
    pub(super) fn is_of_sweep(&self, id: RequestId) -> bool {
        match &self.sweep {
            Sweep::Idle => false,
            Sweep::Snapshots(asked) => asked.contains_key(&id),
            Sweep::Listing(request, _) | Sweep::Evidence(request, _) => *request == id,
        }
    }
}

impl Writer {
    /// Begins to look for orphans, and for what snapshots have.
    pub(super) fn sweep(&mut self, now: Duration) {
        self.garbage.sweep_at = now + self.grace * SWEEP_GRACES;
        let mut asked = BTreeMap::new();
        // Those that are given up and in no commit yet are there if another writer takes the store.
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.dropped);
        let dropped = self.dropped.iter().chain(frozen);
        for snapshot in self.state.snapshots.values().chain(dropped) {
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
            self.sweep_list(Kind::Commit);
        }
    }

    fn sweep_list(&mut self, kind: Kind) {
        let request = self.outbox.ask(Request::List { kind, after: None });
        self.garbage.sweep = Sweep::Listing(request, kind);
    }

    /// Looks at a part of a list: what is kept of it is what is an orphan.
    fn swept(&mut self, now: Duration, listed: &[Listed]) {
        let mut orphans = BTreeMap::new();
        for listed in listed {
            let Listed { key, bytes, .. } = *listed;
            let is_orphan = match key {
                Key::Chunk { epoch, number } if epoch < self.epoch => {
                    let object = ObjectId::chunk(epoch, number);
                    self.stored.insert(object, bytes).is_none()
                }
                Key::Commit(number) => {
                    if number == self.garbage.fence {
                        let at = self.garbage.fenced_at;
                        self.garbage.ages.is_fenced(at, listed.put_unix_ms);
                    }
                    self.commit_bytes.insert(number, bytes);
                    // With its head, which is small.
                    if self.state.live.contains_key(&ObjectId::commit(number)) {
                        self.stored.insert(ObjectId::commit(number), bytes);
                    }
                    number <= self.garbage.named.0 && !self.commits.contains(&number)
                }
                Key::Checkpoint { number, epoch } => {
                    self.garbage.checkpoint_bytes.insert((number, epoch), bytes);
                    if self.garbage.fence > 0 {
                        let put = listed.put_unix_ms;
                        self.garbage.checkpoints_put.insert((number, epoch), put);
                    }
                    epoch < self.epoch && (number, epoch) != self.garbage.named && !self.garbage.is_held(&key)
                }
                _ => false,
            };
            if is_orphan {
                orphans.insert(key, listed.put_unix_ms);
            }
        }
        if orphans.is_empty() {
            return;
        }
        self.garbage.dead.iter().for_each(|dead| {
            orphans.remove(&dead.key);
        });
        for (key, put_unix_ms) in orphans {
            let (from, due) = match key {
                // One that came back.
                Key::Commit(_) => (self.number, now + self.grace),
                key => self.due_of(now, key, put_unix_ms),
            };
            self.garbage.die(key, from, due);
        }
        self.garbage.pass_at = self.garbage.pass_at.min(self.pass_due(now));
    }

    /// It is known how old what the fence has superseded is: it may have been dead for long.
    fn aged(&mut self, now: Duration) {
        let (fence, mut dead) = (self.garbage.fence, std::mem::take(&mut self.garbage.dead));
        for dead in dead.iter_mut().filter(|dead| dead.from <= fence) {
            let (from, due) = self.due_of(now, dead.key, 0);
            if due < dead.due {
                (dead.from, dead.due) = (from, due);
            }
        }
        self.garbage.dead = dead;
        self.garbage.fence = 0;
        self.garbage.checkpoints_put.clear();
        self.sweep_list(Kind::Chunk);
        self.garbage.pass_at = self.garbage.pass_at.min(self.pass_due(now));
    }

    /// All objects of a kind were looked at.
    fn sweep_next(&mut self, now: Duration, kind: Kind) {
        match kind {
            Kind::Checkpoint if self.garbage.fence == 0 => self.sweep_list(Kind::Chunk),
            Kind::Commit => self.sweep_list(Kind::Checkpoint),
            Kind::Checkpoint => match self.evidence(now) {
                // What is not live now, and was not emptied since.
                Some(of) if of == self.garbage.loaded => {
                    let was = self.state.copy_for_ops();
                    let was = State {
                        live: self.state.live.clone(),
                        ..was
                    };
                    self.garbage.ages.has_evidence(of.0, of.1, &was, &self.state);
                    self.aged(now);
                }
                Some((number, epoch)) => {
                    let key = Key::Checkpoint { number, epoch };
                    let request = self.outbox.ask(Request::Get { key, range: None });
                    self.garbage.sweep = Sweep::Evidence(request, (number, epoch));
                }
                None => self.aged(now),
            },
            _ => {
                self.garbage.sweep = Sweep::Idle;
                self.garbage.failures = 0;
            }
        }
    }

    pub(super) fn sweep_answered(&mut self, now: Duration, id: RequestId, answer: Answer) {
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
                }
            }
            Sweep::Evidence(_, of) => {
                let of = *of;
                // One that can't be had proves nothing.
                if let Ok(was) = snapshot_state(answer) {
                    self.garbage.ages.has_evidence(of.0, of.1, &was, &self.state);
                }
                self.aged(now);
            }
            Sweep::Listing(request, kind) if *request == id => {
                let kind = *kind;
                match answer {
                    Answer::Part(listed) => self.swept(now, &listed),
                    Answer::Listed(listed) => {
                        self.swept(now, &listed);
                        self.sweep_next(now, kind);
                    }
                    other => self.sweep_failed(now, other.why("list")),
                }
            }
            _ => {}
        }
    }

    fn sweep_failed(&mut self, now: Duration, why: String) {
        self.garbage.sweep = Sweep::Idle;
        self.garbage.sweep_at = now + self.grace / 16;
        self.garbage.failures += 1;
        self.trouble = Some(why);
    }
}
