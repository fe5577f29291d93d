//! Counters, named as in Linux where Linux has one with the same meaning.

use crate::io::Reason;
use crate::units::Nanos;
use core::fmt;

/// What there is to know of a counter beside its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Its field. The name ends in the unit, if it is neither events nor pages: `_bytes`, `_ns`, or `_ns_max` for the longest
    /// of many times.
    pub name: &'static str,
    /// What it counts, in a sentence.
    pub about: &'static str,
    /// Linux has a counter with this name and meaning in `/proc/vmstat`.
    pub is_linux: bool,
}

/// Structs of counters: each is declared here once, and what shows counters goes through them.
macro_rules! counters {
    (
        $(#[$of_all:meta])*
        pub struct $of:ident {
            $($(#[doc = $doc:literal])+ $whose:ident $name:ident,)*
        }
        by reason {
            $($(#[doc = $by_doc:literal])+ $by:ident,)*
        }
        not shown {
            $($(#[doc = $hidden_doc:literal])+ $hidden:ident,)*
        }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct $of {
            $($(#[doc = $doc])+ pub $name: u64,)*
            $($(#[doc = $by_doc])+ pub $by: [u64; $crate::io::Reason::COUNT],)*
            $($(#[doc = $hidden_doc])+ pub $hidden: u64,)*
        }

        impl $of {
            /// Calls `f` for every counter that can be above 0. Counters by reason come once for each
            /// [`Reason`](crate::io::Reason).
            pub fn for_each(
                &self,
                mut f: impl FnMut(&'static $crate::stats::Counter, Option<$crate::io::Reason>, u64),
            ) {
                $(f($crate::stats::counters!(of $name, $whose, $($doc)+), None, self.$name);)*
                $(
                    for reason in $crate::stats::reasons(stringify!($by)) {
                        f($crate::stats::counters!(of $by, own, $($by_doc)+), Some(reason), self.$by[reason as usize]);
                    }
                )*
            }
        }
    };
    (of $name:ident, $whose:ident, $($doc:literal)+) => {
        &$crate::stats::Counter {
            name: stringify!($name),
            about: concat!($($doc),+),
            is_linux: $crate::stats::counters!($whose),
        }
    };
    (linux) => { true };
    (own) => { false };
}
pub(crate) use counters;

/// Reads never wait for admission.
pub(crate) fn reasons(counter: &str) -> impl Iterator<Item = Reason> {
    let has_reads = !counter.starts_with("admission");
    Reason::ALL
        .into_iter()
        .filter(move |reason| has_reads || !reason.is_read())
}

counters! {
    /// Counters since the manager was created. They only grow.
    pub struct Stats {
        /// Pages that a caller needed and that were not in memory.
        linux pgmajfault,
        /// Pages of files read from their device, for a waiting caller or ahead.
        own page_misses,
        /// Frames granted, for any reason.
        linux pgalloc,
        /// Frames that became free.
        linux pgfree,
        /// Pages scanned by the background reclaimer.
        linux pgscan_kswapd,
        /// Pages scanned by a caller that needed a frame.
        linux pgscan_direct,
        /// Pages freed by the background reclaimer.
        linux pgsteal_kswapd,
        /// Pages freed by a caller that needed a frame.
        linux pgsteal_direct,
        /// Allocations that had to reclaim for themselves.
        linux allocstall,
        /// Batches of background reclaim.
        linux pageoutrun,
        /// Times the background reclaimer was woken from sleep.
        own kswapd_wakeups,
        /// Time for which it was awake, without its present run.
        own kswapd_awake_ns,
        /// Dirty pages that reclaim met and tagged to be freed when their write ends.
        linux nr_vmscan_immediate_reclaim,
        /// Allocations that had to wait for a write.
        own nr_vmscan_throttled_writeback,
        /// Allocations that had to wait though nothing was being written.
        own nr_vmscan_throttled_noprogress,
        /// Pages that became dirty.
        linux nr_dirtied,
        /// Pages written to the device.
        linux nr_written,
        /// Pages whose write failed; they stay dirty.
        own nr_write_failed,
        /// Times a dirtier had to wait; each wait counts once.
        own balance_dirty_pauses,
        /// Pages that reclaim put first in the flusher's order.
        own flusher_flagged_pages,
        /// Pages read ahead.
        own readahead_pages,
        /// Pages not read ahead because memory was short.
        own readahead_dropped_pages,
        /// Pages of regions read from swap.
        linux pswpin,
        /// Of these, pages that were read ahead.
        linux swap_ra,
        /// Pages of regions written to swap.
        linux pswpout,
        /// Pages of regions given up by the program and dropped without a write when memory was needed.
        linux pglazyfreed,
        /// Pages of regions whose write to swap failed; they stay in memory.
        own pswpout_failed,
        /// Time for which a sync waited for pages that were busy, or for their log.
        own sync_blocked_ns,
    }
    by reason {
        /// Transfers issued, by reason.
        io_requests,
        /// Bytes of these transfers.
        io_bytes,
        /// Total time from issue to completion of ended transfers.
        io_ns,
        /// The longest transfer since the cache was made.
        io_ns_max,
        /// Times admission held back the next write, by the reason for the write.
        admission_waits,
        /// Total time that admission held back writes. Reads never wait for it.
        admission_wait_ns,
        /// The longest hold by admission since the cache was made.
        admission_wait_ns_max,
    }
    not shown {
        /// Pages that a reclaim scan asked to be written. Always 0, because reclaim doesn't write file pages. Tests and the
        /// laboratory check that promise here.
        nr_vmscan_write,
    }
}

impl Stats {
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
        self.for_each(|counter, reason, value| {
            let name = counter.name;
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
