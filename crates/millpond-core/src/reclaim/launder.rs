//! The page at the cold end: take it, give it another lap, or tag it.
//!
//! ```text
//!   clean                          take it
//!   dirty, first meeting           mark its lap, send it round                (Dillon 2000: two laps)
//!   dirty, met again               tag it "free on clean"                     (Gorman 2011, patch 4)
//!   dirty, in trouble              the same, at the first meeting              (Linux 4.11)
//!     and clean pages are scarce     and flag it for the flusher              (Gorman 2011, patch 5)
//!   being written                  tag it "free on clean"
//!   pinned                         send it round
//!   being read                     off the lists until it is there
//! ```
//!
//! A tagged page goes to the active list, so that the scan doesn't meet it repeatedly while it is being written, and
//! becomes the next victim when the write ends (Linux 7.0). Without this a streaming writer made every allocation walk
//! the whole list: 65 million pages were scanned to write 12 GiB.
//!
//! A clean page costs nothing to take; a dirty one costs the device a write. So a dirty page gets another lap to be
//! used again. After that it stays until its file's turn comes, by age or by the limits on dirty pages. Reclaim does
//! not have it written while the pool has clean pages. Only in trouble, and when these are scarce, does it flag the page.
//! (When the second meeting triggered a write, a news server's disk was full of writes: 39 readers waited, against 2.5
//! under Dillon 2000's own rules; docs/decisions/0009-reclaim.md.)

use crate::mutation::{self, Mutation};
use crate::page::Phase;
use crate::units::PageCount;

/// Linux's `DEF_PRIORITY`: a scan starts by offering 1/4096 of a list.
pub const PRIORITY_DEFAULT: u32 = 12;

/// Below this priority reclaim is in trouble: Linux's `DEF_PRIORITY - 2`.
pub const PRIORITY_TROUBLE: u32 = PRIORITY_DEFAULT - 2;

/// A scan in trouble has scanned at least this many pages without finding what it needs: Linux's `SWAP_CLUSTER_MAX`.
/// Needed for pools below 64 MiB, where a low priority alone means little: 1/1024 of them is a page or two.
const TROUBLE_PAGES: PageCount = PageCount(32);

/// Whether a scan at `priority`, which may look at `offered` of `all` pages, is in trouble: earlier scans at higher
/// priorities have not found enough clean pages.
pub fn is_in_trouble(priority: u32, offered: PageCount, all: PageCount) -> bool {
    priority < PRIORITY_TROUBLE && offered >= TROUBLE_PAGES.min(all)
}

/// Whether a scan in trouble has dirty pages written: the pool has no more `clean` pages than background reclaim wants
/// free (`high`), or all pages were offered, at priority 0, so that the clean ones are in use.
///
/// A low priority alone says what the next pages of a list are, not what the pool has. The inactive list may be shorter
/// than the limit on dirty pages, and hold nothing else while the active list is clean. A writer of a large file was then
/// in trouble all the time, and its pages were written out of turn: 95 to 117 MB/s instead of 120 on a rotating disk
/// (docs/experiments/hills2015.md).
pub fn is_clean_scarce(priority: u32, clean: PageCount, high: PageCount) -> bool {
    clean <= high || priority == 0
}

/// What to do with the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Evict it, unless it turns out to be pinned.
    Take,
    /// Keep it off the lists: it is being read, and comes back when that has ended.
    KeepOff,
    /// Move it to the warm end, with its lap marked.
    MarkLap,
    /// Free it as soon as its write ends.
    FreeOnClean {
        /// Whether to flag it for the flusher, to be written next.
        flag: bool,
    },
}

/// Laps that a dirty page gets before it is tagged: the one that ends at the first meeting, and one more (Dillon 2000).
const LAPS: u8 = 2;

/// Decides for a page in `phase`. `laps`: how often it got [`Decision::MarkLap`] since it was last clean. `trouble`:
/// [`is_in_trouble`]. `scarce`: [`is_clean_scarce`].
#[inline]
pub fn at_cold_end(phase: Phase, laps: u8, trouble: bool, scarce: bool) -> Decision {
    match phase {
        Phase::Clean => Decision::Take,
        Phase::Dirty if mutation::is(Mutation::EvictDirty) => Decision::Take,
        Phase::Dirty if laps + 1 >= LAPS || trouble => Decision::FreeOnClean {
            flag: trouble && scarce,
        },
        Phase::Dirty => Decision::MarkLap,
        Phase::Writing | Phase::Redirtied => Decision::FreeOnClean { flag: false },
        Phase::Loading | Phase::Free => Decision::KeepOff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_page_gets_two_trips() {
        assert_eq!(at_cold_end(Phase::Dirty, 0, false, true), Decision::MarkLap);
        assert_eq!(
            at_cold_end(Phase::Dirty, 1, false, true),
            Decision::FreeOnClean { flag: false },
            "and waits for its file's turn"
        );
    }

    #[test]
    fn in_trouble_the_lap_is_skipped_and_if_clean_pages_are_scarce_the_flusher_is_told() {
        for (laps, scarce) in [(0, false), (0, true), (1, false), (1, true)] {
            assert_eq!(
                at_cold_end(Phase::Dirty, laps, true, scarce),
                Decision::FreeOnClean { flag: scarce }
            );
        }
    }

    #[test]
    fn trouble_begins_below_priority_10_and_not_before_32_pages_were_looked_at() {
        let begins = |pages: u64| {
            let at =
                |priority: &u32| is_in_trouble(*priority, PageCount(pages >> priority), PageCount(pages));
            (0..=PRIORITY_DEFAULT).rev().find(at)
        };
        assert_eq!(begins(1 << 18), Some(9), "1 GiB");
        assert_eq!(begins(16_384), Some(9), "64 MiB");
        assert_eq!(begins(11_212), Some(8));
        assert_eq!(begins(256), Some(3));
        assert_eq!(begins(20), Some(0), "whatever there is");
    }

    #[test]
    fn clean_pages_are_scarce_at_the_high_watermark_or_where_none_of_them_could_be_taken() {
        let high = PageCount(300);
        assert!(is_clean_scarce(9, PageCount(300), high));
        assert!(!is_clean_scarce(9, PageCount(301), high));
        assert!(!is_clean_scarce(1, PageCount(301), high));
        assert!(is_clean_scarce(0, PageCount(301), high), "all of them are in use");
    }

    #[test]
    fn no_scanned_page_is_written() {
        for phase in [
            Phase::Clean,
            Phase::Dirty,
            Phase::Writing,
            Phase::Redirtied,
            Phase::Loading,
        ] {
            for flag in [false, true] {
                let decision = at_cold_end(phase, 1, flag, true);
                assert_eq!(
                    decision == Decision::Take,
                    phase == Phase::Clean,
                    "{phase:?}, {flag}"
                );
            }
        }
    }
}
