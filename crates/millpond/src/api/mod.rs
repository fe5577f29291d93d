//! What users have in hand: the cache and its builder, files and their pages, options. It is public at the crate's root.

#[cfg(feature = "tokio")]
pub(crate) mod async_file;
pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod cursor;
pub(crate) mod file;
pub(crate) mod guard;
pub mod internal;
pub mod options;
pub mod quantity;
pub(crate) mod region;
#[cfg(feature = "trace")]
pub mod trace;
pub mod units;
