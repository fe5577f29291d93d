//! The objects of a store, byte by byte. `docs/decisions/0020-store-format.md` has the same in tables.
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

/// The newest format version. Older versions are read; newer ones are refused.
pub const VERSION: u16 = 2;

/// The version of what has no records, so that a program that knows none of them goes on with a store without a tree.
const VERSION_WITHOUT_RECORDS: u16 = 1;

/// The checksum used in objects: 64-bit XXH3.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Why bytes are not an object of a store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// They end too early, or continue past their end.
    #[error("its length differs from the one that it states")]
    Length,
    /// The first bytes are wrong.
    #[error("it is not of the kind that its name says: it begins with other bytes")]
    Magic,
    /// A later version of Millpond has written it.
    #[error("it has version {0} of the format, and this program knows up to {VERSION}: use a newer one")]
    Version(u16),
    /// A checksum differs.
    #[error("its checksum differs: it is damaged")]
    Checksum,
    /// A value is out of range.
    #[error("it has an invalid {0}")]
    Value(&'static str),
}
