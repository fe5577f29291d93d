//! Internals for Millpond's own program, mount and laboratory. Other crates must not use them: they may change or
//! disappear in any version.

pub use crate::api::quantity;
pub use crate::error::told::Surface;
pub use crate::host::limit::{ControlGroup, GroupVersion, control_groups};
pub use crate::host::mounts::{MountEntry, mounts, mounts_in};
pub use crate::host::scratch::ScratchDir;
pub use crate::observe::record::{Answer, Recorder, Step};
pub use crate::sys::allocator::give_large_buffers_back;
pub use crate::sys::cancel::{CancelHeldOff, cancel_point};
pub use crate::sys::descriptors::{DescriptorSlot, hand_on_no_descriptors};
pub use crate::sys::forks::{Maker, OfProcess};
pub use crate::sys::fuse_device::clone_fuse_device;
pub use crate::sys::limits::{Limits, Resource, resource_limits};
pub use crate::sys::loop_device::{add_loop_device, remove_loop_device};
pub use crate::sys::mapped_file::MappedFile;
pub use crate::sys::realtime::be_punctual;
pub use crate::sys::write_out::write_out;

use crate::device::DeviceFile;
use crate::engine::budget::{self, Reserved};
use crate::error::Result;
use crate::memory::covered::{BLOCK_BYTES, Covered};
use crate::memory::{AT_FIRST, PAGE_BYTES};
use millpond_core::units::{Bytes, PageSize};
use std::ops::Range;

/// Returns the budget that a mapping of the bytes `range` of a file needs in addition to a cache's minimum. The mapping
/// takes more as more is touched, up to a share of the budget.
pub fn mapping_budget(range: Range<u64>, page_size: u64) -> u64 {
    let pages = range.start / page_size..range.end.div_ceil(page_size);
    let all = Covered::default().with(&pages).bytes();
    all.min(AT_FIRST * BLOCK_BYTES)
}

/// Checks that a cache with mappings can have this budget.
///
/// # Errors
/// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall).
pub fn check_mapped_budget(memory: u64, page_size: PageSize) -> Result<()> {
    budget::frames(Bytes(memory), page_size, Reserved::with_regions(page_size)).map(drop)
}

/// Returns the budget that a region of `bytes` needs in addition to a cache's minimum.
pub fn region_budget(bytes: u64, page_size: u64) -> u64 {
    bytes.div_ceil(page_size) * PAGE_BYTES
}

/// Returns the budget in force without taking a lock, for a thread that others wait for. The thread that changes the
/// budget may hold locks while it waits for the device.
pub fn memory_bytes(cache: &crate::PageCache) -> u64 {
    cache
        .handle
        .memory_bytes
        .load(std::sync::atomic::Ordering::Relaxed)
}

/// Reports how much of what is set aside is lent to the kernel's page cache, for [`Stats::lent`](crate::stats::Stats::lent).
pub fn set_lent_bytes(cache: &crate::PageCache, bytes: u64) {
    let lent = &cache.handle.engine.lent_bytes;
    lent.store(bytes, std::sync::atomic::Ordering::Relaxed);
}

/// Writes all earlier changes of all files to the device, without making them durable: see
/// [`File::write_out`](crate::File::write_out).
///
/// # Errors
/// As there.
pub fn write_out_all(cache: &crate::PageCache) -> Result<()> {
    cache.write_out_all()
}

/// Asks the rules of [`PageCache::set_aside_by`](crate::PageCache::set_aside_by) again: for rules that also depend on how
/// much is lent. Returns false, and changes nothing, if the budget is being changed already or can't be divided so.
pub fn apply_rules(cache: &crate::PageCache) -> bool {
    cache.handle.apply_rules()
}

/// Returns the memory of frames that have still to leave a pool that was made smaller. Takes the core's lock once.
pub fn leaving_bytes(cache: &crate::PageCache) -> u64 {
    let engine = &cache.handle.engine;
    engine.core().manager.leaving().to_bytes(engine.page_size).0
}

/// Returns how many file pages were missed so soon after their eviction that the active list had to make room for them. Takes
/// the core's lock once.
pub fn recent_refaults(cache: &crate::PageCache) -> u64 {
    let core = cache.handle.engine.core();
    core.manager.lru_statistics().workingset_activate_file
}

/// Returns an upper bound on the file's bytes that are not on the device. Cheap: takes the core's lock once.
pub fn unwritten_bytes(file: &crate::File) -> u64 {
    file.unwritten_bytes()
}

/// Returns a descriptor of the file: the one that it was opened by, for reading, and for writing if a handle is for that.
///
/// # Errors
/// The system's: no descriptor is left.
pub fn descriptor(file: &crate::File) -> std::io::Result<std::os::fd::OwnedFd> {
    file.inner.device().descriptor(false).try_clone_to_owned()
}

/// Returns the file as if its file system refused direct I/O. Pages are dropped from the kernel's cache by flag (where
/// the kernel can) or by advice.
pub fn without_direct(file: DeviceFile, by_flag: bool) -> DeviceFile {
    file.without_direct(by_flag)
}

/// Serves metrics as [`Builder::metrics`](crate::Builder::metrics), of a cache that was built without.
///
/// # Errors
/// [`Error::Metrics`](crate::Error::Metrics).
#[cfg(feature = "metrics")]
pub fn serve_metrics(cache: &crate::PageCache, address: std::net::SocketAddr) -> Result<()> {
    cache.handle.serve_metrics(address)
}

/// A small HTTP server.
#[cfg(feature = "metrics")]
pub mod http {
    pub use crate::observe::http::{Answer, Asked, Server};
}

/// How long the core lock is held and waited for.
#[cfg(feature = "lock-times")]
pub mod lock_times {
    use crate::PageCache;
    pub use crate::engine::driver::Hold;

    /// Records the next `count` holds of the cache's lock, and discards earlier records.
    pub fn note(cache: &PageCache, count: usize) {
        cache.handle.engine.note_holds(count);
    }

    /// Returns the recorded holds, and stops recording.
    pub fn take(cache: &PageCache) -> Vec<Hold> {
        cache.handle.engine.take_holds()
    }
}
