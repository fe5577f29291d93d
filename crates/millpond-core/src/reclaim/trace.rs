//! A trace of reclaim's decisions: the page at the cold end, which scan met it, what was done and why.
//!
//! Every decision is counted by scanner, kind of page and outcome. Every 64th is also kept with its time and page, in a
//! ring of the last 256. The trace is sampled because a scan makes millions of decisions a minute and neighboring pages
//! fare alike. One addition a page and 6 KiB are cheap enough to be always on. The manager keeps one trace; so does the
//! machine that runs the kernels of Gorman 2011.

use crate::page::PageKind;
use crate::units::{Instant, PageKey};
use alloc::vec::Vec;

/// The scanner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Caller {
    /// The background reclaimer.
    Kswapd,
    /// A caller that needs a frame now.
    Direct,
}

/// What was done with the page, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Evicted; its frame is free.
    Freed,
    /// In use: moved to the active list.
    Activated,
    /// In use, pinned or not loaded yet: one more lap.
    KeptInUse,
    /// Used once, and dirty: one more lap.
    KeptUsedOnce,
    /// Being written: one more lap.
    KeptWriting,
    /// Being written, tagged, and met again: the scan is ahead of the device.
    KeptWritingAgain,
    /// Dirty, and met for the first time: its lap is marked.
    MarkedLap,
    /// Dirty, and the rule allows no write here: skipped.
    Skipped,
    /// The same, and tagged to be freed when its write ends.
    Tagged,
    /// The same, and off the lists until then.
    Leaked,
    /// Dirty, and the device's queue was full.
    KeptCongested,
    /// Dirty, but no page may be written at present, or swap is full.
    KeptNoWrites,
    /// Handed to its file system or to swap, which writes it.
    WriteStarted,
    /// Handed to its file system, which refused.
    WriteRefused,
}

impl Outcome {
    /// The number of outcomes.
    pub const COUNT: usize = 14;
    /// All outcomes, in the order of the counters.
    pub const ALL: [Outcome; Outcome::COUNT] = [
        Outcome::Freed,
        Outcome::Activated,
        Outcome::KeptInUse,
        Outcome::KeptUsedOnce,
        Outcome::KeptWriting,
        Outcome::KeptWritingAgain,
        Outcome::MarkedLap,
        Outcome::Skipped,
        Outcome::Tagged,
        Outcome::Leaked,
        Outcome::KeptCongested,
        Outcome::KeptNoWrites,
        Outcome::WriteStarted,
        Outcome::WriteRefused,
    ];

    /// A description in words.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Freed => "clean: freed",
            Outcome::Activated => "in use: activated",
            Outcome::KeptInUse => "in use: kept",
            Outcome::KeptUsedOnce => "dirty, used once: kept",
            Outcome::KeptWriting => "being written: kept",
            Outcome::KeptWritingAgain => "being written, met again: kept",
            Outcome::MarkedLap => "dirty: met the first time",
            Outcome::Skipped => "dirty: skipped",
            Outcome::Tagged => "dirty: tagged",
            Outcome::Leaked => "dirty: off the lists",
            Outcome::KeptCongested => "dirty, queue full: kept",
            Outcome::KeptNoWrites => "dirty, no writes: kept",
            Outcome::WriteStarted => "dirty: written",
            Outcome::WriteRefused => "dirty: file system refused",
        }
    }
}

/// One decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The time.
    pub at: Instant,
    /// The page.
    pub key: PageKey,
    /// What it is a copy of.
    pub kind: PageKind,
    /// The scanner.
    pub caller: Caller,
    /// The scan's priority.
    pub priority: u8,
    /// The outcome.
    pub outcome: Outcome,
}

/// The number of records kept.
pub const RECORDS_MAX: usize = 256;
/// One in this many decisions is kept; all are counted.
pub const SAMPLED_ONE_IN: u32 = 64;

/// The counts, and the last records.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    counts: [[[u64; Outcome::COUNT]; 2]; 2],
    ring: Vec<Record>,
    next: usize,
    until_sample: u32,
    keeps_all: bool,
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// Keeps every decision from here on instead of one in [`SAMPLED_ONE_IN`], for a machine that is observed step by
    /// step.
    pub fn keep_all(&mut self) {
        (self.keeps_all, self.until_sample) = (true, 0);
    }

    /// Counts a decision. `details` (time, page, priority) is called only if the decision is kept. Allocates once.
    #[inline]
    pub fn note(
        &mut self,
        caller: Caller,
        kind: PageKind,
        outcome: Outcome,
        details: impl FnOnce() -> (Instant, PageKey, u32),
    ) {
        self.counts[caller as usize][kind as usize][outcome as usize] += 1;
        if self.until_sample == 0 {
            self.until_sample = if self.keeps_all { 1 } else { SAMPLED_ONE_IN };
            let (at, key, priority) = details();
            self.keep(Record {
                at,
                key,
                kind,
                caller,
                priority: priority as u8,
                outcome,
            });
        }
        self.until_sample -= 1;
    }

    #[cold]
    fn keep(&mut self, record: Record) {
        if self.ring.len() < RECORDS_MAX {
            self.ring.reserve_exact(RECORDS_MAX - self.ring.len());
            self.ring.push(record);
        } else {
            self.ring[self.next] = record;
        }
        self.next = (self.next + 1) % RECORDS_MAX;
    }

    /// How often `caller` decided this.
    pub fn count(&self, caller: Caller, kind: PageKind, outcome: Outcome) -> u64 {
        self.counts[caller as usize][kind as usize][outcome as usize]
    }

    /// All decisions of `caller`.
    pub fn decisions(&self, caller: Caller) -> u64 {
        self.counts[caller as usize].iter().flatten().sum()
    }

    /// Bytes used by the ring.
    pub fn metadata_bytes(&self) -> u64 {
        (self.ring.capacity() * size_of::<Record>()) as u64
    }

    /// The kept records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let (new, old) = self.ring.split_at(self.next.min(self.ring.len()));
        old.iter().chain(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{FileId, PageIndex};

    fn note(trace: &mut Trace, n: u64) {
        let key = PageKey::new(FileId(1), PageIndex(n));
        trace.note(Caller::Kswapd, PageKind::File, Outcome::Freed, || {
            (Instant(n), key, 12)
        });
    }

    #[test]
    fn every_decision_is_counted_and_the_last_samples_are_kept_in_order() {
        let mut trace = Trace::new();
        let all = u64::from(SAMPLED_ONE_IN) * (RECORDS_MAX as u64 + 10);
        (0..all).for_each(|n| note(&mut trace, n));
        assert_eq!(trace.count(Caller::Kswapd, PageKind::File, Outcome::Freed), all);
        assert_eq!(trace.count(Caller::Direct, PageKind::File, Outcome::Freed), 0);
        let times: Vec<u64> = trace.records().map(|r| r.at.0).collect();
        assert_eq!(times.len(), RECORDS_MAX);
        assert!(times.is_sorted(), "the oldest first");
        assert_eq!(times[0], 10 * u64::from(SAMPLED_ONE_IN));
    }

    #[test]
    fn a_machine_that_is_watched_keeps_every_decision() {
        let mut trace = Trace::new();
        (0..3).for_each(|n| note(&mut trace, n));
        trace.keep_all();
        (3..300).for_each(|n| note(&mut trace, n));
        let times: Vec<u64> = trace.records().map(|r| r.at.0).collect();
        assert_eq!(times, (44..300).collect::<Vec<_>>());
    }

    #[test]
    fn every_outcome_has_a_name_of_its_own() {
        let mut names: Vec<_> = Outcome::ALL.iter().map(|o| o.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Outcome::COUNT);
        for (n, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, n);
        }
    }
}
