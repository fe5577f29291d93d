//! Many threads on the same files in a pool of the least size: no page is seen torn or old, none goes back, what was
//! synced is in the file.
//!
//! Every page carries a stamp: its version in the first eight bytes, and behind it what follows from file, page and
//! version. How a page's version may grow depends on its number:
//!
//! ```text
//!   page of 8     0 1        2 3              4 5 6 7
//!   changed by    page_mut   write_at of it   write_at of all four, under a lock of the test for them
//! ```
//!
//! `MILLPOND_ROUNDS=100000` plays for longer, `MILLPOND_SEED` otherwise; what threads do when is chance all the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod handles;
mod same_pages;
mod stage;

use millpond::{File, OpenOptions, PageCache};
use std::path::Path;

const PAGE: usize = 4096;

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}

fn version_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}
