//! Regions: what the program wrote is what it reads, whatever is in memory and whatever is not.
//!
//! They need userfaultfd with `UFFDIO_MOVE` (Linux 6.8); without it each test says that it is skipped.
//!
//! | file | what |
//! |---|---|
//! | `words` | random writes and reads by several threads, word by word |
//! | `budget` | files and regions in one budget; what is given up is free |
//! | `buffers` | regions as the buffers of reads and writes |
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
mod budget;
mod buffers;
mod errors;
mod in_thread;
mod places;
mod system;
mod words;

use crate::support::skip;
use millpond::{Builder, Error, PageCache, SwapFile};
use rustix::fs::{FallocateFlags, fallocate};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

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
    let cache = with(PageCache::builder().memory(memory).swap(swap)).build();
    built(cache, folder)
}

/// What was built with swap in `folder`; `None`, and said why, where there can be none.
fn built(cache: Result<PageCache, Error>, folder: &Path) -> Option<PageCache> {
    let error = match cache {
        Ok(cache) => return Some(cache),
        Err(error) => error,
    };
    let why = match error {
        Error::Setup { .. } => Some(error.to_string()),
        Error::Swap { .. } => refused(folder),
        _ => None,
    };
    skip(why.unwrap_or_else(|| panic!("{error}")));
    None
}

/// Why no file in `folder` can be swap, tried without a cache: no direct I/O, or no blocks before they are written.
fn refused(folder: &Path) -> Option<String> {
    let blocks = || -> io::Result<u64> {
        let path = folder.join("probe");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).custom_flags(libc::O_DIRECT);
        // An open that is refused direct I/O may have made the file all the same.
        let file = options.open(&path);
        std::fs::remove_file(&path)?;
        let file = file?;
        fallocate(&file, FallocateFlags::empty(), 0, MIB)?;
        Ok(file.metadata()?.blocks())
    };
    let why = match blocks() {
        Ok(blocks) if blocks * 512 >= MIB => return None,
        Ok(blocks) => format!("1 MiB has {blocks} blocks"),
        Err(error) => error.to_string(),
    };
    Some(format!("no swap in {}: {why}", folder.display()))
}

/// What `build` gives when no process has the swap file locked. A program that another test is just starting
/// has copies of all open files until it runs, and what a killed process had asked the kernel for may end a
/// moment after it.
fn when_free(build: impl Fn() -> Result<PageCache, Error>) -> Result<PageCache, Error> {
    loop {
        match build() {
            Err(error) if error.to_string().contains("it is locked") => {
                std::thread::sleep(Duration::from_millis(10));
            }
            built => return built,
        }
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
