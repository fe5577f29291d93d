//! The machine's counters, and its notes over time.

use millpond_core::units::{Instant, Nanos};

/// Counts since the machine began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that the daemon scanned on the inactive queue; on the active one.
    pub scanned: [u64; 2],
    /// Pages that it made free, or instantly free.
    pub freed: u64,
    /// Pages that it made active again because they were in use.
    pub reactivated: u64,
    /// Pages that it made inactive.
    pub deactivated: u64,
    /// Clusters that were written, and their pages.
    pub clusters: u64,
    /// Pages of them.
    pub pageouts: u64,
    /// Of these: pages that went to swap.
    pub swapped_out: u64,
    /// Pages read from swap, and reads for them.
    pub swapped_in: u64,
    /// Pages of the history file that were read.
    pub history_read: u64,
    /// Dirty pages that were met once, and were in use when they were met again.
    pub rescued: u64,
    /// Laps that were marked.
    pub laps: u64,
    /// Scans of the daemon.
    pub scans: u64,
    /// Of these: in a pass after an insufficient one.
    pub scans_pass_1: u64,
    /// Second looks of the rule that takes clean pages first.
    pub second_looks: u64,
    /// Times that the daemon waited for a write to swap.
    pub daemon_waits: u64,
    /// Times that a reader waited for memory; for a page that was being written.
    pub memory_waits: u64,
    /// Times that a reader waited for a page that was being written.
    pub write_waits: u64,
}

impl Counters {
    /// The growth since `before`.
    pub(super) fn since(&self, before: &Counters) -> Counters {
        Counters {
            scanned: [0, 1].map(|n| self.scanned[n] - before.scanned[n]),
            freed: self.freed - before.freed,
            reactivated: self.reactivated - before.reactivated,
            deactivated: self.deactivated - before.deactivated,
            clusters: self.clusters - before.clusters,
            pageouts: self.pageouts - before.pageouts,
            swapped_out: self.swapped_out - before.swapped_out,
            swapped_in: self.swapped_in - before.swapped_in,
            history_read: self.history_read - before.history_read,
            rescued: self.rescued - before.rescued,
            laps: self.laps - before.laps,
            scans: self.scans - before.scans,
            scans_pass_1: self.scans_pass_1 - before.scans_pass_1,
            second_looks: self.second_looks - before.second_looks,
            daemon_waits: self.daemon_waits - before.daemon_waits,
            memory_waits: self.memory_waits - before.memory_waits,
            write_waits: self.write_waits - before.write_waits,
        }
    }
}

/// Length of a step of [`Noted`].
pub(super) const STEP: Nanos = Nanos::from_secs(1);

/// The notes, a value for each second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Reader-nanoseconds of waiting.
    pub blocked: Vec<u64>,
    /// Pages written.
    pub pageouts: Vec<u64>,
    /// Articles that were read.
    pub articles: Vec<u64>,
    /// The latency of each article, in the order of their ends.
    pub latencies: Vec<(Instant, Nanos)>,
    waiting: u64,
    since: Instant,
}

fn at(values: &mut Vec<u64>, step: usize) -> &mut u64 {
    if values.len() <= step {
        values.resize(step + 1, 0);
    }
    &mut values[step]
}

impl Noted {
    /// This many more, or fewer, wait from now on.
    pub(super) fn waiting(&mut self, now: Instant, change: i64) {
        self.until(now);
        self.waiting = self.waiting.saturating_add_signed(change);
    }

    /// Notes which readers have waited until now.
    pub(super) fn until(&mut self, now: Instant) {
        while self.since < now {
            let step = self.since.0 / STEP.0;
            let end = Instant((step + 1) * STEP.0).min(now);
            *at(&mut self.blocked, step as usize) += self.waiting * end.since(self.since).0;
            self.since = end;
        }
    }

    pub(super) fn written(&mut self, now: Instant, pages: u64) {
        *at(&mut self.pageouts, (now.0 / STEP.0) as usize) += pages;
    }

    pub(super) fn read(&mut self, now: Instant, took: Nanos) {
        *at(&mut self.articles, (now.0 / STEP.0) as usize) += 1;
        self.latencies.push((now, took));
    }
}
