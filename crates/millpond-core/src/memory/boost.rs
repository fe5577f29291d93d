//! Wakes the background reclaimer earlier after it came too late.
//!
//! ```text
//!   free   ── high ─────── + boost     it sleeps
//!          ── low ──────── + boost     it wakes
//!          ─ ─ ─ ─ ─ ─                 half way: it is late, and the boost rises
//!          ── min                      an allocation reclaims for itself
//! ```
//!
//! Between the wake-up and the first freed frame the scheduler takes its time, and a writer at memory speed takes
//! hundreds of frames a millisecond. The delay can't be known in advance, so it is learned. Once half of the distance
//! from `low` to `min` is used up although clean pages are available, both upper watermarks rise, at first by four
//! times their distance, then by twice as much, up to a sixteenth of memory. They fall by half in every 10 s without
//! such an event. Linux's `watermark_boost_factor` raises them in the same way after memory fragmentation.
//!
//! A page of a region that is refaulted within memory's size would still be there had the free memory held it. Each
//! such refault takes one frame off the boost, and never raises it. A writer that fills memory with new pages keeps the
//! boost. A region whose pages were evicted and refaulted would otherwise lose 5 to 8 % of memory to it, a fifth more
//! swap-ins at 1.25 times memory.
//!
//! Measured with a writer of 1.4 GB/s in 512 MiB on two busy processors: each late wake-up made the writer reclaim 1300
//! to 2500 pages itself, of a million. Without a boost that was 2.6 % of all scans at 0.6 GB/s. The free memory is a
//! small price: such a load fills memory with pages that are used once.

use super::watermark::Watermarks;
use crate::units::{Instant, Nanos, PageCount};

/// The largest boost, as a share of memory.
const SHARE_MAX: u64 = 16;
/// The first rise, in distances from `low` to `high`.
const FIRST: u64 = 4;
/// Half of the boost is dropped after this long without a late wake-up or another drop.
const HALVED_AFTER: Nanos = Nanos::from_secs(10);

/// How far the reclaimer's watermarks are raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Boost {
    frames: u64,
    since: Instant,
    /// Already late since it last slept. One wake-up counts as late once, however many callers notice.
    was_late: bool,
}

impl Boost {
    /// The reclaimer is late at `now`, in a pool of `frames`.
    pub fn late(&mut self, now: Instant, marks: Watermarks, frames: PageCount) {
        self.since = now;
        if !self.was_late {
            self.was_late = true;
            let step = FIRST * marks.high.0.saturating_sub(marks.low.0).max(1);
            self.frames = (self.frames * 2).max(step).min(frames.0 / SHARE_MAX);
        }
    }

    /// A page of a region was refaulted that a larger memory would have kept: an unused free frame costs something.
    pub fn refaulted(&mut self) {
        self.frames = self.frames.saturating_sub(1);
    }

    /// The reclaimer has done its work.
    pub fn slept(&mut self, now: Instant) {
        self.was_late = false;
        let halvings = now.since(self.since).0 / HALVED_AFTER.0;
        if halvings > 0 {
            self.frames = self.frames.checked_shr(halvings as u32).unwrap_or(0);
            self.since = now;
        }
    }

    /// `marks` plus the boost, in a pool of `frames`, which may have shrunk since.
    pub fn over(&self, marks: Watermarks, frames: PageCount) -> Watermarks {
        let boost = self.frames.min(frames.0 / SHARE_MAX);
        Watermarks {
            min: marks.min,
            low: PageCount(marks.low.0 + boost),
            high: PageCount(marks.high.0 + boost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MARKS: Watermarks = Watermarks {
        min: PageCount(100),
        low: PageCount(200),
        high: PageCount(300),
    };
    const FRAMES: PageCount = PageCount(16_000);

    fn low(boost: &Boost) -> u64 {
        let marks = boost.over(MARKS, FRAMES);
        assert_eq!(
            (marks.min, marks.high.0 - marks.low.0),
            (PageCount(100), 100),
            "what is between stays"
        );
        marks.low.0
    }

    #[test]
    fn each_page_that_comes_back_takes_a_frame_off_it() {
        let (mut boost, frames) = (Boost::default(), PageCount(100_000));
        boost.late(Instant(0), MARKS, frames);
        for left in (0..400).rev() {
            boost.refaulted();
            assert_eq!(boost.over(MARKS, frames).low, PageCount(200 + left));
        }
        boost.refaulted();
        assert_eq!(boost.over(MARKS, frames), MARKS);
    }

    #[test]
    fn a_reclaimer_that_is_late_wakes_earlier_the_next_time() {
        let mut boost = Boost::default();
        assert_eq!(low(&boost), 200);
        let mut lows = Vec::new();
        for _ in 0..6 {
            for _ in 0..90 {
                boost.late(Instant(7), MARKS, FRAMES);
            }
            boost.slept(Instant(8));
            lows.push(low(&boost));
        }
        assert_eq!(lows, [600, 1000, 1200, 1200, 1200, 1200]);
        let smaller = boost.over(MARKS, PageCount(1_600));
        assert_eq!(
            smaller.low,
            PageCount(300),
            "a smaller pool has a smaller sixteenth"
        );
    }

    #[test]
    fn half_of_it_is_forgiven_every_ten_seconds() {
        let mut boost = Boost::default();
        for _ in 0..2 {
            boost.late(Instant(0), MARKS, FRAMES);
            boost.slept(Instant(0));
        }
        let lows = [9_999, 10_000, 19_999, 20_000, 40_000].map(|ms| {
            boost.slept(Instant(0) + Nanos::from_millis(ms));
            low(&boost)
        });
        assert_eq!(lows, [1000, 600, 600, 400, 250]);
    }
}
