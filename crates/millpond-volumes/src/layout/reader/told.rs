//! What a reader is given when it is created, and what it reports.

use crate::format::Key;
use crate::layout::loaded::LoadError;
use std::time::Duration;

/// What a reader reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// The newest commit, and those that follow.
    Newest,
    /// What held as of a snapshot, by its name.
    Snapshot(String),
}

/// Whether a reader keeps what it reads from being deleted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pinning {
    /// If it may: not where the store refuses to have an object put.
    #[default]
    IfAllowed,
    /// It is not opened otherwise.
    Always,
    /// It writes nothing.
    Never,
}

/// How a reader goes about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaderOptions {
    /// What is read.
    pub at: At,
    /// How often it is looked for a newer commit.
    pub poll: Duration,
    /// As the writer's.
    pub grace: Option<Duration>,
    /// Whether it has a pin.
    pub pinning: Pinning,
    /// As the writer's.
    pub salvage: bool,
    /// Names its pin: drawn at random.
    pub id: u64,
    /// Host and process, for people.
    pub owner: String,
}

/// What a reader has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReaderTold {
    /// It is open: its state can be read.
    Opened,
    /// It reads another commit now.
    Moved,
    /// There is no such snapshot, or what is there can't be read.
    Failed(ReadError),
}

/// Why there is nothing to read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no store.
    #[error("there is no store: nothing was ever committed")]
    Empty,
    /// There is no snapshot of that name.
    #[error("there is no snapshot {0}")]
    NoSnapshot(String),
    /// It was to have a pin, and the store refuses that.
    #[error(
        "its pin {key} is refused: {why}; give it the right to put and delete objects, or open it with StoreOptions::pinning as \
         one that has none"
    )]
    Pin {
        /// Its name.
        key: Key,
        /// What the store says.
        why: String,
    },
    /// What is there can't be read.
    #[error(transparent)]
    Load(#[from] LoadError),
}
