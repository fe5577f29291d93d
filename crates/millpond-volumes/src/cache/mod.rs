//! Files of a store as files of a cache.
//!
//! ```text
//!   millpond::File ── pages ──► cache ── transfers ──► Volumes ── a file of a store? ──► threads ──► StoreFile
//!                                                         └──── no ──► the device below, as without it
//! ```
//!
//! A file of a reader is the same with a `StoreReader` below, and stays as of the commit at which it was opened.
//!
//! A cache knows files by descriptors. A file of a store has a *stand-in*: a memory file of the same length without
//! data. [`Volumes`] is a device that knows the stand-ins and does their transfers with the store, from and to the
//! cache's pages. It passes everything else on. It tells the cache how large transfers of these files should be, and
//! takes the memory for them from the cache's budget (`share`).

mod below;
mod device;
mod gate;
mod pool;
mod reader;
mod share;
mod store;

pub use device::Volumes;
pub use reader::CacheReader;
pub use store::{CacheError, CacheStore};
