//! What a reader is given when it is created, and what it reports.

use crate::format::Key;
use crate::layout::loaded::LoadError;
use std::time::Duration;

/// The state that a reader reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// The newest commit, and those that follow it.
    Newest,
    /// A snapshot, by name.
    Snapshot(String),
}

/// Whether a reader keeps what it reads from being deleted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pinning {
    /// If the reader may: not where the store refuses to put the pin.
    #[default]
    IfAllowed,
    /// Opening fails without a pin.
    Always,
    /// Never: the reader writes nothing.
    Never,
}

/// The settings of a reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaderOptions {
    /// What to read.
    pub at: At,
    /// How often to look for a newer commit.
    pub poll: Duration,
    /// As for the writer.
    pub grace: Option<Duration>,
    /// Whether to use a pin.
    pub pinning: Pinning,
    /// As for the writer.
    pub salvage: bool,
    /// Names its pin. Random.
    pub id: u64,
    /// Host and process. For people.
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
