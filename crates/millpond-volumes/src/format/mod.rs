//! The objects of a store, byte by byte.
//!
//! ```text
//!   c/<epoch>-<n>   chunk       pages back to back; when 4 MiB are staged, or a sync has more than that
//!   m/<n>           commit n    a head, then the pages of a sync of up to 4 MiB; by each sync
//!   k/<n>-<epoch>   checkpoint  the state as of commit n; after 64 commits or more, and with a snapshot
//!   p/<reader>      pin         the oldest commit that a reader reads; each eighth of the grace
//!   probe           nothing; by the first opening for writing. Each later one tries to create it, and must be refused
//! ```
//!
//! Chunks, commits and checkpoints are created once and never changed; only pins are overwritten. Epoch and chunk number
//! are 8 hexadecimal digits, commits 20 decimal ones, readers 16 hexadecimal ones. Other names below the prefix are left
//! alone.
//!
//! Numbers are little endian, of 64 bits unless another size is given; a text is its length in 16 bits and UTF-8. A
//! checksum is XXH3 with 64 bits. An object of a higher version is refused.
//!
//! ```text
//!   head of a commit                                                      bytes
//!   MPVm; version; flags (1: the writer is done)                          4; 2; 2
//!   length of the head                                                    8
//!   number; epoch; nonce of the writer                                    8; 4; 16
//!   checksum of the head before it                                        8
//!   newest checkpoint: commit; epoch                                      8; 4
//!   bytes of a page; the grace in ms; ms since 1970                       4; 8; 8
//!   the writer                                                            a text
//!   number of changes; changes                                            4
//!   checksum of all before it                                             8
//!
//!   checkpoint    MPVk, version (16 bits), number, epoch (32), bytes of a page (32), number of changes (32), changes,
//!                 checksum: the changes lead from nothing to the state
//!   pin           MPVp, version (16), number, beat, owner, checksum
//!
//!   change: a byte, then its fields
//!    1, 2   create; rename                   file, name
//!    3      remove                           file
//!    4      length: pages past it are gone,  file, bytes
//!           and the rest of its last one
//!    5      punch                            file, from page, to page
//!    6      pages                            file, count (32 bits), and for each: page, object, offset (32), bytes (32),
//!                                            kept (32), checksum
//!    7      snapshot                         name, commit, epoch (32)
//!    8      snapshot given up                name
//!    9      number of the next file          file
//!   10, 11  record set; removed              key, and for 10 its value: each its length (32) and bytes
//! ```
//!
//! An object is 64 bits: the highest marks the commit of that number, else they are epoch and number of a chunk. *Kept*
//! are the bytes of a page that are its own; the rest is zeros, because the file was cut there.

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
