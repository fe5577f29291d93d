//! The objects of a store, byte by byte. `docs/VOLUMES.md` has the same in tables.
//!
//! ```text
//!   c/<epoch>-<n>        chunk       pages back to back, 4 MiB at most
//!   m/<n>                commit n    what it changes, and pages of small syncs behind that
//!   k/<n>-<epoch>        checkpoint  all that holds as of commit n
//!   p/<reader>           pin         the oldest commit that a reader still reads
//! ```
//!
//! Chunks, commits and checkpoints are created once and never changed; only pins are overwritten.

pub mod commit;
pub mod key;
pub mod op;
pub mod pin;
mod wire;

pub use commit::{Checkpoint, Commit};
pub use key::{Key, Kind, ObjectId};
pub use op::{Op, PageEntry};
pub use pin::Pin;

/// Version of the format that is written. Older ones are read; a newer one is refused.
pub const VERSION: u16 = 1;

/// A checksum as it is stored: XXH3 with 64 bits.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Why bytes are no object of a store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// They end too early, or go on behind their end.
    #[error("it has another length than it says")]
    Length,
    /// The first bytes are others.
    #[error("it is not what its name says: it begins with other bytes")]
    Magic,
    /// A later Millpond has written it.
    #[error("it has version {0} of the format, and this program knows up to {VERSION}: use a newer one")]
    Version(u16),
    /// A checksum differs.
    #[error("its checksum differs: it is damaged")]
    Checksum,
    /// A value is out of its range.
    #[error("it has a {0} that can't be")]
    Value(&'static str),
}
