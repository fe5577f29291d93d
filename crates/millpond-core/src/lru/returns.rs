//! Which files' pages come back: what of a file leaves memory, and what of that was wanted again.
//!
//! A page that was read once looks like any other until it has passed through memory; its file does not. Of a news
//! server's articles, read at random in a spool many times as large as memory, next to nothing comes back, and of its
//! history nearly all. So each file has two counts: pages that were evicted, and pages that were wanted again (missed
//! within memory's size in evictions, or found in use by the scan). A file of which an eighth or less comes back, and an
//! eighth of what does of all others, for as many evictions, *passes*: its pages, read because they are wanted, are not kept beyond their burst of uses (rule 6 in `millpond`).
//!
//! Only a difference between files says that, so a single file never passes, nor does one of several that are used alike.
//! The counts are halved as they grow, so that they are of the last evictions; one page in 32 of a file that passes is on
//! trial like all others, and those that come back are active, so it can be found out that they do.

use crate::units::{FileId, PageCount};
use alloc::vec::Vec;

/// Pages of a file that are evicted before anything is said of it, at least.
const EVIDENCE_MIN: u64 = 64;
/// The same as a share of memory: one page in so many.
const EVIDENCE_SHARE: u64 = 512;
/// A file passes if others' pages come back so many times as often.
const TIMES: u64 = 8;

/// A file's returns are halved at so many, even if nothing of it is evicted meanwhile.
const RETURNED_MAX: u64 = 1 << 24;

/// Of a file, or of all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    evicted: u64,
    returned: u64,
    /// It was found to pass once.
    is_known: bool,
}

/// Of all files that are open, by number; of regions nothing, whose pages are always somebody's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Returns {
    files: Vec<Option<Counts>>,
    all: Counts,
}

impl Returns {
    /// A file is known by this number from now on: nothing is known of it.
    pub(super) fn opened(&mut self, file: FileId) {
        let at = file.0 as usize;
        if at >= self.files.len() {
            self.files.resize(at + 1, None);
        }
        self.closed(file);
        self.files[at] = Some(Counts::default());
    }

    /// The file is no more: it is not one of the others any longer.
    pub(super) fn closed(&mut self, file: FileId) {
        if let Some(before) = self.files.get_mut(file.0 as usize).and_then(Option::take) {
            self.all.evicted -= before.evicted;
            self.all.returned -= before.returned;
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
            self.all.returned -= counts.returned - counts.returned / 2;
            counts.evicted /= 2;
            counts.returned /= 2;
        }
    }

    /// A file passes: whether that is so for the first time.
    pub(super) fn is_news(&mut self, file: FileId) -> bool {
        let own = self.files.get_mut(file.0 as usize).and_then(Option::as_mut);
        own.is_some_and(|own| !core::mem::replace(&mut own.is_known, true))
    }

    pub(super) fn returned(&mut self, file: FileId) {
        let Some(Some(counts)) = self.files.get_mut(file.0 as usize) else {
            return;
        };
        counts.returned += 1;
        self.all.returned += 1;
        // What is in use for weeks is never evicted.
        if counts.returned >= RETURNED_MAX {
            self.all.returned -= counts.returned - counts.returned / 2;
            counts.returned /= 2;
        }
    }

    /// Whether so much less of this file comes back than of others that its pages need not be kept.
    pub(super) fn passes(&self, file: FileId, memory: PageCount) -> bool {
        let Some(Some(own)) = self.files.get(file.0 as usize) else {
            return false;
        };
        let evidence = (memory.0 / EVIDENCE_SHARE).max(EVIDENCE_MIN);
        let (evicted, returned) = (own.evicted, own.returned);
        let others_evicted = self.all.evicted - evicted;
        let others_returned = self.all.returned - returned;
        evicted >= evidence
            && others_returned >= evidence / TIMES
            && returned * TIMES <= evicted
            && u128::from(others_returned) * u128::from(evicted)
                >= u128::from(TIMES * (returned + 1)) * u128::from(others_evicted.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: PageCount = PageCount(8192);
    const SPOOL: FileId = FileId(0);
    const HISTORY: FileId = FileId(1);

    fn of(evicted: [u32; 2], returned: [u32; 2]) -> Returns {
        let mut returns = Returns::default();
        for (n, file) in [SPOOL, HISTORY].into_iter().enumerate() {
            returns.opened(file);
            (0..evicted[n]).for_each(|_| returns.evicted(file, MEMORY));
            (0..returned[n]).for_each(|_| returns.returned(file));
        }
        returns
    }

    #[test]
    fn a_file_passes_if_its_pages_come_back_an_eighth_as_often_as_others() {
        assert!(of([200, 200], [1, 40]).passes(SPOOL, MEMORY));
        assert!(!of([200, 200], [1, 40]).passes(HISTORY, MEMORY));
        assert!(!of([200, 200], [10, 40]).passes(SPOOL, MEMORY), "a quarter");
        assert!(of([200, 0], [0, 40]).passes(SPOOL, MEMORY), "others stay in use");
    }

    #[test]
    fn nothing_is_said_without_evidence_or_without_others() {
        assert!(!of([63, 200], [0, 40]).passes(SPOOL, MEMORY), "few went");
        assert!(!of([200, 0], [0, 0]).passes(SPOOL, MEMORY), "alone");
        assert!(
            !of([200, 200], [0, 7]).passes(SPOOL, MEMORY),
            "of the others nothing comes back either"
        );
        assert!(
            !of([200, 200], [0, 40]).passes(FileId(7), MEMORY),
            "never heard of"
        );
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_a_new_file_of_the_number_begins_anew() {
        let mut returns = of([200, 200], [0, 40]);
        (0..300).for_each(|_| returns.returned(SPOOL));
        assert!(!returns.passes(SPOOL, MEMORY));
        // 300 were halved four times and more by then.
        (0..6 * 512).for_each(|_| returns.evicted(SPOOL, MEMORY));
        assert!(returns.passes(SPOOL, MEMORY), "{returns:?}");
        returns.opened(SPOOL);
        assert!(!returns.passes(SPOOL, MEMORY));
        returns.opened(HISTORY);
        assert_eq!(returns.all, Counts::default());
    }

    /// What was closed stood among the others for as long as nobody opened a file by its number.
    #[test]
    fn a_file_that_was_closed_is_compared_with_nobody_and_counts_no_more() {
        let mut returns = of([200, 200], [0, 40]);
        assert!(returns.passes(SPOOL, MEMORY));
        returns.closed(HISTORY);
        returns.evicted(HISTORY, MEMORY);
        returns.returned(HISTORY);
        assert!(!returns.passes(SPOOL, MEMORY), "{returns:?}");
        returns.closed(SPOOL);
        assert_eq!(returns.all, Counts::default());
    }
}
