//! How many pages calls have requested: of a file, and of all files of a cache.
//!
//! Exact for the first thousands of a file. Then about one request in [`SAMPLED_ONE_IN`] is counted for all, so that threads
//! which read one file seldom write what the others read. Each thread counts down to its next sample, which is all that a
//! hit costs: a decrement, and a look at a flag of the file.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One request in this many is counted, on average.
const SAMPLED_ONE_IN: u32 = 256;

/// A file's first requests, this many, are counted one by one; after that a sample more or less is at most 6 %.
const EXACT_MAX: u64 = 8192;

thread_local! {
    /// Requests of this thread until the next sample, that one included.
    static LEFT: Cell<u32> = const { Cell::new(1) };
    /// Requests from the last sample to the next one, for which that stands.
    static SPAN: Cell<u32> = const { Cell::new(1) };
    /// Where a sequence of numbers stands that looks random: spans of one length, or such as make up for one another, would
    /// sample a loop at some of its places only.
    static SEQUENCE: Cell<u32> = const { Cell::new(1) };
}

/// Counts a request of this thread. Whether it is a sample.
#[inline]
fn is_sample() -> bool {
    LEFT.with(|left| {
        let now = left.get().wrapping_sub(1);
        left.set(now);
        now == 0
    })
}

/// The number of requests that the present sample stands for. Draws the next span: from 1 to twice the mean, less 1.
fn take_sample() -> u32 {
    // Of "Numerical Recipes"; its upper bits are good.
    let drawn = SEQUENCE.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    SEQUENCE.set(drawn);
    let span = ((u64::from(drawn) * u64::from(2 * SAMPLED_ONE_IN - 1)) >> 32) as u32 + 1;
    LEFT.set(span);
    SPAN.replace(span)
}

/// Requested pages of a file. In cache lines of its own, away from data that other threads read.
#[derive(Default)]
pub(crate) struct FileRequests {
    is_sampled: AtomicBool,
    count: Line,
}

/// Pages of all files asked for.
#[derive(Default)]
pub(crate) struct Requests(Line);

#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Requests {
    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }
}

impl FileRequests {
    /// A page was found; `all` has those of the cache.
    #[inline]
    pub(crate) fn found(&self, all: &Requests) {
        if is_sample() | !self.is_sampled.load(Ordering::Relaxed) {
            self.count(all);
        }
    }

    #[cold]
    fn count(&self, all: &Requests) {
        let sample = (LEFT.get() == 0).then(take_sample);
        if !self.is_sampled.load(Ordering::Relaxed) {
            self.add(1, all);
        } else if let Some(requests) = sample {
            self.add(requests.into(), all);
        }
    }

    /// Counts this many requested pages.
    pub(crate) fn add(&self, pages: u64, all: &Requests) {
        all.0.0.fetch_add(pages, Ordering::Relaxed);
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

    #[test]
    fn few_requests_are_exact_and_of_many_two_spans_are_missing_at_most() {
        let (all, file) = (Requests::default(), FileRequests::default());
        for n in 1..=1_000_000 {
            file.found(&all);
            let off = file.total().abs_diff(n);
            let allowed = if n <= EXACT_MAX {
                0
            } else {
                4 * u64::from(SAMPLED_ONE_IN)
            };
            assert!(off <= allowed, "{} of {n}", file.total());
        }
        assert_eq!(all.total(), file.total());
    }

    #[test]
    fn the_files_of_a_loop_are_sampled_alike_whatever_its_length() {
        for files in [2, 61, 256] {
            let all = Requests::default();
            let file = || FileRequests {
                is_sampled: AtomicBool::new(true),
                ..FileRequests::default()
            };
            let files: Vec<_> = (0..files).map(|_| file()).collect();
            let each = 300_000;
            for n in 0..files.len() * each {
                files[n % files.len()].found(&all);
            }
            let is_near = |file: &FileRequests| file.total().abs_diff(each as u64) <= each as u64 / 5;
            assert!(files.iter().all(is_near), "{} files", files.len());
        }
    }
}
