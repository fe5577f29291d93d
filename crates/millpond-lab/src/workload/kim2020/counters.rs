//! The cost of a load: pages that came and went, and the number of requests.

use super::PAGE;
use crate::error::{LabError, Result};
use crate::outcome::Outcome;
use millpond::PageCache;
use millpond_core::io::Reason;
use std::fs;
use std::path::Path;

/// Counters that only grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) swap_ins: u64,
    pub(super) swap_outs: u64,
    /// From files and from swap.
    pages_read: u64,
    /// For the engine: its transfers.
    transfers: Option<Transfers>,
}

/// Requests to the device under the swap file.
#[derive(Clone, Copy, Debug)]
struct Transfers {
    reads: u64,
    writes: u64,
    /// Pages that were read before they were touched, and those of them that were touched then.
    ahead: u64,
    ahead_used: u64,
    /// Pages that were to be read ahead and were not, for want of a free frame.
    ahead_dropped: u64,
    /// Direct reclaims: a thread needed a page, and reclaimed for itself.
    direct_reclaims: u64,
}

impl Counters {
    /// For the engine.
    pub(super) fn of_engine(cache: &PageCache) -> Counters {
        let stats = cache.stats();
        let c = &stats.counters;
        let read = [Reason::Fault, Reason::ReadAhead].map(|reason| reason as usize);
        Counters {
            swap_ins: c.pswpin,
            swap_outs: c.pswpout,
            pages_read: read.map(|reason| c.io_bytes[reason]).iter().sum::<u64>() / PAGE as u64,
            transfers: Some(Transfers {
                reads: read.map(|reason| c.io_requests[reason]).iter().sum(),
                writes: c.io_requests[Reason::Swap as usize],
                ahead: c.swap_ra,
                ahead_used: stats.swap_ahead_hits,
                ahead_dropped: c.readahead_dropped_pages,
                direct_reclaims: c.allocstall,
            }),
        }
    }

    /// For the machine's only swap, and this process.
    pub(super) fn of_kernel() -> Result<Counters> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|e| LabError::path("cannot read", Path::new(path), e))
        };
        let (vmstat, io) = (read("/proc/vmstat")?, read("/proc/self/io")?);
        let find = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
        };
        Ok(Counters {
            swap_ins: find(&vmstat, "pswpin "),
            swap_outs: find(&vmstat, "pswpout "),
            pages_read: find(&io, "read_bytes:") / PAGE as u64,
            transfers: None,
        })
    }

    pub(super) fn since(&self, before: &Counters) -> Counters {
        Counters {
            swap_ins: self.swap_ins - before.swap_ins,
            swap_outs: self.swap_outs - before.swap_outs,
            pages_read: self.pages_read - before.pages_read,
            transfers: self
                .transfers
                .zip(before.transfers)
                .map(|(now, before)| Transfers {
                    reads: now.reads - before.reads,
                    writes: now.writes - before.writes,
                    ahead: now.ahead - before.ahead,
                    ahead_used: now.ahead_used - before.ahead_used,
                    ahead_dropped: now.ahead_dropped - before.ahead_dropped,
                    direct_reclaims: now.direct_reclaims - before.direct_reclaims,
                }),
        }
    }

    pub(super) fn push(&self, outcome: &mut Outcome) {
        outcome.push("swap_ins_pages", "1", self.swap_ins as f64);
        outcome.push("swap_outs_pages", "1", self.swap_outs as f64);
        let file_reads = self.pages_read.saturating_sub(self.swap_ins);
        outcome.push("file_reads_pages", "1", file_reads as f64);
        for (metric, count) in self.transfers.iter().flat_map(|transfers| {
            [
                ("read_requests", transfers.reads),
                ("swap_write_requests", transfers.writes),
                ("read_ahead_pages", transfers.ahead),
                ("read_ahead_used_pages", transfers.ahead_used),
                ("read_ahead_dropped_pages", transfers.ahead_dropped),
                ("direct_reclaims", transfers.direct_reclaims),
            ]
        }) {
            outcome.push(metric, "1", count as f64);
        }
    }
}
