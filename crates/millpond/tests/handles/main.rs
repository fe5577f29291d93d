//! Handles of files: what they can do as `std`'s files do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
#[path = "../support/mod.rs"]
mod support;

use millpond::{File, OpenOptions, PageCache};
use std::path::Path;

const PAGE: u64 = 4096;

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}
