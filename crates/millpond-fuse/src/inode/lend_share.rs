//! Which share of the budget is lent to the kernel: the most that may be, or less.
//!
//! A lent page is a second copy. Its frame sees no more uses and leaves by itself when the cache wants another page. So lent
//! memory saves messages, and frames save reads of the disk. What more of each would have saved is seen by *refaults*, as in
//! ARC:
//!
//! ```text
//!   lent refault     a page is asked for soon after it was taken back from the kernel ──► a larger share
//!   cache refault    a page is read from the disk soon after its eviction ─────────────► a smaller one
//! ```
//!
//! The share follows them as a congestion window does (AIMD): it grows by what was refaulted (slow start), and shrinks by an
//! eighth if reads of the disk cost more. From there on it grows by a sixteenth of what is refaulted.

/// The most that may be lent, in parts.
pub(crate) const WHOLE: u32 = 1 << 16;

/// The share never gets smaller: in less memory no page stays for long enough to be seen again.
const LEAST: u32 = WHOLE / 16;

/// Nothing is known: half of the most.
const START: u32 = WHOLE / 2;

/// A message for a page takes some 20 us. A read of the disk takes 80 us on a good flash disk and 8 ms on one that rotates; and
/// at equal cost frames are worth more, since the cache knows which of them are used.
const DISK_READ_COST: u64 = 32;

/// Refaults that are evidence, as a part of the most that may be lent.
const EVIDENCE: u64 = 128;

/// Once frames were wanted back, the share grows by so small a part of what is refaulted.
const GROWTH: u64 = 16;

/// The share shrinks by this part of itself.
const SHRINKAGE: u32 = 8;

/// The share, and what was seen since it was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LendShare {
    share: u32,
    /// Above this it grows slowly: where it was made smaller last.
    slow_start_max: u32,
    lent_refaults: u64,
    cache_refaults: u64,
    /// Pages that the cache may read again in the memory that it was given back.
    refilled: u64,
}

impl Default for LendShare {
    fn default() -> LendShare {
        LendShare {
            share: START,
            slow_start_max: WHOLE,
            lent_refaults: 0,
            cache_refaults: 0,
            refilled: 0,
        }
    }
}

impl LendShare {
    /// Takes in refaults, in pages. `most`: the pages that may be lent at most. The share, in parts of that.
    pub(crate) fn adjust(&mut self, lent_refaults: u64, cache_refaults: u64, most: u64) -> u32 {
        let refills = cache_refaults.min(self.refilled);
        self.refilled -= refills;
        self.cache_refaults += cache_refaults - refills;
        self.lent_refaults += lent_refaults;
        let cost = self.cache_refaults * DISK_READ_COST;
        if self.lent_refaults.max(cost) < (most / EVIDENCE).max(1) {
            return self.share;
        }
        if cost > self.lent_refaults {
            let less = self.share / SHRINKAGE;
            self.share = (self.share - less).max(LEAST);
            self.slow_start_max = self.share;
            self.refilled = part_of(most, less);
        } else {
            let parts = |pages: u64| (pages * u64::from(WHOLE) / most.max(1)).min(WHOLE.into()) as u32;
            let grown = (self.share + parts(self.lent_refaults)).min(self.slow_start_max.max(self.share));
            let slow = (self.share + parts(self.lent_refaults / GROWTH)).min(WHOLE);
            self.share = grown.max(slow);
        }
        (self.lent_refaults, self.cache_refaults) = (0, 0);
        self.share
    }

    pub(crate) fn parts(&self) -> u32 {
        self.share
    }
}

/// So many parts of `most`.
pub(crate) fn part_of(most: u64, parts: u32) -> u64 {
    (u128::from(most) * u128::from(parts) / u128::from(WHOLE)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 65_536;

    #[test]
    fn the_share_grows_by_what_is_refaulted_until_the_cache_wants_frames_back() {
        let mut share = LendShare::default();
        assert_eq!(share.adjust(100, 0, MOST), START, "too little is known");
        assert_eq!(share.adjust(1000, 0, MOST), START + 1100);
        assert_eq!(share.adjust(1_000_000, 0, MOST), WHOLE);
        // A read of the disk outweighs 32 messages.
        assert_eq!(share.adjust(3200, 100, MOST), WHOLE);
        assert_eq!(share.adjust(3200, 101, MOST), WHOLE - WHOLE / 8);
        let now = share.parts();
        assert_eq!(share.adjust(16_000, 0, MOST), now + 1000, "slowly from here on");
    }

    #[test]
    fn pages_that_fill_the_memory_that_was_given_back_are_no_reason_to_give_more() {
        let mut share = LendShare::default();
        let less = START - START / 8;
        assert_eq!(share.adjust(0, 1000, MOST), less);
        assert_eq!(share.adjust(0, u64::from(START / 8), MOST), less);
        assert_eq!(share.adjust(0, 1000, MOST), less - less / 8);
        for _ in 0..100 {
            share.adjust(0, 100_000, MOST);
        }
        assert_eq!(share.parts(), LEAST);
        assert_eq!(share.adjust(0, 100_000, 1), LEAST, "hardly any memory");
    }
}
