//! The purpose of a load, its result, and its errors.

use super::options::GRACE;
use super::requests::Listed;
use super::salvage::Salvaged;
use super::state::{State, StateError};
use crate::format::{Commit, FormatError, Key, ObjectId, Op};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Why a store can't be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// An object is damaged, or of another format.
    #[error("{key}: {error}{}", way_out(.error))]
    Format {
        /// Which.
        key: Key,
        /// What is wrong with it.
        error: FormatError,
    },
    /// Commits do not follow one another.
    #[error("{0} does not follow the commit before it{WAY_OUT}")]
    Chain(Key),
    /// A commit does not fit what is there.
    #[error("{0}{WAY_OUT}")]
    State(#[from] StateError),
    /// It has something, and no commit.
    #[error("there is {0}, and no commit: the store has lost them{WAY_OUT}")]
    NoCommits(Key),
    /// It has what only a newer commit can have made way for.
    #[error(
        "there is {key}, which is newer than commit {newest}: the store has lost its newest commits{WAY_OUT}"
    )]
    Newer {
        /// What is newer.
        key: Key,
        /// The newest commit.
        newest: u64,
    },
    /// The newest commit needs what is not there.
    #[error("{key} is not there, and commit {newest}, the newest, needs it{WAY_OUT}")]
    Missing {
        /// What is not there.
        key: Key,
        /// The newest commit.
        newest: u64,
    },
    /// Nothing can be salvaged.
    #[error("no commit and no checkpoint of it can be read, so nothing can be salvaged: {0}")]
    Lost(String),
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

/// Behind what is wrong with a store.
const WAY_OUT: &str = "; restore what was lost, or open it as of the newest commit that is whole, with \
                       StoreOptions::salvage(true)";

fn way_out(error: &FormatError) -> &'static str {
    match error {
        FormatError::Version(_) => "",
        _ => WAY_OUT,
    }
}

impl LoadError {
    /// Whether an older commit may be whole.
    pub(super) fn is_loss(&self) -> bool {
        match self {
            LoadError::Format { error, .. } => !matches!(error, FormatError::Version(_)),
            LoadError::Lost(_) | LoadError::Grace { .. } => false,
            _ => true,
        }
    }
}

/// What a load is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// What the grace is to be.
    pub(super) grace: Option<Duration>,
    /// To write: no name is to be used that ever was.
    pub(super) writes: bool,
    /// As of an older commit, if the newest is not whole.
    pub(super) salvages: bool,
}

/// The writer of a store's newest commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastWriter {
    /// Its host and process.
    pub owner: String,
    /// Its epoch; 0 if unknown.
    pub epoch: u32,
    /// When it made the commit, in milliseconds since 1970 by its clock; 0 if unknown.
    pub at_unix_ms: u64,
    /// Whether it has closed the store. If not it may still be running.
    pub closed: bool,
}

impl LastWriter {
    pub(super) fn of(commit: &Commit) -> LastWriter {
        LastWriter {
            owner: commit.owner.clone(),
            epoch: commit.epoch,
            at_unix_ms: commit.at_unix_ms,
            closed: commit.closed,
        }
    }

    /// That of a commit that can't be read.
    pub(crate) fn unknown() -> LastWriter {
        LastWriter {
            owner: String::from("a writer whose last commit can't be read"),
            epoch: 0,
            at_unix_ms: 0,
            closed: false,
        }
    }
}

impl fmt::Display for LastWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, as epoch {}, {}",
            self.owner,
            self.epoch,
            at(&self.at_unix_ms)
        )
    }
}

/// A time in milliseconds since 1970, as people read it.
pub(super) fn at(unix_ms: &u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).ok().filter(|seconds| *seconds > 0);
    match seconds.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0)) {
        Some(time) => format!("at {time}"),
        None => String::from("at a time that is not known"),
    }
}

/// A commit that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Replayed {
    pub(super) number: u64,
    pub(super) epoch: u32,
    pub(super) at_unix_ms: u64,
    pub(super) checkpoint: (u64, u32),
    /// What has no live page from it on.
    pub(super) emptied: Vec<ObjectId>,
    pub(super) drops_snapshot: bool,
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
    /// `None`: nothing was ever committed.
    pub(super) page_bytes: Option<u32>,
    /// The newest epoch that anything is of.
    pub(super) epoch: u32,
    /// `None`: nothing was ever committed.
    pub(super) last_writer: Option<LastWriter>,
    /// The checkpoint that the newest commit names.
    pub(super) checkpoint: (u64, u32),
    /// The commits that are there.
    pub(super) commits: BTreeMap<u64, Listed>,
    /// Those behind the checkpoint.
    pub(super) replayed: Vec<Replayed>,
    /// When it was asked which is the newest.
    pub(super) asked: Duration,
    pub(super) salvaged: Option<Salvaged>,
}

impl Loaded {
    /// One commit more, which follows.
    ///
    /// # Errors
    /// If it does not; nothing is of use then.
    pub(super) fn follow(&mut self, commit: &Commit, checksum: u64) -> Result<(), StateError> {
        let mut emptied = Vec::new();
        for op in &commit.ops {
            self.state.apply(op, commit.page_bytes, &mut emptied)?;
        }
        self.replayed.push(Replayed {
            number: commit.number,
            epoch: commit.epoch,
            at_unix_ms: commit.at_unix_ms,
            checkpoint: commit.checkpoint,
            emptied,
            drops_snapshot: commit.ops.iter().any(|op| matches!(op, Op::DropSnapshot { .. })),
        });
        (self.number, self.checksum) = (commit.number, checksum);
        self.page_bytes = Some(commit.page_bytes);
        self.grace = Duration::from_millis(commit.grace_ms);
        self.epoch = self.epoch.max(commit.epoch);
        self.checkpoint = commit.checkpoint;
        self.last_writer = Some(LastWriter::of(commit));
        Ok(())
    }

    pub(super) fn nothing(purpose: &Purpose, asked: Duration) -> Loaded {
        Loaded {
            state: State::default(),
            grace: purpose.grace.unwrap_or(GRACE),
            number: 0,
            checksum: 0,
            page_bytes: None,
            epoch: 0,
            last_writer: None,
            checkpoint: (0, 0),
            commits: BTreeMap::new(),
            replayed: Vec::new(),
            asked,
            salvaged: None,
        }
    }
}
