//! Detects whether the device serves new writes before waiting reads.
//!
//! Decides between `TimeSlices` and `SideBySide`. The inputs are the bytes written while a caller waited, and how many
//! of them were issued after it began to wait. The device favors writes if half of the written bytes came in
//! uninterrupted runs, between two served reads, as long as the limit in transit. The verdict stands until less than a
//! quarter did.
//!
//! A rotating disk favors writes: after a sequential write the next one is nearest, so reads wait as long as there is
//! one.

use crate::units::Bytes;

/// How many times the limit in transit is written before a verdict.
const LIMITS: u64 = 16;

/// Observations since the last verdict.
#[derive(Clone, Debug, Default)]
pub(super) struct Detector {
    /// Bytes issued and completed since the last wait ended.
    ahead: u64,
    /// Bytes written while a caller waited, and how many of them were served before it.
    beside: u64,
    served_first: u64,
    favours_writes: bool,
}

impl Detector {
    /// `bytes` were written while a caller waited. `later`: they were issued after the wait began.
    pub(super) fn written(&mut self, bytes: Bytes, later: bool) {
        self.beside += bytes.0;
        if later {
            self.ahead += bytes.0;
        }
    }

    /// The wait that ended was not for a transfer.
    pub(super) fn forget_ahead(&mut self) {
        self.ahead = 0;
    }

    /// The last verdict.
    pub(super) fn favours_writes(&self) -> bool {
        self.favours_writes
    }

    /// A wait for a transfer has ended, with at most `limit` in transit. Returns whether the device favors writes, if a
    /// verdict is due.
    pub(super) fn wait_ended(&mut self, limit: Bytes) -> Option<bool> {
        if self.ahead >= limit.0 {
            // The first of them were issued before.
            self.served_first += self.ahead + limit.0;
        }
        self.ahead = 0;
        if self.beside < LIMITS * limit.0 {
            return None;
        }
        // Some reads are served between writes by any disk.
        let part = if self.favours_writes { 4 } else { 2 };
        self.favours_writes = self.served_first * part >= self.beside;
        (self.beside, self.served_first) = (0, 0);
        Some(self.favours_writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB_64: Bytes = Bytes::from_kib(64);
    const KIB_256: Bytes = Bytes::from_kib(256);

    /// This many writes of 64 KiB between two reads, all but the first four issued after the read.
    fn after(writes: u32) -> Option<bool> {
        let mut d = Detector::default();
        for _ in 0..1_000 {
            for n in 0..writes {
                d.written(KIB_64, n >= 4);
            }
            if let Some(favours_writes) = d.wait_ended(KIB_256) {
                return Some(favours_writes);
            }
        }
        None
    }

    #[test]
    fn writes_that_were_there_first_say_nothing_against_it() {
        assert_eq!(after(4), Some(false));
        assert_eq!(after(7), Some(false));
    }

    #[test]
    fn as_much_again_behind_them_does() {
        assert_eq!(after(8), Some(true));
    }

    #[test]
    fn a_disk_that_was_found_out_is_not_acquitted_for_a_few_reads_between_writes() {
        let mut d = Detector::default();
        let mut judged = |one_in: u32| {
            (0..1_000).find_map(|n| {
                for w in 0..8 {
                    d.written(KIB_64, w >= 4 && n % one_in == 0);
                }
                d.wait_ended(KIB_256)
            })
        };
        assert_eq!(judged(1), Some(true));
        assert_eq!(judged(3), Some(true));
        assert_eq!(judged(8), Some(false));
        assert_eq!(judged(3), Some(false), "to be taken for one again needs half");
    }

    #[test]
    fn no_writes_give_no_verdict() {
        assert_eq!(after(0), None);
    }

    #[test]
    fn reads_that_are_served_in_a_row_between_two_streams_of_writes_do_not_hide_it() {
        let mut d = Detector::default();
        let mut seen = None;
        for _ in 0..16 {
            for n in 0..8 {
                d.written(KIB_64, n >= 4);
            }
            for _ in 0..10 {
                seen = seen.or(d.wait_ended(KIB_256));
            }
        }
        assert_eq!(seen, Some(true));
    }
}
