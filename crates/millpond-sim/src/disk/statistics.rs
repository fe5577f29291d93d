//! The statistics of a modeled disk.
//!
//! The mean queue depth is the integral over time, so it is exact for any arrival pattern: every arrival and every
//! answer first adds depth x time since the last one.

use millpond_core::units::{Bytes, Instant, Nanos};

/// What a modeled disk did in a span of time. Commands are counted, of at most
/// [`COMMAND_BYTES_MAX`](super::COMMAND_BYTES_MAX) each.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
#[non_exhaustive]
pub struct ModelStatistics {
    /// The span.
    pub span: Nanos,
    /// Read commands answered.
    pub reads: u64,
    /// Write commands answered.
    pub writes: u64,
    /// Bytes of them.
    pub bytes_read: Bytes,
    /// Bytes of them.
    pub bytes_written: Bytes,
    /// Flushes that arrived.
    pub flushes: u64,
    /// Commands for which the disk had to be positioned (hdd).
    pub seeks: u64,
    /// Commands that went on where the one before ended (hdd).
    pub sequential: u64,
    /// Sequential reads served from the drive's read look-ahead, in whole or in part (hdd).
    pub look_ahead_hits: u64,
    /// Reads served from the drive's write cache (hdd).
    pub write_cache_hits: u64,
    /// Time spent moving the arm (hdd).
    pub seek_time: Nanos,
    /// Time spent waiting for the platter (hdd).
    pub rotation_time: Nanos,
    /// Time spent at the medium or the interface (hdd).
    pub transfer_time: Nanos,
    /// Time the actuator, or the mean of the channels, was in use. What is under way counts in full.
    pub busy_time: Nanos,
    /// Mean commands unanswered, whether inside the drive or waiting outside.
    pub queue_depth_mean: f64,
    /// Most commands unanswered at a time.
    pub queue_depth_max: u32,
}

#[derive(Default, Debug)]
pub(super) struct Tally {
    since: Instant,
    counted: ModelStatistics,
    queued: u32,
    queue_area: f64,
    queue_at: Instant,
    seek_ns: f64,
    rotation_ns: f64,
    transfer_ns: f64,
    busy_ns: f64,
    pub(super) flushes: u64,
}

impl Tally {
    pub(super) fn queued(&self) -> u32 {
        self.queued
    }

    pub(super) fn enter(&mut self, at: Instant) {
        self.tick(at);
        self.queued += 1;
        self.counted.queue_depth_max = self.counted.queue_depth_max.max(self.queued);
    }

    pub(super) fn leave(&mut self, at: Instant, write: bool, len: u32) {
        self.tick(at);
        self.queued -= 1;
        let (count, bytes) = match write {
            true => (&mut self.counted.writes, &mut self.counted.bytes_written),
            false => (&mut self.counted.reads, &mut self.counted.bytes_read),
        };
        *count += 1;
        *bytes += Bytes(u64::from(len));
    }

    pub(super) fn positioned(&mut self, sequential: bool, seek_ns: f64, rotation_ns: f64, transfer_ns: f64) {
        match sequential {
            true => self.counted.sequential += 1,
            false => self.counted.seeks += 1,
        }
        self.seek_ns += seek_ns;
        self.rotation_ns += rotation_ns;
        self.transfer_ns += transfer_ns;
        self.busy_ns += seek_ns + rotation_ns + transfer_ns;
    }

    pub(super) fn look_ahead_hit(&mut self) {
        self.counted.look_ahead_hits += 1;
    }

    pub(super) fn write_cache_hit(&mut self) {
        self.counted.write_cache_hits += 1;
    }

    pub(super) fn busy(&mut self, ns: f64) {
        self.busy_ns += ns;
    }

    fn tick(&mut self, at: Instant) {
        self.queue_area += at.since(self.queue_at).0 as f64 * f64::from(self.queued);
        self.queue_at = self.queue_at.max(at);
    }

    pub(super) fn snapshot(&self, now: Instant) -> ModelStatistics {
        let span = now.since(self.since);
        let area = self.queue_area + now.since(self.queue_at).0 as f64 * f64::from(self.queued);
        ModelStatistics {
            span,
            flushes: self.flushes,
            seek_time: Nanos(self.seek_ns as u64),
            rotation_time: Nanos(self.rotation_ns as u64),
            transfer_time: Nanos(self.transfer_ns as u64),
            busy_time: Nanos(self.busy_ns as u64),
            queue_depth_mean: if span.0 == 0 { 0.0 } else { area / span.0 as f64 },
            ..self.counted
        }
    }

    pub(super) fn reset(&mut self, now: Instant) {
        let queued = self.queued;
        *self = Tally {
            since: now,
            queue_at: now,
            queued,
            ..Tally::default()
        };
        self.counted.queue_depth_max = queued;
    }
}
