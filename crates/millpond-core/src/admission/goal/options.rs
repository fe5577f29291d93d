//! The settings of a read latency goal.

use crate::units::{Bytes, Nanos};

/// The settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoalOptions {
    /// Target p99 read latency while writing. Default 2 ms, `blk-wbt`'s target for devices that don't rotate. On a fast
    /// virtual disk, writers were no faster with 4 ms, but reads took half as long again. The engine measures the
    /// device and raises the goal up to 60 ms for one that rotates. If reads take more than a third of the goal even
    /// while nothing is written, the goal in force is three times what they take.
    pub read_latency: Nanos,
    /// The most bytes of writes that may be in transit. Without a reader the limit is what the device drains within the
    /// goal, capped at this. Default 8 MiB.
    pub in_transit_max: Bytes,
    /// The least bytes that may be in transit, so that writers always make progress. Default 64 KiB.
    pub in_transit_min: Bytes,
    /// Where reads and writes have time slices: the writers' share of the time in percent, while a caller waits for
    /// writes (a sync, reclaim, a blocked dirtier). All waiting reads are served before the writers continue, so beside
    /// several readers the writers get less: about half of the time beside four readers, and never less than a quarter.
    /// Default 80.
    pub share_waited: u32,
    /// The same while no caller waits for writes. Default 50.
    pub share_background: u32,
}

impl Default for GoalOptions {
    fn default() -> Self {
        GoalOptions {
            read_latency: Nanos::from_millis(2),
            in_transit_max: Bytes::from_mib(8),
            in_transit_min: Bytes::from_kib(64),
            share_waited: 80,
            share_background: 50,
        }
    }
}
