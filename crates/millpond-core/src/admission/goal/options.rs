//! The settings of a goal for read latency.

use crate::units::{Bytes, Nanos};

/// The settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoalOptions {
    /// What 99 of 100 reads should not exceed while writers are at work. Default 2 ms, `blk-wbt`'s target for devices that
    /// don't rotate: the writers of a fast virtual disk were no slower than with 4 ms, and with 4 ms the reader took half
    /// as long again. The engine measures the device and takes up to 60 ms for one that rotates. Where reads take more than
    /// a third of it even while nothing is written, the goal in force is three times what they take.
    pub read_latency: Nanos,
    /// The most bytes of writes that may be in transit: without a reader what the device drains within the goal, but no more
    /// than this. Default 8 MiB.
    pub in_transit_max: Bytes,
    /// The least that may be in transit, so that writers always progress. Default 64 KiB.
    pub in_transit_min: Bytes,
    /// Where reads and writes have time slices: the writers' part of the time in percent, while a caller waits for them (a
    /// sync, reclaim, a blocked dirtier). Default 80. Several waiting reads are all served before the writers go on, so
    /// the writers get less then: about half of the time beside four readers, and never less than a quarter.
    pub share_waited: u32,
    /// The same while no caller waits for them. Default 50.
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
