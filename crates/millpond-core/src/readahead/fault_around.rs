//! Fault-around for a thread that walks through pages in order: one soft fault maps many pages.
//!
//! ```text
//!   touched            p   p+1  p+2     p+4             p+8                            p+16
//!   brought back with  │ 1 │ 1 │ 2     │ 4             │ 8                             │ 16 ...
//!                      ▲   ▲   ▲       ▲               ▲  each proves that the one before was used to its end
//! ```
//!
//! A page unmapped from its region to sample its uses costs its next user a fault. For a walk through memory that is
//! all present, this is most of the time: 128 pages of 20 us. A second fault right after the last one is a walk, and
//! each fault at the end of the previous window doubles the window, up to [`WINDOW_MAX`]. Windows end at a multiple of
//! their length, so a thread working on aligned records gets nothing of the next record. All pages of a window count as
//! used, like those before it. A thread that stops inside a window has at most as many pages wrongly counted as it
//! really used.
//!
//! Where a walk will start can't be foreseen, but whether a fault starts one can be learned. Each walk that continued
//! doubles the first window, up to [`START_MAX`]; each fault that nothing followed halves it. Records of 128 pages then
//! take 3 faults instead of 8, and random touches map one page each.
//!
//! Linux maps the surroundings of a file's fault (`fault_around_bytes`, 64 KiB, aligned), used or not. Anonymous pages
//! stay mapped there, and reading their accessed bits costs nothing.

use crate::units::PageIndex;

/// Pages that come back with one fault at most: with 64 a move costs a page a twelfth of what it costs alone.
pub const WINDOW_MAX: u64 = 64;

/// The least, if the page was read ahead: a reader was seen to go there, so these will be used (`fault_around_bytes`).
pub const TOGETHER: u64 = 16;

/// The longest first window: half of the longest, so that what was brought in vain of a record is less than it.
pub const START_MAX: u64 = 32;

/// The number of concurrent walkers of a region that are distinguished.
const WALKERS: usize = 16;

/// Pages between two faults of a walk that may have been there all the time.
const GAP_MAX: u64 = 64;

#[derive(Clone, Copy, Default, Debug)]
struct Walker {
    /// Its last window.
    first: u64,
    end: u64,
    /// Its length without alignment; 0: there is no walker.
    window: u64,
    /// It came to the end of a window.
    went_on: bool,
}

/// The walkers of a region.
#[derive(Clone, Debug)]
pub struct FaultAround {
    walkers: [Walker; WALKERS],
    /// The next to be forgotten.
    hand: usize,
    /// The first window of a walker.
    start: u64,
}

impl Default for FaultAround {
    fn default() -> FaultAround {
        FaultAround {
            walkers: [Walker::default(); WALKERS],
            hand: 0,
            start: 1,
        }
    }
}

impl FaultAround {
    /// A page that was in its frame is touched. How many pages from it on are to come back with it, those of them that are
    /// in their frames: at least itself. Costs a look at 16 walkers.
    pub fn touched(&mut self, page: PageIndex) -> u64 {
        let page = page.0;
        let is_his = |w: &&mut Walker| w.window > 0 && w.first <= page && page <= w.end + GAP_MAX;
        if let Some(walker) = self.walkers.iter_mut().find(is_his) {
            // A page skipped in a window because another thread held it proves nothing.
            if page >= walker.end {
                let window = (walker.window * 2).min(WINDOW_MAX);
                *walker = Walker::at(page, window);
                walker.went_on = true;
            }
            return walker.end - page;
        }
        let walker = &mut self.walkers[self.hand];
        if walker.window > 0 {
            self.start = if walker.went_on {
                (self.start * 2).min(START_MAX)
            } else {
                (self.start / 2).max(1)
            };
        }
        *walker = Walker::at(page, self.start);
        self.hand = (self.hand + 1) % WALKERS;
        walker.end - page
    }
}

impl Walker {
    fn at(page: u64, window: u64) -> Walker {
        Walker {
            first: page,
            end: (page + window) / window * window,
            window,
            went_on: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a walk through these pages, none of which is in its region, and the page after the last one
    /// brought.
    fn walk(around: &mut FaultAround, pages: core::ops::Range<u64>) -> (u64, u64) {
        let (mut faults, mut end) = (0, pages.start);
        for page in pages {
            if page >= end {
                faults += 1;
                end = page + around.touched(PageIndex(page));
            }
        }
        (faults, end)
    }

    #[test]
    fn a_walk_doubles_its_window_and_a_record_brings_nothing_of_the_next() {
        for (length, faults) in [(1, 1), (2, 2), (16, 5), (128, 8), (512, 14)] {
            for first in [0, 1024, 512 * 7] {
                let mut around = FaultAround::default();
                assert_eq!(walk(&mut around, first..first + length), (faults, first + length));
            }
        }
    }

    #[test]
    fn random_touches_bring_one_page_at_a_time() {
        let mut around = FaultAround::default();
        for n in 0..1000 {
            assert_eq!(around.touched(PageIndex(n * 7919 % 100_000 * 100)), 1);
        }
    }

    #[test]
    fn several_walks_at_a_time_are_told_apart() {
        let mut around = FaultAround::default();
        let mut ends = [0; WALKERS];
        let mut faults = 0;
        for n in 0..1024 {
            for (walker, end) in ends.iter_mut().enumerate() {
                let page = walker as u64 * 100_000 + n;
                if page >= *end {
                    faults += 1;
                    *end = page + around.touched(PageIndex(page));
                }
            }
        }
        assert_eq!(faults, 22 * WALKERS);
    }

    #[test]
    fn a_stream_that_stops_was_brought_no_more_than_it_had_used() {
        for length in 1..300 {
            let (_, end) = walk(&mut FaultAround::default(), 0..length);
            assert!(end - length < length.min(WINDOW_MAX), "{length}: {end}");
        }
    }

    #[test]
    fn records_are_learnt_and_random_touches_unlearn_them() {
        let mut around = FaultAround::default();
        for n in 0..100 {
            walk(&mut around, n * 1024..n * 1024 + 128);
        }
        assert_eq!(
            walk(&mut around, 200_000 * 128..200_001 * 128),
            (3, 200_001 * 128)
        );
        let mut vain = 0;
        for n in 0..1000 {
            vain += around.touched(PageIndex(1_000_000 + n * 7919 % 100_000 * 100)) - 1;
        }
        // Until those that went on are forgotten, one after the other, and five halvings more.
        assert!(vain < (WALKERS as u64 + 2) * START_MAX, "{vain}");
        assert_eq!(around.touched(PageIndex(5)), 1);
    }

    /// A present page needs no fault: the walk continues after it.
    #[test]
    fn pages_that_were_there_all_the_time_do_not_end_a_walk() {
        let mut around = FaultAround::default();
        walk(&mut around, 0..16);
        assert_eq!(around.touched(PageIndex(40)), 24, "to 64");
        assert_eq!(
            around.touched(PageIndex(44)),
            20,
            "left behind: what is left of the window"
        );
        assert_eq!(around.touched(PageIndex(64)), 64);
    }
}
