//! The page at the cold end: take it, send it round, or tag it.
//!
//! ```text
//!   clean                          take it
//!   dirty, first meeting           mark its lap, send it round                (seed 003: two laps)
//!   dirty, met again, or trouble   tag it "free on clean", flag its file      (seed 000, patches 4 and 5)
//!   being written                  tag it "free on clean"
//!   loading, pinned                send it round
//! ```
//!
//! A tagged page goes to the active list, so that the scan doesn't meet it again and again while its write is on
//! its way, and becomes the next victim when that ends (Linux 7.0). Without it a streaming writer made every
//! allocation walk the whole list: 65 million pages were looked at to write 12 GiB.
//!
//! A clean page costs nothing to take; a dirty one costs the device a write. So a dirty page gets one lap
//! more to be used again, or to be written in its file's turn, before anybody is told to hurry. In trouble
//! (Linux: a priority below `DEF_PRIORITY - 2`) the lap is skipped.

pub mod filesystem;
pub mod linux;

use crate::mutation::{self, Mutation};
use crate::page::Phase;
use crate::reclaim::freebsd::FreeBsdRules;
use linux::LinuxRules;

/// Who decides about a dirty page at the cold end: a closed set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Laundering {
    /// Millpond's own, [`at_cold_end`]: reclaim has no way to write.
    Millpond,
    /// Linux' from 3.0 to 7.0, with seed 000's patches one by one: [`linux::at_cold_end`].
    Linux(LinuxRules),
    /// FreeBSD's from 4.0 to 13, seed 003's four among them: [`crate::reclaim::freebsd::launder::at_cold_end`].
    FreeBsd(FreeBsdRules),
}

/// Linux' `DEF_PRIORITY`: a scan begins by offering 1/4096 of a list.
pub const PRIORITY_DEFAULT: u32 = 12;

/// From this priority down, reclaim is in trouble: Linux' `DEF_PRIORITY - 2`.
pub const PRIORITY_TROUBLE: u32 = PRIORITY_DEFAULT - 2;

/// What to do with the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Evict it, unless it turns out to be pinned.
    Take,
    /// To the warm end.
    SendRound,
    /// To the warm end, with its lap marked.
    MarkLap,
    /// Free it as soon as its write ends; `flag`: and let its file be written first.
    FreeOnClean {
        /// Whether the flusher must be told.
        flag: bool,
    },
}

/// Decides for a page in `phase` that is met at `priority`. `lap`: it was met dirty before.
#[inline]
pub fn at_cold_end(phase: Phase, lap: bool, priority: u32) -> Decision {
    match phase {
        Phase::Clean => Decision::Take,
        Phase::Dirty if mutation::is(Mutation::EvictDirty) => Decision::Take,
        Phase::Dirty if lap || priority < PRIORITY_TROUBLE => Decision::FreeOnClean { flag: true },
        Phase::Dirty => Decision::MarkLap,
        Phase::Writing | Phase::Redirtied => Decision::FreeOnClean { flag: false },
        Phase::Loading | Phase::Free => Decision::SendRound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_page_gets_two_trips() {
        assert_eq!(at_cold_end(Phase::Dirty, false, 12), Decision::MarkLap);
        assert_eq!(
            at_cold_end(Phase::Dirty, true, 12),
            Decision::FreeOnClean { flag: true }
        );
    }

    #[test]
    fn in_trouble_the_lap_is_skipped() {
        assert_eq!(at_cold_end(Phase::Dirty, false, 10), Decision::MarkLap);
        assert_eq!(
            at_cold_end(Phase::Dirty, false, 9),
            Decision::FreeOnClean { flag: true }
        );
    }

    #[test]
    fn nothing_that_is_met_is_written() {
        for phase in [
            Phase::Clean,
            Phase::Dirty,
            Phase::Writing,
            Phase::Redirtied,
            Phase::Loading,
        ] {
            for priority in 0..=12 {
                let decision = at_cold_end(phase, true, priority);
                assert_eq!(
                    decision == Decision::Take,
                    phase == Phase::Clean,
                    "{phase:?} at {priority}"
                );
            }
        }
    }
}
