//! A store's part of a cache's budget, and the size of its transfers.
//!
//! | what | bytes | of 64 MiB | of 512 MiB |
//! |---|---|---|---|
//! | held until it is in the store: what is staged, and chunks and commits on their way | `held_bytes`, an eighth at most, 8 MiB at least | 8 MiB | 40 MiB |
//! | answers of reads ahead, all together | a 16th, a power of two, 32 MiB at most; 8 MiB at least of 64 MiB or more | 8 MiB | 32 MiB |
//! | one of them, and the largest request | a part, or a quarter of that up to 2 MiB | 2 MiB | 4 MiB |
//! | answers of reads for which callers wait | two parts together, or one request | 2 MiB | 8 MiB |
//! | what was read beside small pages, and of pages of which only a part was wanted | a part | 512 KiB | 4 MiB |
//! | pages queued for a disk tier, if there is one, beside its tables | [`READERS`] parts | 4 MiB | 32 MiB |
//! | from the cache's pages to what is held, [`WRITERS`] at a time | a 16th of a part each, 64 KiB at least | 512 KiB | 2 MiB |
//!
//! A *part* is a 128th of the budget, a power of two, 64 KiB to 4 MiB.
//!
//! A request takes its time however short it is, so only many bytes in transit are fast: in 30 ms a network of 1 GB/s
//! moves 30 MB. That is eight requests of 4 MiB, in either direction. 8 MiB are 280 MB/s. A request costs the same
//! however long it is, so these are four: the wait for one goes on beside the bytes of the others.

use millpond::device::DeviceFacts;

/// Reads ahead of a cache at a time, each in a thread that waits.
pub(super) const READERS: usize = 8;
/// The same of writes: chunks that a store has in transit by default.
pub(super) const WRITERS: usize = 8;

/// The largest request, and the largest chunk. S3 has no use for larger ones: a connection has its full rate by then.
const TRANSFER_MAX: u64 = 4 << 20;
/// Reads ahead have so much at least, where it is no more than an eighth of the budget.
const AHEAD_MIN: u64 = 8 << 20;
/// And so much at most.
const AHEAD_MAX: u64 = READERS as u64 * TRANSFER_MAX;
/// So many of them are on their way at a time, at least.
const AHEAD_REQUESTS: u64 = 4;
/// A small budget has no larger requests than this.
const AHEAD_TRANSFER_MAX: u64 = AHEAD_MIN / AHEAD_REQUESTS;
/// The largest page of a cache.
const TRANSFER_MIN: u64 = 64 << 10;

/// The least that a store can hold ([`StoreOptions::held_bytes`](crate::StoreOptions::held_bytes)): two chunks.
const HELD_MIN: u64 = 8 << 20;

/// What one store has of a cache's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// The largest request.
    pub(super) transfer: u64,
    /// Answers of reads ahead that are on their way at a time.
    pub(super) ahead: u64,
    /// A 128th of the budget.
    part: u64,
    pub(super) held: u64,
}

impl Share {
    /// Of this budget, for a store that would hold `held_max` without it.
    pub(super) fn of(budget: u64, held_max: u64) -> Share {
        let least = if budget / 8 >= AHEAD_MIN {
            AHEAD_MIN
        } else {
            TRANSFER_MIN
        };
        let ahead = 1 << (budget / 16).clamp(least, AHEAD_MAX).ilog2();
        let part = 1 << (budget / 128).clamp(TRANSFER_MIN, TRANSFER_MAX).ilog2();
        Share {
            transfer: (ahead / AHEAD_REQUESTS).min(AHEAD_TRANSFER_MAX).max(part),
            ahead,
            part,
            held: held_max.min(budget / 8).max(HELD_MIN),
        }
    }

    /// Of what callers wait for, so much is read at a time.
    pub(super) fn callers(&self) -> u64 {
        self.transfer.max(2 * self.part)
    }

    /// A write comes from the cache's pages in pieces of so much.
    pub(super) fn piece(&self) -> u64 {
        (self.part / 16).max(TRANSFER_MIN)
    }

    /// Pages queued for a disk tier, if there is one: those of one call.
    pub(super) fn tier(&self) -> u64 {
        READERS as u64 * self.part
    }

    /// What was read beside small pages, and of pages of which only a part was wanted.
    pub(super) fn nearby(&self) -> u64 {
        self.part
    }

    /// All of it, without a disk tier.
    pub(super) fn bytes(&self) -> u64 {
        self.held + self.reading_bytes() + WRITERS as u64 * self.piece()
    }

    /// The same of a reader.
    pub(super) fn reading_bytes(&self) -> u64 {
        self.ahead + self.callers() + self.nearby()
    }

    /// What a file of the store says of itself.
    pub(super) fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            // Many requests at a time, and durable with a commit only.
            queue_depth: 32,
            rotational: false,
            write_cache: true,
            transfer_max: Some(self.transfer),
            readahead_max: Some(self.ahead),
            in_transit_max: Some(WRITERS as u64 * self.part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_fifth_of_a_large_budget_is_a_stores_and_less_of_a_larger_one() {
        let share = Share::of(512 * MIB, 40 * MIB);
        assert_eq!(
            (share.transfer, share.held, share.bytes()),
            (4 * MIB, 40 * MIB, 86 * MIB)
        );
        assert_eq!(Share::of(8 << 30, 40 * MIB), share);
        assert_eq!(share.reading_bytes(), 44 * MIB);
        let small = Share::of(64 * MIB, 40 * MIB);
        assert_eq!(
            (small.transfer, small.ahead, small.held, small.bytes()),
            (2 * MIB, 8 * MIB, 8 * MIB, 19 * MIB)
        );
        for mib in [8, 16, 32, 64, 100, 200, 300, 512, 8192] {
            let Share { transfer, ahead, .. } = Share::of(mib * MIB, 40 * MIB);
            assert!(ahead <= mib * MIB / 8, "{mib} MiB: {ahead}");
            assert!(transfer * AHEAD_REQUESTS <= ahead, "{mib} MiB: {transfer}");
        }
        for mib in [256, 300, 512, 1000] {
            let share = Share::of(mib * MIB, 40 * MIB);
            assert!(share.bytes() <= mib * MIB / 4, "{mib} MiB: {share:?}");
        }
    }
}
