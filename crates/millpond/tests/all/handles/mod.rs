//! Handles of files: what they can do as `std`'s files do, and guards that keep their file open.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it was skipped"
)]

mod calls;
mod owned;

use millpond::{File, OpenOptions, PageCache};
use std::path::Path;

const PAGE: u64 = 4096;

fn open(cache: &PageCache, path: &Path) -> File {
    cache.open(path, OpenOptions::new().create(true)).unwrap()
}
