//! What a cache has done, and how full it is.

use super::cache;
use super::memory::{Extensible, fill, give_text};
use super::millpond_cache;
use crate::code::millpond_code;
use crate::told::attempt;
use std::ffi::c_char;

/// How full a cache is, and what it has done, at one moment. Counters only grow: read them twice and subtract.
/// Set `size`, then call millpond_cache_stats. millpond_cache_stats_text has all figures.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct millpond_stats {
    /// sizeof(struct millpond_stats), set by the caller and left as it is.
    pub size: usize,
    /// The budget, in bytes.
    pub memory_bytes: u64,
    /// Bytes of metadata within the budget.
    pub metadata_bytes: u64,
    /// Frames of the pool, each of one page.
    pub frames: u64,
    /// Frames that hold nothing.
    pub frames_free: u64,
    /// Pages that the device lacks.
    pub pages_dirty: u64,
    /// Pages being written.
    pub pages_writing: u64,
    /// Dirty pages that the device has refused.
    pub pages_failed: u64,
    /// Pages of files that calls have requested.
    pub page_requests: u64,
    /// Pages of files that were read from their device, read ahead or not.
    pub page_misses: u64,
    /// Pages that became dirty.
    pub pages_dirtied: u64,
    /// Pages written to the device.
    pub pages_written: u64,
    /// Writes of a page that have failed.
    pub page_writes_failed: u64,
    /// Calls that had to pause because too much was dirty.
    pub dirty_pauses: u64,
    /// Calls that waited for a frame.
    pub frame_waits: u64,
    /// The longest current wait for a page that another thread holds, in nanoseconds.
    pub guard_wait_ns: u64,
    /// The longest current wait for a log, in nanoseconds.
    pub log_wait_ns: u64,
    /// The median latency of the last seconds' reads that a thread waited for, in nanoseconds; 0 if there were none.
    pub read_p50_ns: u64,
    /// Pages of regions in the swap file.
    pub swap_pages_used: u64,
    /// Pages that the swap file can hold.
    pub swap_pages: u64,
    /// Warnings given.
    pub warnings: u64,
}

/// SAFETY: numbers.
unsafe impl Extensible for millpond_stats {
    const NAME: &'static str = "struct millpond_stats";
    const FIRST: usize = std::mem::offset_of!(millpond_stats, warnings) + size_of::<u64>();
}

/// Fills in `*stats`, whose `size` the caller has set. Takes the core's lock for a moment.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_stats(
    cache: *const millpond_cache,
    stats: *mut millpond_stats,
) -> millpond_code {
    attempt(|| {
        cache::with(cache, |cache| {
            let (now, memory) = (cache.stats(), cache.memory());
            let (pool, counters) = (&now.occupancy, &now.counters);
            let own = millpond_stats {
                size: 0,
                memory_bytes: memory.bytes.0,
                metadata_bytes: now.metadata.0,
                frames: pool.frames.0,
                frames_free: pool.free.0,
                pages_dirty: pool.dirty.0,
                pages_writing: pool.writing.0,
                pages_failed: pool.failed.0,
                page_requests: now.page_requests,
                page_misses: counters.page_misses,
                pages_dirtied: counters.nr_dirtied,
                pages_written: counters.nr_written,
                page_writes_failed: counters.nr_write_failed,
                dirty_pauses: counters.balance_dirty_pauses,
                frame_waits: now.frame_waits.count,
                guard_wait_ns: now.guard_wait.as_nanos() as u64,
                log_wait_ns: now.log_wait.as_nanos() as u64,
                read_p50_ns: now.read_p50.map_or(0, |p50| p50.0),
                swap_pages_used: now.swap_used.0,
                swap_pages: now.swap_total.0,
                warnings: now.warnings,
            };
            fill(stats, &own)
        })
    })
}

/// All figures as text, one line each, name and value, as in /proc/vmstat, with a zero byte at its end. `needed`, if not
/// NULL, gets its length without that byte. MILLPOND_BUFFER if it does not fit into `size` bytes: 8192 are enough.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn millpond_cache_stats_text(
    cache: *const millpond_cache,
    buffer: *mut c_char,
    size: usize,
    needed: Option<&mut usize>,
) -> millpond_code {
    attempt(|| {
        cache::with(cache, |cache| {
            give_text(&cache.stats().to_string(), (buffer, size), needed)
        })
    })
}
