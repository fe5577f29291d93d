//! Whether a device lets writes overtake those who wait.
//!
//! A rotating disk does: after a sequential write the next one is nearest, so as long as there is one the reads are left
//! where they are. That is seen by what was written while somebody waited: in one go at least as much as may be in
//! transit, all of it issued after none of those who wait was served any more.

use crate::units::Bytes;

/// So many times of what may be in transit are written before it is judged.
const LIMITS: u64 = 16;

/// What was seen since it was last judged.
#[derive(Clone, Debug, Default)]
pub(super) struct FavoursWrites {
    /// Bytes that were issued and have ended since the last of those who wait was served.
    ahead: u64,
    /// Bytes that were written while somebody waited, and those of them that overtook.
    beside: u64,
    overtook: u64,
    favours_writes: bool,
}

impl FavoursWrites {
    /// `bytes` were written while somebody waited; `later`: they were issued when he did already.
    pub(super) fn written(&mut self, bytes: Bytes, later: bool) {
        self.beside += bytes.0;
        if later {
            self.ahead += bytes.0;
        }
    }

    /// Who was served did not wait for a transfer.
    pub(super) fn forget(&mut self) {
        self.ahead = 0;
    }

    /// Somebody was served, with `limit` at most in transit: whether writes overtake, if it is time to judge.
    pub(super) fn served(&mut self, limit: Bytes) -> Option<bool> {
        if self.ahead >= limit.0 {
            // The first of them were issued before.
            self.overtook += self.ahead + limit.0;
        }
        self.ahead = 0;
        if self.beside < LIMITS * limit.0 {
            return None;
        }
        // Some reads are served between writes by any disk: to be taken for one that never does takes half of what is
        // written, to go on being taken for one a quarter.
        let part = if self.favours_writes { 4 } else { 2 };
        self.favours_writes = self.overtook * part >= self.beside;
        (self.beside, self.overtook) = (0, 0);
        Some(self.favours_writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB_64: Bytes = Bytes::from_kib(64);
    const KIB_256: Bytes = Bytes::from_kib(256);

    /// So many writes of 64 KiB between two reads, all but the first four issued after the read.
    fn after(writes: u32) -> Option<bool> {
        let mut o = FavoursWrites::default();
        for _ in 0..1_000 {
            for n in 0..writes {
                o.written(KIB_64, n >= 4);
            }
            if let Some(favours_writes) = o.served(KIB_256) {
                return Some(favours_writes);
            }
        }
        None
    }

    #[test]
    fn writes_that_were_there_first_do_not_overtake() {
        assert_eq!(after(4), Some(false));
        assert_eq!(after(7), Some(false));
    }

    #[test]
    fn as_much_again_behind_them_does() {
        assert_eq!(after(8), Some(true));
    }

    #[test]
    fn a_disk_that_was_found_out_is_not_acquitted_for_a_few_reads_between_writes() {
        let mut o = FavoursWrites::default();
        let mut judged = |one_in: u32| {
            (0..1_000).find_map(|n| {
                for w in 0..8 {
                    o.written(KIB_64, w >= 4 && n % one_in == 0);
                }
                o.served(KIB_256)
            })
        };
        assert_eq!(judged(1), Some(true));
        assert_eq!(judged(3), Some(true));
        assert_eq!(judged(8), Some(false));
        assert_eq!(judged(3), Some(false), "to be taken for one again needs half");
    }

    #[test]
    fn nothing_written_says_nothing() {
        assert_eq!(after(0), None);
    }

    #[test]
    fn reads_that_are_served_in_a_row_between_two_streams_of_writes_do_not_hide_it() {
        let mut o = FavoursWrites::default();
        let mut seen = None;
        for _ in 0..16 {
            for n in 0..8 {
                o.written(KIB_64, n >= 4);
            }
            for _ in 0..10 {
                seen = seen.or(o.served(KIB_256));
            }
        }
        assert_eq!(seen, Some(true));
    }
}
