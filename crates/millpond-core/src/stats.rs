//! Counters. Where Linux has a counter of the same meaning, it has Linux' name.

use crate::io::Reason;
use crate::units::Nanos;
use core::fmt;

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters since the manager was made; they only grow.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Transfers issued, by [`Reason`].
            pub io_requests: [u64; Reason::COUNT],
            /// Bytes of them.
            pub io_bytes: [u64; Reason::COUNT],
            /// Nanoseconds from the issue of those that have ended to their end, all together.
            pub io_ns: [u64; Reason::COUNT],
            /// The longest of them.
            pub io_ns_max: [u64; Reason::COUNT],
            /// Times that the next write to be issued was held back by the admission, by why it was to be made.
            pub admission_waits: [u64; Reason::COUNT],
            /// Nanoseconds for which it was, all together. Reads never wait for admission.
            pub admission_wait_ns: [u64; Reason::COUNT],
            /// The longest.
            pub admission_wait_ns_max: [u64; Reason::COUNT],
            /// Nanoseconds for which a sync waited for pages that were busy, or for their log.
            pub sync_blocked_ns: u64,
            /// Pages of writes that a scan of reclaim asked for. Counted where such a write would show, and never anything
            /// but 0, as reclaim doesn't write file pages: it is what tests and the laboratory hold that promise against, and
            /// is not among the counters that are shown.
            pub nr_vmscan_write: u64,
        }

        impl Stats {
            /// Every counter that can be more than 0, with its name; those by reason as `io_requests_fault` and so on.
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

            /// What the counters count that [`Stats::for_each`] gives without a reason: a sentence each, by name.
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
    /// Pages of files that were read from their device, whether a caller waited for them or they were read ahead.
    page_misses,
    /// Frames granted, for whatever reason.
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
    /// Times that the background reclaimer was woken while it slept.
    kswapd_wakeups,
    /// Nanoseconds for which it was awake, the present time not among them.
    kswapd_awake_ns,
    /// Dirty pages that reclaim met and tagged to be freed when their write ends.
    nr_vmscan_immediate_reclaim,
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
    /// Times that a dirtier had to wait; being told again while it waits counts no more.
    balance_dirty_pauses,
    /// Pages that reclaim put first in the flusher's order.
    flusher_flagged_pages,
    /// Pages read ahead.
    readahead_pages,
    /// Pages that could not be read ahead because memory was short.
    readahead_dropped_pages,
    /// Pages of regions read from swap.
    pswpin,
    /// Of them, pages that were read ahead.
    swap_ra,
    /// Pages of regions written to swap.
    pswpout,
    /// Pages of regions that were given up, and went without a write when their memory was needed.
    pglazyfreed,
    /// Pages of regions whose write to swap has failed; they stay in memory.
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

    /// One has ended.
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

    /// Pages scanned by either.
    pub fn pgscan(&self) -> u64 {
        self.pgscan_kswapd + self.pgscan_direct
    }

    /// Pages freed by either.
    pub fn pgsteal(&self) -> u64 {
        self.pgsteal_kswapd + self.pgsteal_direct
    }
}

/// A line for each counter, its name and its value, as `/proc/vmstat` has them; those by reason as `io_requests_fault`
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
