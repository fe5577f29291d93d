//! Restrictions of the host, and how a cache works around them.
//!
//! A container may forbid io_uring, a file system may lack direct I/O, and a control group may limit memory. A cache
//! falls back where it can, and reports each fallback once, in a line on standard error. A program with its own log can
//! receive these lines instead. `millpond doctor` reports the same before a cache is built.
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
//! # Fallbacks
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
//! No fallback is silent. Each [`Notice`] is one line with the cause, the effect and the remedy. The cache keeps its
//! notices ([`PageCache::notices`](crate::PageCache::notices)) and passes each to a hook, which by default prints it on
//! standard error once per process ([`Builder::on_notice`](crate::Builder::on_notice) replaces it).

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
use crate::sys::uffd::{OnTouch, Userfault};
use std::fs;
use std::io;
use std::path::Path;

/// Returns the number of `name` in a file with lines such as `MemAvailable: 12 kB`.
fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Tests whether this host supports regions and mappings. Returns `false` if it does, but system calls fail when they
/// touch pages that are not in memory ([`Notice::NoKernelFaults`]).
///
/// # Errors
/// If it does not: the cause and, after `; `, the remedy.
pub fn userfaultfd() -> io::Result<bool> {
    Userfault::new(OnTouch::Sleeps).map(|uffd| uffd.sees_system_calls())
}
