//! Loads the newest commit, and the complete state as of it.
//!
//! ```text
//!   list m/ ──► head of the newest ──► its checkpoint, and the heads of all commits behind that ──► state
//!      │                                └─ for a writer: what is there of epochs behind it
//!      └── nothing ──► list c/ and k/ ── nothing ──► no store
//! ```
//!
//! Listed objects may be deleted a grace later, while loading. A missing object, or an answer that came too late,
//! restarts the load. Each commit names the checksum of its predecessor, so a commit that a delayed request has brought
//! back is not mistaken for the original.
//!
//! **Losses are noticed.** The newest commit is never deleted, and everything it needs exists. A store has lost
//! objects, by hand or through an incomplete copy, if it has chunks or checkpoints but no commit, or some of an epoch
//! after that of its newest commit, or lacks what this commit needs. When two loads in a row find this, the store is
//! refused. With `salvage` it is opened as of the newest complete commit.

use super::head::{Head, HeadFetch, READINGS};
use super::loaded::{LoadError, Loaded, Purpose};
use super::requests::{Answer, Listed, Outbox, Request, RequestId};
use super::salvage::Salvage;
use super::state::State;
use crate::format::{Checkpoint, Commit, FormatError, Key, Kind};
use crate::mutation::{self, Mutation};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most that two tries are apart.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long to wait before trying for the nth time.
pub(super) fn pause(tries: u32) -> Duration {
    (Duration::from_millis(50) * 2u32.saturating_pow(tries.min(10))).min(PAUSE_MAX)
}

#[derive(Debug)]
enum Step {
    /// Until when nothing is asked.
    Pausing(Duration),
    Listing(RequestId),
    /// There is no commit: is there anything else?
    Beside(BTreeSet<RequestId>),
    Newest(HeadFetch),
    Rest {
        checkpoint: Option<RequestId>,
        heads: BTreeMap<u64, HeadFetch>,
        /// Lists of what is of epochs behind the newest commit's.
        behind: BTreeSet<RequestId>,
    },
    Salvaging(Box<Salvage>),
}

/// A load under way.
#[derive(Debug)]
pub(super) struct Load {
    step: Step,
    asked: Duration,
    tries: u32,
    purpose: Purpose,
    /// Why the last try failed.
    pub(super) trouble: Option<String>,
    /// Why the first list failed, or what was refused later.
    pub(super) refused: Option<String>,
    commits: BTreeMap<u64, Listed>,
    newest: Option<(Box<Commit>, u64)>,
    state: Option<State>,
    read: BTreeMap<u64, (Box<Commit>, u64)>,
    /// How often the checkpoint was read and is damaged.
    readings: u32,
    /// What is newer than the newest commit, or there without one.
    newer: Option<(u32, Key)>,
    /// What the try before has said of the store. If this one says the same, it is so.
    suspect: Option<LoadError>,
}

impl Load {
    pub(super) fn new(now: Duration, purpose: Purpose, outbox: &mut Outbox) -> Load {
        let mut load = Load::later(now, purpose);
        load.begin(now, outbox);
        load
    }

    /// Begins after the longest pause.
    pub(super) fn later(now: Duration, purpose: Purpose) -> Load {
        Load {
            step: Step::Pausing(now + PAUSE_MAX),
            asked: now,
            tries: 0,
            purpose,
            trouble: None,
            refused: None,
            commits: BTreeMap::new(),
            newest: None,
            state: None,
            read: BTreeMap::new(),
            readings: 0,
            newer: None,
            suspect: None,
        }
    }

    fn begin(&mut self, now: Duration, outbox: &mut Outbox) {
        let (kind, after) = (Kind::Commit, None);
        self.step = Step::Listing(outbox.ask(Request::List { kind, after }));
        self.asked = now;
        (self.newest, self.state, self.newer, self.readings) = (None, None, None, 0);
        self.commits.clear();
        self.read.clear();
    }

    fn again(&mut self, now: Duration, why: String) {
        self.step = Step::Pausing(now + pause(self.tries));
        self.tries += 1;
        self.trouble = Some(why);
    }

    /// What is said of the store may be so because another writer was at it meanwhile. It is not if the same holds of a list
    /// that is asked for now.
    fn suspects(&mut self, now: Duration, error: LoadError, outbox: &mut Outbox) -> Option<LoadError> {
        if self.suspect.as_ref() == Some(&error) {
            return Some(error);
        }
        match self.suspect.replace(error.clone()) {
            None => self.begin(now, outbox),
            // Something else each time.
            Some(_) => self.again(now, error.to_string()),
        }
        None
    }

    pub(super) fn next_tick(&self) -> Option<Duration> {
        match &self.step {
            Step::Pausing(until) => Some(*until),
            _ => None,
        }
    }

    pub(super) fn tick(&mut self, now: Duration, outbox: &mut Outbox) {
        if self.next_tick().is_some_and(|until| until <= now) {
            self.begin(now, outbox);
        }
    }

    /// Takes an answer. `Some`: it is over.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        id: RequestId,
        answer: Answer,
        outbox: &mut Outbox,
    ) -> Option<Result<Loaded, LoadError>> {
        if let Answer::Failed(why) | Answer::Refused(_, why) = &answer {
            if self.waits_for(id) {
                let is_first = self.tries == 0 && matches!(self.step, Step::Listing(_));
                if is_first || answer.refusal().is_some() {
                    self.refused = Some(why.clone());
                }
                self.again(now, why.clone());
            }
            return None;
        }
        let wrong = match self.step(now, id, answer, outbox) {
            Ok(None) => return None,
            Ok(Some(loaded)) => return Some(Ok(loaded)),
            Err(error) => error,
        };
        let is_over = matches!(self.step, Step::Salvaging(_)) || !wrong.is_loss();
        if is_over || !self.purpose.salvages {
            return Some(Err(wrong));
        }
        self.step = Step::Salvaging(Box::new(Salvage::new(
            now,
            wrong.to_string(),
            self.purpose,
            outbox,
        )));
        None
    }

    fn step(
        &mut self,
        now: Duration,
        id: RequestId,
        answer: Answer,
        outbox: &mut Outbox,
    ) -> Result<Option<Loaded>, LoadError> {
        match &mut self.step {
            Step::Salvaging(salvage) => return salvage.answered(id, answer, outbox),
            Step::Listing(request) if *request == id => {
                let (listed, is_all) = match answer {
                    Answer::Part(listed) => (listed, false),
                    Answer::Listed(listed) => (listed, true),
                    _ => return Ok(None),
                };
                let commits = listed
                    .into_iter()
                    .filter_map(|listed| Some((number(listed.key)?, listed)));
                self.commits.extend(commits);
                if !is_all {
                    return Ok(None);
                }
                match self.commits.keys().max() {
                    Some(&newest) => self.step = Step::Newest(HeadFetch::new(newest, outbox)),
                    None => {
                        let lists =
                            [Kind::Chunk, Kind::Checkpoint].map(|kind| Request::List { kind, after: None });
                        self.step = Step::Beside(lists.into_iter().map(|list| outbox.ask(list)).collect());
                    }
                }
            }
            Step::Beside(lists) if lists.contains(&id) => {
                let listed = match answer {
                    Answer::Part(listed) => listed,
                    Answer::Listed(listed) => {
                        lists.remove(&id);
                        listed
                    }
                    _ => return Ok(None),
                };
                let is_all = lists.is_empty();
                // The same each time, so that it can be compared.
                let there = listed.iter().map(|listed| (0, listed.key));
                self.newer = there.chain(self.newer).min_by_key(|(_, key)| *key);
                if !is_all {
                    return Ok(None);
                }
                return match self.newer {
                    Some((_, key)) if !mutation::is(Mutation::LossIgnored) => {
                        let error = LoadError::NoCommits(key);
                        self.suspects(now, error, outbox).map_or(Ok(None), Err)
                    }
                    _ => Ok(Some(Loaded::nothing(&self.purpose, self.asked))),
                };
            }
            Step::Newest(fetch) if fetch.request == id => match fetch.answered(answer, outbox) {
                Head::Is(commit, checksum) => {
                    let stored = Duration::from_millis(commit.grace_ms);
                    if let Some(said) = self.purpose.grace.filter(|said| *said != stored) {
                        return Err(LoadError::Grace { stored, said });
                    }
                    self.rest(commit, checksum, outbox);
                    return self.finish(now, outbox);
                }
                Head::Absent => {
                    let (key, newest) = (Key::Commit(fetch.number), fetch.number);
                    let error = LoadError::Missing { key, newest };
                    return self.suspects(now, error, outbox).map_or(Ok(None), Err);
                }
                Head::Failed(why) => self.again(now, why),
                Head::More => {}
                Head::Bad(error) => return Err(error),
            },
            Step::Rest { .. } => return self.rest_answered(now, id, answer, outbox),
            _ => {}
        }
        Ok(None)
    }

    fn rest_answered(
        &mut self,
        now: Duration,
        id: RequestId,
        answer: Answer,
        outbox: &mut Outbox,
    ) -> Result<Option<Loaded>, LoadError> {
        let newest = self.newest.as_ref().map_or(0, |(newest, _)| newest.number);
        let Step::Rest {
            checkpoint,
            heads,
            behind,
        } = &mut self.step
        else {
            return Ok(None);
        };
        if *checkpoint == Some(id) {
            let (number, epoch) = self
                .newest
                .as_ref()
                .map(|(newest, _)| newest.checkpoint)
                .unwrap_or_default();
            let key = Key::Checkpoint { number, epoch };
            let Answer::Bytes(bytes) = answer else {
                let error = LoadError::Missing { key, newest };
                return self.suspects(now, error, outbox).map_or(Ok(None), Err);
            };
            *checkpoint = None;
            match checkpoint_state((number, epoch), &bytes) {
                Ok((state, _)) => self.state = Some(state),
                Err(error) => {
                    self.readings += 1;
                    if self.readings >= READINGS {
                        return Err(error);
                    }
                    *checkpoint = Some(outbox.ask(Request::Get { key, range: None }));
                }
            }
        } else if behind.contains(&id) {
            let listed = match answer {
                Answer::Part(listed) => listed,
                Answer::Listed(listed) => {
                    behind.remove(&id);
                    listed
                }
                _ => return Ok(None),
            };
            let newer = listed.iter().filter_map(|listed| match listed.key {
                Key::Chunk { epoch, .. } => Some((epoch, listed.key)),
                // A snapshot's is put before its commit, which another may have made.
                Key::Checkpoint { number, epoch } => (number > newest + 1).then_some((epoch, listed.key)),
                _ => None,
            });
            self.newer = newer.chain(self.newer).max();
        } else if let Some(number) = heads.values().find(|f| f.request == id).map(|f| f.number) {
            let Some(fetch) = heads.get_mut(&number) else {
                return Ok(None);
            };
            match fetch.answered(answer, outbox) {
                Head::Is(commit, checksum) => {
                    heads.remove(&number);
                    self.read.insert(number, (commit, checksum));
                }
                Head::Absent => {
                    let key = Key::Commit(number);
                    let error = LoadError::Missing { key, newest };
                    return self.suspects(now, error, outbox).map_or(Ok(None), Err);
                }
                Head::Failed(why) => self.again(now, why),
                Head::More => {}
                Head::Bad(error) => return Err(error),
            }
        }
        self.finish(now, outbox)
    }

    fn waits_for(&self, id: RequestId) -> bool {
        match &self.step {
            Step::Pausing(_) => false,
            Step::Listing(request) => *request == id,
            Step::Beside(lists) => lists.contains(&id),
            Step::Newest(fetch) => fetch.request == id,
            Step::Rest {
                checkpoint,
                heads,
                behind,
            } => {
                *checkpoint == Some(id)
                    || behind.contains(&id)
                    || heads.values().any(|fetch| fetch.request == id)
            }
            Step::Salvaging(salvage) => salvage.waits_for(id),
        }
    }

    fn rest(&mut self, newest: Box<Commit>, checksum: u64, outbox: &mut Outbox) {
        let (number, epoch) = newest.checkpoint;
        let checkpoint = (number > 0).then(|| {
            let key = Key::Checkpoint { number, epoch };
            outbox.ask(Request::Get { key, range: None })
        });
        let between = number + 1..newest.number;
        let heads = between
            .map(|number| (number, HeadFetch::new(number, outbox)))
            .collect();
        let mut behind = BTreeSet::new();
        if self.purpose.writes {
            let (epoch, number) = (newest.epoch, u32::MAX);
            for (kind, after) in [
                (Kind::Chunk, Some(Key::Chunk { epoch, number })),
                (Kind::Checkpoint, None),
            ] {
                behind.insert(outbox.ask(Request::List { kind, after }));
            }
        }
        self.newest = Some((newest, checksum));
        self.step = Step::Rest {
            checkpoint,
            heads,
            behind,
        };
    }

    fn finish(&mut self, now: Duration, outbox: &mut Outbox) -> Result<Option<Loaded>, LoadError> {
        match &self.step {
            Step::Rest {
                checkpoint: None,
                heads,
                behind,
            } if heads.is_empty() && behind.is_empty() => {}
            _ => return Ok(None),
        }
        let Some((newest, checksum)) = self.newest.take() else {
            return Ok(None);
        };
        if now.saturating_sub(self.asked) > Duration::from_millis(newest.grace_ms) / 2 {
            self.again(now, String::from("its commits came later than half of the grace"));
            return Ok(None);
        }
        if let Some((_, key)) = self.newer.filter(|_| !mutation::is(Mutation::LossIgnored)) {
            let newest = newest.number;
            let error = LoadError::Newer { key, newest };
            return self.suspects(now, error, outbox).map_or(Ok(None), Err);
        }
        let mut loaded = Loaded::nothing(&self.purpose, self.asked);
        loaded.state = self.state.take().unwrap_or_default();
        let mut before = None;
        let read = std::mem::take(&mut self.read).into_values();
        for (commit, checksum) in read.chain([(newest, checksum)]) {
            // Of the first, the commit before is in the checkpoint.
            if before.is_some_and(|before| commit.previous != before) {
                return Err(LoadError::Chain(Key::Commit(commit.number)));
            }
            before = Some(checksum);
            loaded.follow(&commit, checksum)?;
        }
        loaded.commits = std::mem::take(&mut self.commits);
        Ok(Some(loaded))
    }
}

/// What a checkpoint says, and bytes of a page.
pub(super) fn checkpoint_state(of: (u64, u32), bytes: &Bytes) -> Result<(State, u32), LoadError> {
    let (number, epoch) = of;
    let key = Key::Checkpoint { number, epoch };
    let format = |error| LoadError::Format { key, error };
    let checkpoint = Checkpoint::decode(bytes).map_err(format)?;
    if (checkpoint.number, checkpoint.epoch) != (number, epoch) {
        return Err(format(FormatError::Value("number")));
    }
    let state = State::from_ops(&checkpoint.ops, checkpoint.page_bytes)?;
    Ok((state, checkpoint.page_bytes))
}

pub(super) fn number(key: Key) -> Option<u64> {
    match key {
        Key::Commit(number) => Some(number),
        _ => None,
    }
}
