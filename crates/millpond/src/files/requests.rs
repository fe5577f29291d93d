//! How many pages of one file calls have asked for.
//!
//! Exact for the first thousands. Then one in [`SAMPLED_ONE_IN`] is counted for all, so that threads which read one file
//! write nothing that the others read: what every hit looks at stands in another line of memory than the count.

use crate::frames::requests::SAMPLED_ONE_IN;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// So many are counted one by one; then a sample more or less is 3 %.
const EXACT_MAX: u64 = 8192;

/// Pages of a file asked for.
#[derive(Default)]
pub(crate) struct FileRequests {
    is_sampled: AtomicBool,
    count: Line,
}

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl FileRequests {
    /// A page was found; `is_sample`: it stands for others as well, where not each of them is counted.
    #[inline]
    pub(crate) fn found(&self, is_sample: bool) {
        if is_sample | !self.is_sampled.load(Ordering::Relaxed) {
            self.count(is_sample);
        }
    }

    #[cold]
    fn count(&self, is_sample: bool) {
        match (self.is_sampled.load(Ordering::Relaxed), is_sample) {
            (false, _) => self.missed(1),
            (true, true) => self.missed(SAMPLED_ONE_IN),
            (true, false) => {}
        }
    }

    /// So many pages were asked for and were not there.
    #[inline]
    pub(crate) fn missed(&self, pages: u64) {
        let count = self.count.0.fetch_add(pages, Ordering::Relaxed) + pages;
        if count >= EXACT_MAX && !self.is_sampled.load(Ordering::Relaxed) {
            self.is_sampled.store(true, Ordering::Relaxed);
        }
    }

    /// All of them, to a few per cent.
    pub(crate) fn total(&self) -> u64 {
        self.count.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::requests::Requests;

    #[test]
    fn few_requests_are_exact_and_many_within_three_per_cent() {
        let (all, file) = (Requests::new().unwrap(), FileRequests::default());
        for n in 1..=1_000_000 {
            file.found(all.found());
            let off = file.total().abs_diff(n);
            let allowed = if n <= EXACT_MAX { 0 } else { n / 30 };
            assert!(off <= allowed, "{} of {n}", file.total());
        }
        file.missed(7);
    }
}
