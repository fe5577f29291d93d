//! The refault rate of each file: how many of its evicted pages were needed again.
//!
//! A page read once looks like any other until it has passed through memory; its file does not. A news server reads
//! articles at random from a spool many times the size of memory and uses almost none of them again, but almost all of
//! its history. So each file has two counts: pages evicted, and pages used again (missed within memory's size in
//! evictions, or found in use by the scan). A *no-reuse file* is one with a reuse rate of at most an eighth, and at
//! most an eighth of the rate of all other files over as many evictions. Pages of it that a caller reads are kept for
//! their correlated-reference window only (rule 6 in `millpond`).
//!
//! Only a difference between files shows this: a single file is never a no-reuse file, nor is one of several that are
//! reused alike. The counts are halved as they grow, so they describe recent evictions. Bimodal insertion also draws a
//! few pages of a no-reuse file, and refaults are counted, so a file that is reused after all is detected.

use crate::units::{FileId, PageCount};
use alloc::vec::Vec;

/// The fewest evicted pages of a file before it is judged.
const EVIDENCE_MIN: u64 = 64;
/// The same as a share of memory: one page in this many.
const EVIDENCE_SHARE: u64 = 512;
/// A file is a no-reuse file if other files' pages are used again this many times as often.
const TIMES: u64 = 8;

/// A file's refaults are halved at this count, even if none of its pages is evicted in the meantime.
const REFAULTED_MAX: u64 = 1 << 24;

/// The counts of one file, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    evicted: u64,
    refaulted: u64,
    /// It has been found to be a no-reuse file.
    is_detected: bool,
}

/// The counts of all open files, by number. Regions have none: their pages are always in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RefaultRates {
    files: Vec<Option<Counts>>,
    all: Counts,
}

impl RefaultRates {
    /// A file takes this number. Nothing is known about it.
    pub(super) fn opened(&mut self, file: FileId) {
        let at = file.0 as usize;
        if at >= self.files.len() {
            self.files.resize(at + 1, None);
        }
        self.closed(file);
        self.files[at] = Some(Counts::default());
    }

    /// The file is closed and no longer counts among the others.
    pub(super) fn closed(&mut self, file: FileId) {
        if let Some(before) = self.files.get_mut(file.0 as usize).and_then(Option::take) {
            self.all.evicted -= before.evicted;
            self.all.refaulted -= before.refaulted;
        }
    }

    /// Whether this is the number of an open file.
    pub(super) fn is_file(&self, file: FileId) -> bool {
        matches!(self.files.get(file.0 as usize), Some(Some(_)))
    }

    pub(super) fn evicted(&mut self, file: FileId, memory: PageCount) {
        let Some(Some(counts)) = self.files.get_mut(file.0 as usize) else {
            return;
        };
        counts.evicted += 1;
        self.all.evicted += 1;
        // As many as an eighth of memory: what is known is then of the last quarter.
        if counts.evicted >= (memory.0 / 8).clamp(EVIDENCE_MIN * 4, 1 << 24) {
            self.all.evicted -= counts.evicted - counts.evicted / 2;
            self.all.refaulted -= counts.refaulted - counts.refaulted / 2;
            counts.evicted /= 2;
            counts.refaulted /= 2;
        }
    }

    /// Records that it is a no-reuse file. Returns whether that is new.
    pub(super) fn note_no_reuse(&mut self, file: FileId) -> bool {
        let own = self.files.get_mut(file.0 as usize).and_then(Option::as_mut);
        own.is_some_and(|own| !core::mem::replace(&mut own.is_detected, true))
    }

    pub(super) fn refaulted(&mut self, file: FileId) {
        let Some(Some(counts)) = self.files.get_mut(file.0 as usize) else {
            return;
        };
        counts.refaulted += 1;
        self.all.refaulted += 1;
        // What is in use for weeks is never evicted.
        if counts.refaulted >= REFAULTED_MAX {
            self.all.refaulted -= counts.refaulted - counts.refaulted / 2;
            counts.refaulted /= 2;
        }
    }

    /// Whether this file's pages are reused so much less than those of others that they need not be kept.
    pub(super) fn is_no_reuse(&self, file: FileId, memory: PageCount) -> bool {
        let Some(Some(own)) = self.files.get(file.0 as usize) else {
            return false;
        };
        let evidence = (memory.0 / EVIDENCE_SHARE).max(EVIDENCE_MIN);
        let (evicted, refaulted) = (own.evicted, own.refaulted);
        let others_evicted = self.all.evicted - evicted;
        let others_refaulted = self.all.refaulted - refaulted;
        evicted >= evidence
            && others_refaulted >= evidence / TIMES
            && refaulted * TIMES <= evicted
            && u128::from(others_refaulted) * u128::from(evicted)
                >= u128::from(TIMES * (refaulted + 1)) * u128::from(others_evicted.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: PageCount = PageCount(8192);
    const SPOOL: FileId = FileId(0);
    const HISTORY: FileId = FileId(1);

    fn of(evicted: [u32; 2], refaulted: [u32; 2]) -> RefaultRates {
        let mut rates = RefaultRates::default();
        for (n, file) in [SPOOL, HISTORY].into_iter().enumerate() {
            rates.opened(file);
            (0..evicted[n]).for_each(|_| rates.evicted(file, MEMORY));
            (0..refaulted[n]).for_each(|_| rates.refaulted(file));
        }
        rates
    }

    #[test]
    fn a_no_reuse_file_refaults_an_eighth_as_often_as_others() {
        assert!(of([200, 200], [1, 40]).is_no_reuse(SPOOL, MEMORY));
        assert!(!of([200, 200], [1, 40]).is_no_reuse(HISTORY, MEMORY));
        assert!(!of([200, 200], [10, 40]).is_no_reuse(SPOOL, MEMORY), "a quarter");
        assert!(
            of([200, 0], [0, 40]).is_no_reuse(SPOOL, MEMORY),
            "others stay in use"
        );
    }

    #[test]
    fn nothing_is_said_without_evidence_or_without_others() {
        assert!(!of([63, 200], [0, 40]).is_no_reuse(SPOOL, MEMORY), "few went");
        assert!(!of([200, 0], [0, 0]).is_no_reuse(SPOOL, MEMORY), "alone");
        assert!(
            !of([200, 200], [0, 7]).is_no_reuse(SPOOL, MEMORY),
            "of the others nothing is used again either"
        );
        assert!(
            !of([200, 200], [0, 40]).is_no_reuse(FileId(7), MEMORY),
            "never heard of"
        );
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_a_new_file_of_the_number_begins_anew() {
        let mut rates = of([200, 200], [0, 40]);
        (0..300).for_each(|_| rates.refaulted(SPOOL));
        assert!(!rates.is_no_reuse(SPOOL, MEMORY));
        // 300 were halved four times and more by then.
        (0..6 * 512).for_each(|_| rates.evicted(SPOOL, MEMORY));
        assert!(rates.is_no_reuse(SPOOL, MEMORY), "{rates:?}");
        rates.opened(SPOOL);
        assert!(!rates.is_no_reuse(SPOOL, MEMORY));
        rates.opened(HISTORY);
        assert_eq!(rates.all, Counts::default());
    }

    /// What was closed stood among the others for as long as no file was opened by its number.
    #[test]
    fn a_file_that_was_closed_is_compared_with_nobody_and_counts_no_more() {
        let mut rates = of([200, 200], [0, 40]);
        assert!(rates.is_no_reuse(SPOOL, MEMORY));
        rates.closed(HISTORY);
        rates.evicted(HISTORY, MEMORY);
        rates.refaulted(HISTORY);
        assert!(!rates.is_no_reuse(SPOOL, MEMORY), "{rates:?}");
        rates.closed(SPOOL);
        assert_eq!(rates.all, Counts::default());
    }
}
