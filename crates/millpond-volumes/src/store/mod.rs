//! Stores as programs use them: a state machine of [`layout`](crate::layout), a bucket, and threads between them.
//!
//! | file | what |
//! |---|---|
//! | `address` | what a URL names, and whether that can be a store |
//! | `aws` | settings and credentials as AWS' own tools read them |
//! | `bucket` | does what a machine asks for, and counts it |
//! | `driver` | a machine, its requests and its callers |
//! | `message` | what a store's error says, without secrets |
//! | `pages` | pages read from where they are, neighbours at once |
//! | `writer`, `reader`, `file` | what a program calls |
//! | `figures` | what a store says of itself to those that watch a cache |
//! | `verify` | every reference and every checksum |

mod address;
#[cfg(feature = "s3")]
mod aws;
mod bucket;
mod driver;
mod error;
mod figures;
mod file;
mod message;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod odd;
mod options;
mod pages;
mod reader;
mod verify;
mod writer;

pub use bucket::Requests;
pub use error::Error;
pub(crate) use figures::WeakStore;
pub use file::{StoreFile, StoreFileReader};
pub use options::StoreOptions;
pub use reader::StoreReader;
pub use verify::{Damage, Verified};
pub use writer::{Entry, LostPage, Store, StoreUsage};
