//! A store's part of a cache's budget, and the size of its transfers.
//!
//! | what | bytes | of 512 MiB |
//! |---|---|---|
//! | a transfer | a 128th of the budget, a power of two, 64 KiB to 4 MiB | 4 MiB |
//! | held until it is in the store: what is staged, and chunks and commits on their way | `held_bytes`, an eighth at most, 8 MiB at least | 40 MiB |
//! | answers of reads ahead, [`READERS`] at a time | a transfer each | 32 MiB |
//! | answers of reads for which callers wait | two transfers together | 8 MiB |
//! | what was read beside small pages | a transfer | 4 MiB |
//! | pages queued for a disk tier, if there is one, beside its tables | [`READERS`] transfers | 32 MiB |
//! | from the cache's pages to what is held, [`WRITERS`] at a time | a 16th of a transfer each, 64 KiB at least | 2 MiB |
//!
//! A request takes its time however short it is, so only many bytes in transit are fast: in 30 ms a network of 1 GB/s
//! moves 30 MB. That is eight requests of 4 MiB, in either direction.

use millpond::device::DeviceFacts;

/// Reads ahead of a cache at a time, each in a thread that waits.
pub(super) const READERS: usize = 8;
/// The same of writes: chunks that a store has in transit by default.
pub(super) const WRITERS: usize = 8;

/// The largest request. S3 has no use for larger ones: a connection has its full rate by then.
const TRANSFER_MAX: u64 = 4 << 20;
/// The largest page of a cache.
const TRANSFER_MIN: u64 = 64 << 10;

/// The least that a store can hold ([`StoreOptions::held_bytes`](crate::StoreOptions::held_bytes)): two chunks.
const HELD_MIN: u64 = 8 << 20;

/// What one store has of a cache's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    pub(super) transfer: u64,
    pub(super) held: u64,
}

impl Share {
    /// Of this budget, for a store that would hold `held_max` without it.
    pub(super) fn of(budget: u64, held_max: u64) -> Share {
        let part = (budget / 128).clamp(TRANSFER_MIN, TRANSFER_MAX);
        Share {
            transfer: 1 << part.ilog2(),
            held: held_max.min(budget / 8).max(HELD_MIN),
        }
    }

    /// Of what callers wait for, so much is read at a time.
    pub(super) fn callers(&self) -> u64 {
        2 * self.transfer
    }

    /// A write comes from the cache's pages in pieces of so much.
    pub(super) fn piece(&self) -> u64 {
        (self.transfer / 16).max(TRANSFER_MIN)
    }

    /// Pages queued for a disk tier, if there is one: those of one call.
    pub(super) fn tier(&self) -> u64 {
        READERS as u64 * self.transfer
    }

    /// What was read beside small pages.
    pub(super) fn nearby(&self) -> u64 {
        self.transfer
    }

    /// All of it, without a disk tier.
    pub(super) fn bytes(&self) -> u64 {
        self.held + self.reading_bytes() + WRITERS as u64 * self.piece()
    }

    /// The same of a reader.
    pub(super) fn reading_bytes(&self) -> u64 {
        READERS as u64 * self.transfer + self.callers() + self.nearby()
    }

    /// What a file of the store says of itself.
    pub(super) fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            // Many requests at a time, and durable with a commit only.
            queue_depth: 32,
            rotational: false,
            write_cache: true,
            transfer_max: Some(self.transfer),
            readahead_max: Some(READERS as u64 * self.transfer),
            in_transit_max: Some(WRITERS as u64 * self.transfer),
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
            (small.transfer, small.held, small.bytes()),
            (MIB / 2, 8 * MIB, 14 * MIB)
        );
        for mib in [256, 300, 512, 1000] {
            let share = Share::of(mib * MIB, 40 * MIB);
            assert!(share.bytes() <= mib * MIB / 4, "{mib} MiB: {share:?}");
        }
    }
}
