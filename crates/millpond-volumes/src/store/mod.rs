//! Stores as programs use them: a state machine from [`layout`](crate::layout), a bucket, and threads between them.
//!
//! | file | what |
//! |---|---|
//! | `address` | what a URL names, and whether that can be a store |
//! | `aws` | settings and credentials as AWS's own tools read them |
//! | `profile`, `credentials` | a profile's files, and keys that change |
//! | `bucket` | does what a machine asks for, and counts it |
//! | `home` | that a folder is the one that was opened |
//! | `driver` | a machine, its requests and its callers |
//! | `message` | what a store's error says, without secrets |
//! | `pace` | how long an upload may take |
//! | `pages` | pages read from where they are, neighbors at once |
//! | `nearby` | small pages that are neighbors of different files |
//! | `names` | names of files as paths |
//! | `records` | a tree of names and attributes on a writer's records |
//! | `writer`, `reader`, `file`, `reader_files` | what a program calls |
//! | `figures` | what a store says of itself to those that watch a cache |
//! | `stored` | sizes of what is there |
//! | `verify` | every reference and every checksum |

mod address;
#[cfg(feature = "s3")]
mod aws;
mod bucket;
mod clock;
mod counters;
#[cfg(feature = "s3")]
mod credentials;
mod driver;
mod error;
mod figures;
mod file;
mod home;
mod message;
mod names;
mod nearby;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod odd;
mod options;
mod pace;
mod pages;
#[cfg(feature = "s3")]
mod profile;
mod reader;
mod reader_files;
mod records;
mod stored;
mod verify;
mod writer;

pub use crate::layout::{LastWriter, Pinning, Salvaged};
pub use counters::Requests;
pub use error::Error;
pub(crate) use figures::WeakStore;
pub use file::StoreFile;
pub use names::Child;
pub use options::StoreOptions;
pub use reader::StoreReader;
pub(crate) use reader_files::HeldFile;
pub use reader_files::{FileVersion, StoreFileReader};
pub use records::Records;
pub use stored::{Objects, Stored};
pub use verify::{Damage, Verified};
pub use writer::{Entry, LostPage, Store, StoreUsage};
