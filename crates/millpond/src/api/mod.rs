//! The public API: the cache and its builder, files and their pages, options. The crate root re-exports it.

#[cfg(feature = "tokio")]
pub(crate) mod async_file;
pub(crate) mod builder;
pub(crate) mod cache;
pub(crate) mod cursor;
pub(crate) mod file;
pub(crate) mod guard;
pub(crate) mod handle;
pub mod internal;
pub(crate) mod mapping;
pub(crate) mod opened;
pub mod options;
mod parked;
pub mod quantity;
pub(crate) mod region;
#[cfg(feature = "tokio")]
mod tasks;
#[cfg(feature = "trace")]
pub mod trace;
pub mod units;
