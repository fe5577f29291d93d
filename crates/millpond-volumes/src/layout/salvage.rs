//! Opens a store whose newest commit is incomplete as of the newest complete one.
//!
//! ```text
//!   list m/ and k/ ──► the newest checkpoint that can be read, or nothing, if commit 1 is there
//!                        └──► the commits behind it, as far as each is there, whole, and follows
//! ```
//!
//! Deleted snapshots are left out. Everything after that commit is left out too, because a part of it would be a
//! mixture. A writer continues after the newest listed commit, from a checkpoint with the state.

use super::head::{Head, HeadFetch, READINGS};
use super::load::checkpoint_state;
use super::loaded::{LastWriter, LoadError, Loaded, Purpose};
use super::requests::{Answer, Listed, Outbox, Request, RequestId};
use super::state::{Snapshot, State};
use crate::format::{Commit, Key, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What was opened of a store that is not whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvaged {
    /// The commit that it was opened as of.
    pub commit: u64,
    /// The newest commit that there was. Those between are left out.
    pub newest: u64,
    /// Why it is not whole.
    pub why: String,
}

#[derive(Debug)]
enum Step {
    Listing(BTreeMap<RequestId, Kind>),
    /// Of a checkpoint; the last that was tried is at its end.
    Checkpoint(RequestId),
    Heads(BTreeMap<u64, HeadFetch>),
}

/// A salvage under way.
#[derive(Debug)]
pub(super) struct Salvage {
    why: String,
    purpose: Purpose,
    asked: Duration,
    step: Step,
    commits: BTreeMap<u64, Listed>,
    /// Those that were not tried yet.
    checkpoints: BTreeSet<(u64, u32)>,
    /// All of them.
    listed: BTreeSet<(u64, u32)>,
    /// The highest of any object.
    epoch: u32,
    /// The checkpoint that is tried, what it has, and how often it was read.
    base: (u64, u32),
    state: Option<(State, u32)>,
    readings: u32,
    /// All checkpoints were tried, and nothing is the base.
    is_last: bool,
    heads: BTreeMap<u64, Option<(Box<Commit>, u64)>>,
}

impl Salvage {
    pub(super) fn new(now: Duration, why: String, purpose: Purpose, outbox: &mut Outbox) -> Salvage {
        let kinds = [Kind::Commit, Kind::Checkpoint, Kind::Chunk];
        let lists = kinds.map(|kind| (outbox.ask(Request::List { kind, after: None }), kind));
        Salvage {
            why,
            purpose,
            asked: now,
            step: Step::Listing(lists.into()),
            commits: BTreeMap::new(),
            checkpoints: BTreeSet::new(),
            listed: BTreeSet::new(),
            epoch: 0,
            base: (0, 0),
            state: None,
            readings: 0,
            is_last: false,
            heads: BTreeMap::new(),
        }
    }

    pub(super) fn waits_for(&self, id: RequestId) -> bool {
        match &self.step {
            Step::Listing(lists) => lists.contains_key(&id),
            Step::Checkpoint(request) => *request == id,
            Step::Heads(heads) => heads.values().any(|fetch| fetch.request == id),
        }
    }

    pub(super) fn answered(
        &mut self,
        id: RequestId,
        answer: Answer,
        outbox: &mut Outbox,
    ) -> Result<Option<Loaded>, LoadError> {
        match &mut self.step {
            Step::Listing(lists) if lists.contains_key(&id) => {
                let listed = match answer {
                    Answer::Part(listed) => listed,
                    Answer::Listed(listed) => {
                        lists.remove(&id);
                        listed
                    }
                    _ => return Ok(None),
                };
                let is_all = lists.is_empty();
                for listed in listed {
                    match listed.key {
                        Key::Commit(number) => {
                            self.commits.insert(number, listed);
                        }
                        Key::Checkpoint { number, epoch } => {
                            self.checkpoints.insert((number, epoch));
                            self.listed.insert((number, epoch));
                            self.epoch = self.epoch.max(epoch);
                        }
                        Key::Chunk { epoch, .. } => self.epoch = self.epoch.max(epoch),
                        Key::Pin(_) => {}
                    }
                }
                if is_all {
                    self.next(outbox)?;
                }
            }
            Step::Checkpoint(request) if *request == id => {
                let read = match answer {
                    Answer::Bytes(bytes) => checkpoint_state(self.base, &bytes).ok(),
                    _ => None,
                };
                self.readings += 1;
                match read {
                    Some(state) => {
                        self.state = Some(state);
                        self.ask_heads(outbox);
                    }
                    None if self.readings < READINGS => self.ask_checkpoint(outbox),
                    None => self.next(outbox)?,
                }
            }
            Step::Heads(heads) => {
                let Some(number) = heads.values().find(|f| f.request == id).map(|f| f.number) else {
                    return Ok(None);
                };
                let head = heads.get_mut(&number).map(|fetch| fetch.answered(answer, outbox));
                let head = match head {
                    Some(Head::More) => return Ok(None),
                    Some(Head::Is(commit, checksum)) => Some((commit, checksum)),
                    _ => None,
                };
                heads.remove(&number);
                self.heads.insert(number, head);
            }
            _ => return Ok(None),
        }
        self.evaluate(outbox)
    }

    fn ask_checkpoint(&mut self, outbox: &mut Outbox) {
        let (number, epoch) = self.base;
        let key = Key::Checkpoint { number, epoch };
        self.step = Step::Checkpoint(outbox.ask(Request::Get { key, range: None }));
    }

    /// The checkpoint before the one that was tried.
    fn next(&mut self, outbox: &mut Outbox) -> Result<(), LoadError> {
        (self.state, self.readings) = (None, 0);
        // One behind all commits may be of a commit that was never made, with a snapshot: it is tried last.
        let last = self.commits.keys().max().copied().unwrap_or(0);
        let of_commit = self.checkpoints.range(..=(last, u32::MAX)).next_back();
        match of_commit.or(self.checkpoints.last()).copied() {
            Some(base) => {
                self.checkpoints.remove(&base);
                self.base = base;
                self.ask_checkpoint(outbox);
            }
            None if self.commits.contains_key(&1) && !self.is_last => {
                self.is_last = true;
                self.base = (0, 0);
                self.state = Some((State::default(), 0));
                self.ask_heads(outbox);
            }
            None => return Err(LoadError::Lost(self.why.clone())),
        }
        Ok(())
    }

    /// Of the commit that the checkpoint is of, and of all behind it.
    fn ask_heads(&mut self, outbox: &mut Outbox) {
        let numbers = self.commits.range(self.base.0..).map(|(number, _)| *number);
        let numbers = numbers.filter(|number| !self.heads.contains_key(number));
        self.step = Step::Heads(
            numbers
                .map(|number| (number, HeadFetch::new(number, outbox)))
                .collect(),
        );
    }

    fn evaluate(&mut self, outbox: &mut Outbox) -> Result<Option<Loaded>, LoadError> {
        match &self.step {
            Step::Heads(heads) if heads.is_empty() => {}
            _ => return Ok(None),
        }
        let (from, epoch) = self.base;
        let read = |number: u64| self.heads.get(&number).and_then(Option::as_ref);
        // One of a writer that lost the number to another is of a state that never was.
        let is_of_commit = read(from).is_none_or(|(commit, _)| commit.epoch == epoch);
        let mut all = self.heads.values().flatten();
        let is_named = all.any(|(commit, _)| commit.checkpoint == self.base);
        let is_good = from == 0 || is_of_commit || is_named;
        let Some((state, page_bytes)) = self.state.take().filter(|_| is_good) else {
            return self.next(outbox).map(|()| None);
        };
        let before = read(from).filter(|_| is_of_commit).map(|(_, checksum)| *checksum);
        // As far as commits follow; if one does not fit what is there, as far as the one before it.
        let mut limit = u64::MAX;
        let mut loaded = loop {
            let mut loaded = Loaded::nothing(&self.purpose, self.asked);
            (loaded.state, loaded.number) = (state.clone(), from);
            loaded.page_bytes = (page_bytes > 0).then_some(page_bytes);
            let mut before = before;
            let mut misfit = None;
            while let Some((commit, checksum)) = read(loaded.number + 1) {
                let next = loaded.number + 1;
                if next > limit || before.is_some_and(|before| commit.previous != before) {
                    break;
                }
                if loaded.follow(commit, *checksum).is_err() {
                    misfit = Some(next);
                    break;
                }
                before = Some(*checksum);
            }
            match misfit {
                Some(misfit) => limit = misfit - 1,
                None => break loaded,
            }
        };
        if loaded.page_bytes.is_none() {
            return self.next(outbox).map(|()| None);
        }
        let last = self.commits.keys().max().copied().unwrap_or(0);
        let newest = read(last).map(|(commit, _)| commit);
        if let Some((commit, _)) = self.heads.values().flatten().next() {
            let stored = Duration::from_millis(commit.grace_ms);
            if let Some(said) = self.purpose.grace.filter(|said| *said != stored) {
                return Err(LoadError::Grace { stored, said });
            }
            loaded.grace = stored;
        }
        let salvaged = Salvaged {
            commit: loaded.number,
            newest: last.max(loaded.number),
            why: self.why.clone(),
        };
        loaded.number = salvaged.newest;
        loaded.epoch = loaded.epoch.max(self.epoch);
        loaded.last_writer = Some(newest.map_or_else(LastWriter::unknown, |newest| LastWriter::of(newest)));
        loaded.checkpoint = (0, 0);
        // One that was given up since may be deleted.
        let is_there = |snapshot: &Snapshot| self.listed.contains(&(snapshot.number, snapshot.epoch));
        loaded.state.snapshots.retain(|_, snapshot| is_there(snapshot));
        loaded.commits = std::mem::take(&mut self.commits);
        loaded.salvaged = Some(salvaged);
        Ok(Some(loaded))
    }
}
