//! How long a dirtier sleeps, how much it may dirty between two sleeps, and how far it runs below the limits.
//!
//! A task that may dirty `r` pages a second and has dirtied `n` sleeps for `n/r`. Short sleeps cost more than they are
//! worth and long ones are felt, so `n` is chosen for sleeps of about 10 ms for one dirtier, longer for many; never longer
//! than what is dirty on the device lasts it, a fifth of a second at most.
//!
//! Where the hard limit is 0 the rate is 0: no page may be dirtied between two sleeps, so there is one for each page, and
//! each is the longest there is, a tick while the device has little to do. One page a tick is 4 MB/s at 1000 Hz, whichever
//! the disk: the 5 MB/s of Hills 2015. Linux' 8 pages for a task over the limits are not reached, being an upper bound.
//!
//! Linux 7.0: `wb_max_pause`, `wb_min_pause`, `dirty_poll_interval`. Rates are in pages a second, times in ticks.

use millpond_core::units::PageCount;

/// Sleeps cover this many pages if possible: 128 KiB, a read-ahead window's worth of overlap.
pub const POLL_PAGES: u64 = 32;
/// Over the limits a task looks after each 8 pages: 32 KiB.
pub const POLL_PAGES_EXCEEDED: u64 = 8;

/// The longest sleep of all: a fifth of a second, a tick at least.
pub fn pause_max(hz: u64) -> u64 {
    (hz / 5).max(1)
}

/// The base-2 logarithm, rounded down; 0 of 0, as Linux' `ilog2` is used.
fn log2(n: u64) -> u64 {
    u64::from(n.max(1).ilog2())
}

/// How many pages a task dirties below the limits before it looks again: the square root of the room, as a power of two.
pub fn poll_pages(dirty: PageCount, hard: PageCount) -> PageCount {
    match hard.saturating_sub(dirty).0 {
        0 => PageCount(1),
        room => PageCount(1 << (log2(room) / 2)),
    }
}

/// The longest sleep while `dirty` pages of a device wait for it, which writes `bandwidth` pages a second: half an eighth
/// of a second's worth less than they last.
pub fn longest(bandwidth: u64, dirty: PageCount, hz: u64) -> u64 {
    let lasts = dirty.0 / (1 + bandwidth / (1 + hz / 8).next_power_of_two());
    (lasts + 1).min(pause_max(hz))
}

/// The shortest sleep that is worth it, and how many pages are dirtied between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortest {
    /// Ticks.
    pub pause: u64,
    /// Pages.
    pub pages: u64,
}

/// For a task that may dirty `task_rate` pages a second where all of a device's may dirty `rate` each, and the device
/// writes `bandwidth`.
pub fn shortest(bandwidth: u64, rate: u64, task_rate: u64, longest: u64, hz: u64) -> Shortest {
    let second = hz.next_power_of_two();
    let mut ticks = (hz / 100).max(1);
    let (high, low) = (log2(bandwidth), log2(rate));
    if high > low {
        // 10 ms more for each doubling of the number of dirtiers.
        ticks += (high - low) * (10 * hz) / 1024;
    }
    ticks = ticks.min(1 + longest / 2);
    let mut pages = rate * ticks / second;
    if pages < POLL_PAGES {
        ticks = longest;
        pages = rate * ticks / second;
        if pages > POLL_PAGES {
            pages = POLL_PAGES;
            ticks = hz * POLL_PAGES / rate.max(1);
        }
    }
    if hz * pages / (task_rate + 1) > longest {
        ticks = longest;
        pages = task_rate * ticks / second;
    }
    Shortest {
        pause: if pages >= POLL_PAGES { 1 + ticks / 2 } else { ticks },
        pages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_at_1000_hz() {
        for (bandwidth, rate, dirty, expected) in [
            (25_600, 25_600, 100_000, (200, 6, 250)),
            (25_600, 2_560, 100_000, (200, 20, 97)),
            (25_600, 256, 100_000, (200, 63, 32)),
            (25_600, 26, 100_000, (200, 200, 5)),
            (1_280, 1_280, 2_000, (182, 13, 32)),
            (1_280, 64, 100, (10, 10, 0)),
        ] {
            let longest = longest(bandwidth, PageCount(dirty), 1000);
            let shortest = shortest(bandwidth, rate, rate, longest, 1000);
            assert_eq!(
                (longest, shortest.pause, shortest.pages),
                expected,
                "{bandwidth} {rate} {dirty}"
            );
        }
    }

    #[test]
    fn the_more_room_the_more_rarely_it_is_looked_at() {
        for (gap, pages) in [
            (1, 1),
            (16, 4),
            (100, 8),
            (1024, 32),
            (4096, 64),
            (26_214, 128),
            (262_144, 512),
        ] {
            assert_eq!(
                poll_pages(PageCount(1000), PageCount(1000 + gap)),
                PageCount(pages),
                "{gap}"
            );
        }
        assert_eq!(poll_pages(PageCount(1000), PageCount(1000)), PageCount(1));
        assert_eq!(poll_pages(PageCount(1000), PageCount(0)), PageCount(1));
    }

    /// Hills 2015: 1 tick up to 40 dirty pages, 2 up to 81, at 250 Hz and 5 MB/s.
    #[test]
    fn few_dirty_pages_make_short_sleeps_which_are_whole_ticks() {
        let at = |dirty| longest(1280, PageCount(dirty), 250);
        assert_eq!([at(0), at(40), at(41), at(81), at(82)], [1, 1, 2, 2, 3]);
        assert_eq!(longest(25_600, PageCount(1_000_000), 250), 50);
        assert_eq!([pause_max(1000), pause_max(100), pause_max(1)], [200, 20, 1]);
    }
}
