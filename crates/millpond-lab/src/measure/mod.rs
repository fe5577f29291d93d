//! Instruments: latencies, series over time, memory and processor time of this process, the disk's counters.

pub mod disk;
pub mod heat;
pub mod latency;
pub mod others;
pub mod process;
pub(crate) mod reclaim;
pub mod steps;
