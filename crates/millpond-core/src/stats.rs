//! Counters, named as in Linux where Linux has one with the same meaning.

use crate::io::Reason;
use crate::units::Nanos;
use core::fmt;

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters since the manager was created. They only grow.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Transfers issued, by [`Reason`].
            pub io_requests: [u64; Reason::COUNT],
            /// Bytes of these transfers.
            pub io_bytes: [u64; Reason::COUNT],
            /// Total nanoseconds from issue to completion, over all completed transfers.
            pub io_ns: [u64; Reason::COUNT],
            /// The longest transfer, in nanoseconds.
            pub io_ns_max: [u64; Reason::COUNT],
            /// Times the admission held back the next write, by that write's [`Reason`].
            pub admission_waits: [u64; Reason::COUNT],
            /// Total nanoseconds of these waits. Reads never wait for admission.
            pub admission_wait_ns: [u64; Reason::COUNT],
            /// The longest of these waits, in nanoseconds.
            pub admission_wait_ns_max: [u64; Reason::COUNT],
            /// Nanoseconds for which a sync waited for pages that were busy, or for their log.
            pub sync_blocked_ns: u64,
            /// Pages that a reclaim scan asked to be written. Always 0, because reclaim doesn't write file pages. Tests
            /// and the laboratory check that promise here. Not among the counters shown to users.
            pub nr_vmscan_write: u64,
        }

        impl Stats {
            /// Calls `f` for every counter that can be above 0. Counters by reason come once for each [`Reason`].
            pub fn for_each(&self, mut f: impl FnMut(&'static str, Option<Reason>, u64)) {
                $(f(stringify!($name), None, self.$name);)*
                f("sync_blocked_ns", None, self.sync_blocked_ns);
                for (name, counts) in self.by_reason() {
                    // Reads never wait for admission.
                    let is_told = |reason: &Reason| !(name.starts_with("admission") && reason.is_read());
                    for reason in Reason::ALL.into_iter().filter(is_told) {
                        f(name, Some(reason), counts[reason as usize]);
                    }
                }
            }

            /// One sentence for each counter that [`Stats::for_each`] gives without a reason, by name.
            pub const ABOUT: &'static [(&'static str, &'static str)] = &[
                $((stringify!($name), concat!($($doc),*)),)*
                (
                    "sync_blocked_ns",
                    "Nanoseconds for which a sync waited for pages that were busy, or for their log.",
                ),
            ];
        }
    };
}

stats! {
    /// Pages that a caller needed and that were not in memory.
    pgmajfault,
    /// Pages of files read from their device, for a waiting caller or ahead.
    page_misses,
    /// Frames granted, for any reason.
    pgalloc,
    /// Frames that became free.
    pgfree,
    /// Pages scanned by the background reclaimer.
    pgscan_kswapd,
    /// Pages scanned by a caller that needed a frame.
    pgscan_direct,
    /// Pages freed by the background reclaimer.
    pgsteal_kswapd,
    /// Pages freed by a caller that needed a frame.
    pgsteal_direct,
    /// Allocations that had to reclaim for themselves.
    allocstall,
    /// Batches of background reclaim.
    pageoutrun,
    /// Times the background reclaimer was woken from sleep.
    kswapd_wakeups,
    /// Nanoseconds for which it was awake, without its present run.
    kswapd_awake_ns,
    /// Dirty pages that reclaim met and tagged to be freed when their write ends.
    nr_vmscan_immediate_reclaim,
    /// Allocations that had to wait for a write.
    nr_vmscan_throttled_writeback,
    /// Allocations that had to wait though nothing was being written.
    nr_vmscan_throttled_noprogress,
    /// Pages that became dirty.
    nr_dirtied,
    /// Pages written to the device.
    nr_written,
    /// Pages whose write failed; they stay dirty.
    nr_write_failed,
    /// Times a dirtier had to wait; each wait counts once.
    balance_dirty_pauses,
    /// Pages that reclaim put first in the flusher's order.
    flusher_flagged_pages,
    /// Pages read ahead.
    readahead_pages,
    /// Pages not read ahead because memory was short.
    readahead_dropped_pages,
    /// Pages of regions read from swap.
    pswpin,
    /// Of these, pages that were read ahead.
    swap_ra,
    /// Pages of regions written to swap.
    pswpout,
    /// Pages of regions given up by the program and dropped without a write when memory was needed.
    pglazyfreed,
    /// Pages of regions whose write to swap failed; they stay in memory.
    pswpout_failed,
}

impl Stats {
    fn by_reason(&self) -> [(&'static str, &[u64; Reason::COUNT]); 7] {
        [
            ("io_requests", &self.io_requests),
            ("io_bytes", &self.io_bytes),
            ("io_ns", &self.io_ns),
            ("io_ns_max", &self.io_ns_max),
            ("admission_waits", &self.admission_waits),
            ("admission_wait_ns", &self.admission_wait_ns),
            ("admission_wait_ns_max", &self.admission_wait_ns_max),
        ]
    }

    /// A transfer was issued.
    pub(crate) fn io_issued(&mut self, reason: Reason, bytes: u64) {
        self.io_requests[reason as usize] += 1;
        self.io_bytes[reason as usize] += bytes;
    }

    /// A transfer has ended.
    pub(crate) fn io_ended(&mut self, reason: Reason, took: Nanos) {
        self.io_ns[reason as usize] += took.0;
        let longest = &mut self.io_ns_max[reason as usize];
        *longest = took.0.max(*longest);
    }

    /// A write has waited for admission.
    pub(crate) fn admission_waited(&mut self, reason: Reason, waited: Nanos) {
        self.admission_waits[reason as usize] += 1;
        self.admission_wait_ns[reason as usize] += waited.0;
        let longest = &mut self.admission_wait_ns_max[reason as usize];
        *longest = waited.0.max(*longest);
    }

    /// Bytes of all writes issued so far.
    pub(crate) fn write_bytes_issued(&self) -> u64 {
        let writes = Reason::ALL.into_iter().filter(|reason| !reason.is_read());
        writes.map(|reason| self.io_bytes[reason as usize]).sum()
    }

    /// Pages scanned, background and direct.
    pub fn pgscan(&self) -> u64 {
        self.pgscan_kswapd + self.pgscan_direct
    }

    /// Pages freed, background and direct.
    pub fn pgsteal(&self) -> u64 {
        self.pgsteal_kswapd + self.pgsteal_direct
    }
}

/// One line for each counter, name and value, as in `/proc/vmstat`. Counters by reason appear as `io_requests_fault`
/// and so on.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        self.for_each(|name, reason, value| {
            let line = match reason {
                None => writeln!(f, "{name} {value}"),
                Some(reason) => writeln!(f, "{name}_{} {value}", reason.name()),
            };
            result = result.and(line);
        });
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn every_counter_has_a_line_of_its_own() {
        let mut stats = Stats {
            nr_written: 12,
            ..Stats::default()
        };
        stats.io_issued(Reason::Sync, 8192);
        stats.io_ended(Reason::Sync, Nanos(700));
        stats.io_ended(Reason::Sync, Nanos(300));
        stats.admission_waited(Reason::DirtierBlocked, Nanos(40));
        stats.admission_waited(Reason::DirtierBlocked, Nanos(50));
        let text = stats.to_string();
        for line in [
            "nr_written 12",
            "io_requests_sync 1",
            "io_bytes_sync 8192",
            "io_ns_sync 1000",
            "io_ns_max_sync 700",
            "admission_waits_dirtier_blocked 2",
            "admission_wait_ns_dirtier_blocked 90",
            "admission_wait_ns_max_dirtier_blocked 50",
            "io_requests_swap 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        for nothing in [
            "admission_waits_fault",
            "admission_wait_ns_readahead",
            "nr_vmscan_write",
        ] {
            assert!(!text.contains(nothing), "{nothing} is always 0");
        }
        let mut names: Vec<_> = text.lines().filter_map(|l| l.split(' ').next()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
