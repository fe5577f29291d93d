//! Regions: what the program wrote is what it reads, whatever is in memory and whatever is not.
//!
//! They need userfaultfd with `UFFDIO_MOVE` (Linux 6.8); without it each test says that it is skipped.
//!
//! | file | what |
//! |---|---|
//! | `words` | random writes and reads by several threads, word by word |
//! | `budget` | files and regions in one budget; what is given up is free |
//! | `errors` | a swap file that can't be used, or read, or written |
//! | `in_thread` | faults that the touching thread serves itself, and how a process with a region ends |
//! | `places` | swap on a block device; a user without privileges |
//! | `system` | system calls on a region's memory; processes that are killed |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it has seen"
)]

#[allow(dead_code, reason = "each suite uses a part")]
#[path = "../support/refuse.rs"]
mod refuse;
#[path = "../support/mod.rs"]
mod support;

mod budget;
mod errors;
mod in_thread;
mod places;
mod system;
mod words;

use millpond::{Builder, Error, PageCache, SwapFile};
use std::path::Path;
use support::skip;

const MIB: u64 = 1 << 20;

/// A folder on a disk, where there is direct I/O.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A cache with swap in `folder`; `None`, and said why, where there can be none.
fn cache(folder: &Path, memory: u64, swap: u64) -> Option<PageCache> {
    cache_with(folder, memory, swap, |builder| builder)
}

fn cache_with(
    folder: &Path,
    memory: u64,
    swap: u64,
    with: impl FnOnce(Builder) -> Builder,
) -> Option<PageCache> {
    let swap = SwapFile::new(folder.join("swap"), swap);
    match with(PageCache::builder().memory(memory).swap(swap)).build() {
        Ok(cache) => Some(cache),
        Err(error @ Error::Setup { .. }) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Something different for each page and byte.
fn fill(page: usize, bytes: &mut [u8]) {
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = (page.wrapping_mul(31) ^ n.wrapping_mul(7) ^ (page >> 8)) as u8;
    }
}

fn check(page: usize, bytes: &[u8]) {
    let mut is = vec![0; bytes.len()];
    fill(page, &mut is);
    assert_eq!(bytes, is, "page {page}");
}
