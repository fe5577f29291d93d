//! Counters. Where Linux has a counter of the same meaning, it has Linux' name.

use crate::event::Reason;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since the manager was made; they only grow.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Transfers issued, by [`Reason`].
            pub io_requests: [u64; Reason::COUNT],
            /// Bytes of them.
            pub io_bytes: [u64; Reason::COUNT],
        }

        impl Stats {
            /// Every counter with its name; those by reason as `io_requests_fault` and so on.
            pub fn for_each(&self, mut f: impl FnMut(&'static str, Option<Reason>, u64)) {
                $(f(stringify!($name), None, self.$name);)*
                for reason in Reason::ALL {
                    f("io_requests", Some(reason), self.io_requests[reason as usize]);
                    f("io_bytes", Some(reason), self.io_bytes[reason as usize]);
                }
            }
        }
    };
}

stats! {
    /// Pages that somebody needed and that were not in memory.
    pgmajfault,
    /// Frames granted, for whatever reason.
    pgalloc,
    /// Frames that became free.
    pgfree,
    /// Pages scanned by the background reclaimer.
    pgscan_kswapd,
    /// Pages scanned by whoever needed a frame.
    pgscan_direct,
    /// Pages freed by the background reclaimer.
    pgsteal_kswapd,
    /// Pages freed by whoever needed a frame.
    pgsteal_direct,
    /// Allocations that had to reclaim for themselves.
    allocstall,
    /// Batches of background reclaim.
    pageoutrun,
    /// Dirty pages that reclaim met and tagged to be freed when their write ends.
    nr_vmscan_immediate_reclaim,
    /// File pages that reclaim wrote. Always 0: Millpond's reclaim doesn't write file pages.
    nr_vmscan_write,
    /// Allocations that were told to wait for a write.
    nr_vmscan_throttled_writeback,
    /// Allocations that were told to wait though nothing was being written.
    nr_vmscan_throttled_noprogress,
    /// Pages that became dirty.
    nr_dirtied,
    /// Pages written to the device.
    nr_written,
    /// Pages whose write failed; they stay dirty.
    nr_write_failed,
    /// Times that a dirtier was told to pause.
    balance_dirty_pauses,
    /// Files that reclaim put first in the flusher's order.
    flusher_flagged_files,
    /// Pages read ahead.
    readahead_pages,
    /// Pages that could not be read ahead because memory was short.
    readahead_dropped_pages,
    /// Frames taken from the reserve, by I/O.
    reserve_taken,
}

impl Stats {
    /// Pages scanned by either.
    pub fn pgscan(&self) -> u64 {
        self.pgscan_kswapd + self.pgscan_direct
    }

    /// Pages freed by either.
    pub fn pgsteal(&self) -> u64 {
        self.pgsteal_kswapd + self.pgsteal_direct
    }
}
