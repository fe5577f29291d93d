//! What Millpond's own program, mount and laboratory take from this crate and others should not: it may change or go
//! with any version.

pub use crate::api::quantity;
pub use crate::error::told::Surface;
pub use crate::host::limit::{ControlGroup, GroupVersion, control_groups};
pub use crate::host::mounts::{MountEntry, mounts, mounts_in};
pub use crate::host::scratch::ScratchDir;
pub use crate::observe::record::{Answer, Recorder, Step};
pub use crate::sys::allocator::give_large_buffers_back;
pub use crate::sys::cancel::{CancelHeldOff, cancel_point};
pub use crate::sys::descriptors::hand_on_no_descriptors;
pub use crate::sys::forks::{Maker, OfProcess};
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

/// What a budget has to have beside the least that a cache needs, for a mapping of the bytes `range` of a file: more of it is
/// taken as more is touched, up to a part of the budget.
pub fn mapping_budget(range: Range<u64>, page_size: u64) -> u64 {
    let pages = range.start / page_size..range.end.div_ceil(page_size);
    let all = Covered::default().with(&pages).bytes();
    all.min(AT_FIRST * BLOCK_BYTES)
}

/// Whether a cache with mappings can have this budget.
///
/// # Errors
/// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall).
pub fn check_mapped_budget(memory: u64, page_size: PageSize) -> Result<()> {
    budget::frames(Bytes(memory), page_size, Reserved::with_regions(page_size)).map(drop)
}

/// The same for a region of `bytes`.
pub fn region_budget(bytes: u64, page_size: u64) -> u64 {
    bytes.div_ceil(page_size) * PAGE_BYTES
}

/// The budget in force, without a lock: for a thread that others wait for, while the one that changes the budget may wait for
/// the device.
pub fn memory_bytes(cache: &crate::PageCache) -> u64 {
    cache
        .handle
        .memory_bytes
        .load(std::sync::atomic::Ordering::Relaxed)
}

/// At most so many bytes of the file's pages are not on the device. Cheap: the core's lock, once.
pub fn unwritten_bytes(file: &crate::File) -> u64 {
    file.unwritten_bytes()
}

/// The same file as on a file system that refuses direct I/O, with pages dropped by flag (where the kernel can) or by
/// advice.
pub fn without_direct(file: DeviceFile, by_flag: bool) -> DeviceFile {
    file.without_direct(by_flag)
}

/// A small HTTP server.
#[cfg(feature = "metrics")]
pub mod http {
    pub use crate::observe::http::{Answer, Asked, Server};
}

/// How long the core lock is held, and waited for.
#[cfg(feature = "lock-times")]
pub mod lock_times {
    use crate::PageCache;
    pub use crate::engine::driver::Hold;

    /// Notes the next `count` times that the cache's lock is held, and forgets those before.
    pub fn note(cache: &PageCache, count: usize) {
        cache.handle.engine.note_holds(count);
    }

    /// Those that were noted; notes no more.
    pub fn take(cache: &PageCache) -> Vec<Hold> {
        cache.handle.engine.take_holds()
    }
}
