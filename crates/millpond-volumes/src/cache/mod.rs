//! Files of a store as files of a cache.
//!
//! ```text
//!   millpond::File ── pages ──► cache ── transfers ──► Volumes ── a file of a store? ──► threads ──► StoreFile
//!                                                         └──── no ──► the device below, as without it
//! ```
//!
//! A cache knows files by descriptors. A file of a store has a *stand-in*: a file in memory, as long as the file, that has
//! no bytes. [`Volumes`] is a device that knows the stand-ins and does their transfers with the store, from and to the
//! cache's pages; all else it hands on. It says of them how large transfers shall be, and takes what they need from the cache's
//! budget (`share`).

mod device;
mod gate;
mod pool;
mod share;
mod store;

pub use device::Volumes;
pub use store::{CacheError, CacheStore};
