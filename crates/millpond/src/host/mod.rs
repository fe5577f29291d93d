//! The host: what it allows, and what is done about what it does not.
//!
//! A container may forbid io_uring, a file system direct I/O, a control group more memory. A cache does without and says
//! so, once, in a line on standard error; a program that has a log of its own takes the lines there. `millpond doctor`
//! tells the same before a cache is made.
//!
//! ```
//! use millpond::{PageCache, host};
//! let free = host::memory_available().unwrap_or(1 << 30);
//! let cache = PageCache::builder()
//!     .memory((free / 4).min(64 << 20))
//!     .on_notice(|notice| eprintln!("cache: {notice}"))
//!     .build()?;
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! # What is done without
//!
//! ```text
//!   missing                     found when        then
//!   io_uring                    a cache is made   threads do the transfers            Notice::NoRing
//!   O_DIRECT, RWF_DONTCACHE     a file is opened  through the kernel's page cache     Notice::NoDirect, NoDontCache
//!   huge pages                  a cache is made   small ones                          Notice::NoHugePages
//!   memory for the budget       a cache is made,  refused above a control group's     Error::MemoryLimit,
//!                               or made larger    limit; a warning where it is short  Notice::MemoryShort
//! ```
//!
//! Nothing of this is silent. Each [`Notice`] is one line with the cause, what happens instead and the mend; the cache
//! keeps them ([`PageCache::notices`](crate::PageCache::notices)) and tells each to one hook, which prints it on stderr
//! once a process unless [`Builder::on_notice`](crate::Builder::on_notice) gave another.

pub(crate) mod addresses;
pub(crate) mod hook;
mod huge;
pub(crate) mod limit;
pub(crate) mod mounts;
mod notice;
mod places;
mod pressure;
mod ring;
pub(crate) mod scratch;

pub use huge::SmallPages;
pub use limit::{MemoryLimit, memory_allowed, memory_available, memory_free, memory_limit};
pub use notice::{Notice, to_stderr};
pub use ring::RingRefusal;

pub(crate) use huge::small_pages;
pub(crate) use limit::{MemoryRefusal, check_memory, free_memory};
pub(crate) use notice::{NO_PROC, Notices};
pub(crate) use places::{MemoryGroup, Stalls, places};
pub(crate) use pressure::Pressure;

pub use crate::sys::linux_version;
use crate::sys::uffd::{Touch, Userfault};
use std::fs;
use std::io;
use std::path::Path;

/// The number of `name` in a file with lines such as `MemAvailable: 12 kB`.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Tries whether memory beyond RAM can be had here, as regions need it. `false`: it can, but system calls that touch what is
/// not in memory fail ([`Notice::NoKernelFaults`]).
///
/// # Errors
/// It can't: the cause and, behind `; `, the way out.
pub fn userfaultfd() -> io::Result<bool> {
    Userfault::new(Touch::Sleeps).map(|uffd| uffd.sees_system_calls())
}
