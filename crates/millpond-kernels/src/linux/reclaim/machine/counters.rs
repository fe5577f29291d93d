//! The counters of the post's monitors, under the post's names.
//!
//! vmstat's counters, ftrace's of vmscan and of congestion waits. Times are virtual. What is not modelled has no counter:
//! slabs, inodes, compaction.

use millpond_core::units::Nanos;

/// Sleeps of one kind by one caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Their number.
    pub number: u64,
    /// Their total time.
    pub time: Nanos,
    /// The number that lasted to their time-out.
    pub full: u64,
}

/// Counters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// KiB read from the disk: here only swap is read.
    pub pgpgin_kib: u64,
    /// KiB written to the disk, swap included.
    pub pgpgout_kib: u64,
    /// Pages read from swap, including neighbours read with them.
    pub pswpin: u64,
    /// Pages written to swap.
    pub pswpout: u64,
    /// Pages scanned by tasks that needed a frame.
    pub pgscan_direct: u64,
    /// Pages scanned by the background reclaimer.
    pub pgscan_kswapd: u64,
    /// Pages freed by tasks that needed a frame.
    pub pgsteal_direct: u64,
    /// Pages freed by the background reclaimer.
    pub pgsteal_kswapd: u64,
    /// Dirty file pages that reclaim met and neither wrote nor tagged.
    pub nr_vmscan_write_skip: u64,
    /// Dirty file pages that reclaim met and tagged ("invalidate" in the post).
    pub nr_vmscan_immediate_reclaim: u64,
    /// Batches after which a scan was throttled.
    pub nr_vmscan_throttled: u64,
    /// Times that kswapd was in trouble and did not sleep, because a zone was below its `min`.
    pub kswapd_skip_congestion_wait: u64,
    /// Times that a task that needed a frame began to reclaim.
    pub direct_reclaims: u64,
    /// Pages that reclaim asked to be written: by kswapd and by direct reclaim, of files and anonymous ones. As the post's
    /// trace, it counts requests, refused ones too; the neighbours that xfs writes along are not requests.
    pub writes: [[u64; 2]; 2],
    /// Times that a sleeping kswapd was woken.
    pub kswapd_wake_requests: u64,
    /// Times that kswapd was woken out of its long sleep.
    pub kswapd_wakeups: u64,
    /// Time between the begin and the end of direct reclaims.
    pub direct_stall: Nanos,
    /// Time that kswapd was awake, naps of a tenth of a second included.
    pub kswapd_awake: Nanos,
    /// `congestion_wait` of kswapd and of direct reclaim.
    pub congest: [Waits; 2],
    /// `wait_iff_congested`, the same.
    pub conditional: [Waits; 2],
    /// Time that dirtiers slept or waited for the disk's queue, because too much was dirty.
    pub dirtiers_stall: Nanos,
    /// Times that kswapd waited for a place in the disk's queue, and how long.
    pub kswapd_request_waits: Waits,
    /// Pages of files that were written, by any thread.
    pub file_pages_written: u64,
}
