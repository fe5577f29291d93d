//! The newest commit, and all that holds as of it.
//!
//! ```text
//!   list m/ ──► head of the newest ──► its checkpoint, and the heads of all commits behind that ──► state
//! ```
//!
//! What is listed may be deleted meanwhile, a grace later: what is missing, and an answer that came too late, begin it
//! anew. Each commit names the checksum of the one before, so that one that a delayed request has brought back is not
//! taken for the one that was there.

use super::options::GRACE;
use super::requests::{Answer, Outbox, Request, RequestId};
use super::state::{State, StateError};
use crate::format::{Checkpoint, Commit, FormatError, Key, Kind};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a commit is asked for before it is known how long its head is.
pub(super) const HEAD_BYTES: u64 = 64 << 10;

/// The most that two tries are apart.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why a store can't be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// An object is damaged, or of another format.
    #[error("{key}: {error}")]
    Format {
        /// Which.
        key: Key,
        /// What is wrong with it.
        error: FormatError,
    },
    /// Commits do not follow one another.
    #[error("{0} does not follow the commit before it")]
    Chain(Key),
    /// A commit does not fit what is there.
    #[error(transparent)]
    State(#[from] StateError),
    /// It was to be opened with another grace than the store's.
    #[error(
        "the store keeps what was superseded for {stored:?}, and it was to be opened with a grace of {said:?}: all that open \
         a store must have the same, so say none, and it is the store's"
    )]
    Grace {
        /// The store's.
        stored: Duration,
        /// The one that it was to be opened with.
        said: Duration,
    },
}

/// How long to wait before trying for the nth time.
pub(super) fn pause(tries: u32) -> Duration {
    (Duration::from_millis(50) * 2u32.saturating_pow(tries.min(10))).min(PAUSE_MAX)
}

/// What a commit's head says, once all of it is there: fetches the rest if it is long.
#[derive(Debug)]
pub(super) struct HeadFetch {
    pub(super) number: u64,
    pub(super) request: RequestId,
}

/// An answer to a [`HeadFetch`].
pub(super) enum Head {
    Is(Box<Commit>, u64),
    Absent,
    Failed(String),
    More,
    Bad(LoadError),
}

impl HeadFetch {
    pub(super) fn new(number: u64, outbox: &mut Outbox) -> HeadFetch {
        let (key, range) = (Key::Commit(number), Some(0..HEAD_BYTES));
        let request = outbox.ask(Request::Get { key, range });
        HeadFetch { number, request }
    }

    pub(super) fn answered(&mut self, answer: Answer, outbox: &mut Outbox) -> Head {
        let key = Key::Commit(self.number);
        let bad = |error| Head::Bad(LoadError::Format { key, error });
        match answer {
            Answer::Absent => Head::Absent,
            Answer::Failed(why) => Head::Failed(why),
            Answer::Bytes(bytes) => {
                let head_bytes = match Commit::head_bytes(&bytes) {
                    Ok(head_bytes) => head_bytes as u64,
                    Err(error) => return bad(error),
                };
                if bytes.len() as u64 == HEAD_BYTES && head_bytes > HEAD_BYTES {
                    let range = Some(0..head_bytes);
                    self.request = outbox.ask(Request::Get { key, range });
                    return Head::More;
                }
                match Commit::decode(&bytes) {
                    Ok((commit, _)) if commit.number != self.number => bad(FormatError::Value("number")),
                    Ok((commit, checksum)) => Head::Is(Box::new(commit), checksum),
                    Err(error) => bad(error),
                }
            }
            _ => Head::Failed(String::from("an answer to another request")),
        }
    }
}

/// What was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) state: State,
    /// The store's, or what a new one is to have.
    pub(super) grace: Duration,
    /// Zero: nothing was ever committed.
    pub(super) number: u64,
    pub(super) checksum: u64,
    /// The newest commit; `None`: there is none.
    pub(super) newest: Option<Box<Commit>>,
    /// The commits that are there.
    pub(super) commits: Vec<u64>,
    /// When it was asked which is the newest.
    pub(super) asked: Duration,
}

#[derive(Debug)]
enum Step {
    /// Until when nothing is asked.
    Pausing(Duration),
    Listing(RequestId),
    Newest(HeadFetch),
    Rest {
        checkpoint: Option<RequestId>,
        heads: BTreeMap<u64, HeadFetch>,
    },
}

/// A load under way.
#[derive(Debug)]
pub(super) struct Load {
    step: Step,
    asked: Duration,
    tries: u32,
    /// What the grace is to be.
    said: Option<Duration>,
    /// Why the last try failed.
    pub(super) trouble: Option<String>,
    /// Why the first list failed.
    pub(super) refused: Option<String>,
    commits: Vec<u64>,
    newest: Option<(Box<Commit>, u64)>,
    state: Option<State>,
    read: BTreeMap<u64, (Box<Commit>, u64)>,
}

impl Load {
    pub(super) fn new(now: Duration, said: Option<Duration>, outbox: &mut Outbox) -> Load {
        let mut load = Load {
            step: Step::Pausing(now),
            asked: now,
            tries: 0,
            said,
            trouble: None,
            refused: None,
            commits: Vec::new(),
            newest: None,
            state: None,
            read: BTreeMap::new(),
        };
        load.begin(now, outbox);
        load
    }

    fn begin(&mut self, now: Duration, outbox: &mut Outbox) {
        let (kind, after) = (Kind::Commit, None);
        self.step = Step::Listing(outbox.ask(Request::List { kind, after }));
        self.asked = now;
        (self.newest, self.state) = (None, None);
        self.commits.clear();
        self.read.clear();
    }

    fn again(&mut self, now: Duration, why: String) {
        self.step = Step::Pausing(now + pause(self.tries));
        self.tries += 1;
        self.trouble = Some(why);
    }

    pub(super) fn next_tick(&self) -> Option<Duration> {
        match self.step {
            Step::Pausing(until) => Some(until),
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
        if let Answer::Failed(why) = &answer {
            if self.waits_for(id) {
                if self.tries == 0 && matches!(self.step, Step::Listing(_)) {
                    self.refused = Some(why.clone());
                }
                self.again(now, why.clone());
            }
            return None;
        }
        match &mut self.step {
            Step::Listing(request) if *request == id => {
                let (listed, is_all) = match answer {
                    Answer::Part(listed) => (listed, false),
                    Answer::Listed(listed) => (listed, true),
                    _ => return None,
                };
                self.commits
                    .extend(listed.iter().filter_map(|listed| number(listed.key)));
                if !is_all {
                    return None;
                }
                match self.commits.iter().max() {
                    Some(&newest) => self.step = Step::Newest(HeadFetch::new(newest, outbox)),
                    None => {
                        self.step = Step::Rest {
                            checkpoint: None,
                            heads: BTreeMap::new(),
                        }
                    }
                }
            }
            Step::Newest(fetch) if fetch.request == id => match fetch.answered(answer, outbox) {
                Head::Is(commit, checksum) => {
                    let stored = Duration::from_millis(commit.grace_ms);
                    if let Some(said) = self.said.filter(|said| *said != stored) {
                        return Some(Err(LoadError::Grace { stored, said }));
                    }
                    self.rest(commit, checksum, outbox);
                }
                Head::Absent => self.again(now, String::from("the newest commit was not there any more")),
                Head::Failed(why) => self.again(now, why),
                Head::More => {}
                Head::Bad(error) => return Some(Err(error)),
            },
            Step::Rest { checkpoint, heads } => {
                if *checkpoint == Some(id) {
                    *checkpoint = None;
                    match answer {
                        Answer::Bytes(bytes) => match self.checkpoint(&bytes) {
                            Ok(state) => self.state = Some(state),
                            Err(error) => return Some(Err(error)),
                        },
                        _ => self.again(now, String::from("its checkpoint was not there any more")),
                    }
                } else if let Some(number) = heads.values().find(|f| f.request == id).map(|f| f.number) {
                    let fetch = heads.get_mut(&number)?;
                    match fetch.answered(answer, outbox) {
                        Head::Is(commit, checksum) => {
                            heads.remove(&number);
                            self.read.insert(number, (commit, checksum));
                        }
                        Head::Absent => self.again(now, format!("commit {number} was not there any more")),
                        Head::Failed(why) => self.again(now, why),
                        Head::More => {}
                        Head::Bad(error) => return Some(Err(error)),
                    }
                }
            }
            _ => {}
        }
        self.finish(now)
    }

    fn waits_for(&self, id: RequestId) -> bool {
        match &self.step {
            Step::Pausing(_) => false,
            Step::Listing(request) => *request == id,
            Step::Newest(fetch) => fetch.request == id,
            Step::Rest { checkpoint, heads } => {
                *checkpoint == Some(id) || heads.values().any(|fetch| fetch.request == id)
            }
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
        self.newest = Some((newest, checksum));
        self.step = Step::Rest { checkpoint, heads };
    }

    fn checkpoint(&self, bytes: &Bytes) -> Result<State, LoadError> {
        let (number, epoch) = self
            .newest
            .as_ref()
            .map(|(newest, _)| newest.checkpoint)
            .unwrap_or_default();
        let key = Key::Checkpoint { number, epoch };
        let format = |error| LoadError::Format { key, error };
        let checkpoint = Checkpoint::decode(bytes).map_err(format)?;
        if (checkpoint.number, checkpoint.epoch) != (number, epoch) {
            return Err(format(FormatError::Value("number")));
        }
        Ok(State::from_ops(&checkpoint.ops, checkpoint.page_bytes)?)
    }

    fn finish(&mut self, now: Duration) -> Option<Result<Loaded, LoadError>> {
        match &self.step {
            Step::Rest {
                checkpoint: None,
                heads,
            } if heads.is_empty() => {}
            _ => return None,
        }
        let stored = self
            .newest
            .as_ref()
            .map(|(newest, _)| Duration::from_millis(newest.grace_ms));
        let is_late = |grace: Duration| now.saturating_sub(self.asked) > grace / 2;
        if stored.is_some_and(is_late) {
            self.again(now, String::from("its commits came later than half of the grace"));
            return None;
        }
        let mut state = self.state.take().unwrap_or_default();
        let mut before = None;
        let newest = self.newest.take();
        let read = std::mem::take(&mut self.read).into_values();
        let (mut last, mut checksum_last) = (None, 0);
        for (commit, checksum) in read.chain(newest) {
            // Of the first, the commit before is in the checkpoint.
            let follows = before.is_none_or(|before| commit.previous == before);
            if !follows {
                return Some(Err(LoadError::Chain(Key::Commit(commit.number))));
            }
            before = Some(checksum);
            for op in &commit.ops {
                if let Err(error) = state.apply(op, commit.page_bytes, &mut Vec::new()) {
                    return Some(Err(error.into()));
                }
            }
            (last, checksum_last) = (Some(commit), checksum);
        }
        Some(Ok(Loaded {
            state,
            grace: stored.or(self.said).unwrap_or(GRACE),
            number: last.as_ref().map_or(0, |last| last.number),
            checksum: checksum_last,
            newest: last,
            commits: std::mem::take(&mut self.commits),
            asked: self.asked,
        }))
    }
}

pub(super) fn number(key: Key) -> Option<u64> {
    match key {
        Key::Commit(number) => Some(number),
        _ => None,
    }
}
