//! All unsafe code of this crate, and its system calls.
//!
//! What leaves this folder is safe by its types: memory is named by ranges of an owner that lives as long
//! as they do, and what the kernel may still touch is owned by the ring until it says it is done.

pub(crate) mod addresses;
pub(crate) mod allocator;
pub(crate) mod arena;
pub(crate) mod buffer;
pub(crate) mod cancel;
pub(crate) mod clock;
#[cfg(test)]
mod closed_tests;
pub(crate) mod copies;
#[cfg(test)]
pub(crate) mod counted;
pub(crate) mod descriptors;
pub(crate) mod direct;
mod drops;
pub(crate) mod eventfd;
pub(crate) mod forks;
pub(crate) mod fuse_device;
pub(crate) mod limits;
#[cfg(test)]
mod locked_tests;
pub(crate) mod locks;
pub(crate) mod loop_device;
pub(crate) mod mapped_file;
#[cfg(test)]
mod mapped_tests;
pub(crate) mod mapping;
mod own_memory;
#[cfg(feature = "control")]
pub(crate) mod peer;
pub(crate) mod realtime;
mod refusal;
pub(crate) mod reserved;
pub(crate) mod segment;
pub(crate) mod sigbus;
pub(crate) mod signals;
pub(crate) mod threads;
pub(crate) mod uffd;
pub(crate) mod uring;
pub(crate) mod write_out;

use std::fs;

/// Major and minor number of the running kernel.
pub fn linux_version() -> Option<(u32, u32)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Bytes of memory that this machine has; 1 TiB if it does not say.
pub(crate) fn machine_memory_bytes() -> u64 {
    // SAFETY: takes a number and returns one.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).map_or(1 << 40, |pages| pages * mapping::kernel_page() as u64)
}
