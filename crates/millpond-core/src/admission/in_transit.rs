//! What is in transit: transfers given to the device and not yet completed, with the times of recent issues and
//! completions.
//!
//! All forms of admission decide by these facts: bytes and requests by reason, since when callers wait, and when
//! dirtiers last slept. Only [`Admission`](super::Admission) changes them.

use super::waits::Waits;
use crate::io::Reason;
use crate::mutation::{self, Mutation};
use crate::units::{Bytes, Instant, Nanos};

/// What is in transit on one device.
#[derive(Clone, Debug, Default)]
pub struct InTransit {
    /// By [`Reason`].
    lanes: [Lane; Reason::COUNT],
    /// When a dirtier last slept until pages become clean; [`Instant::NEVER`] while one does.
    dirtier_slept: Option<Instant>,
    pub(super) waits: Waits,
}

/// Transfers for one reason.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    bytes: Bytes,
    requests: u32,
    /// When one was last issued, and when one last ended.
    issued: Option<Instant>,
    done: Option<Instant>,
}

impl InTransit {
    pub(super) fn issued(&mut self, now: Instant, reason: Reason, bytes: Bytes) {
        let lane = &mut self.lanes[reason as usize];
        lane.bytes += bytes;
        lane.requests += 1;
        lane.issued = Some(now);
    }

    pub(super) fn done(&mut self, now: Instant, reason: Reason, bytes: Bytes) {
        let leaks = mutation::is(Mutation::TransitLeaks) && !reason.is_read();
        let lane = &mut self.lanes[reason as usize];
        lane.bytes -= if leaks { Bytes(bytes.0 / 2) } else { bytes };
        lane.requests -= 1;
        lane.done = Some(now);
    }

    /// The lanes of reads, or those of writes.
    fn lanes(&self, of_reads: bool) -> impl Iterator<Item = &Lane> {
        let lanes = Reason::ALL.into_iter().zip(&self.lanes);
        lanes.filter_map(move |(reason, lane)| (reason.is_read() == of_reads).then_some(lane))
    }

    /// Bytes of writes.
    pub fn writes(&self) -> Bytes {
        self.lanes(false).fold(Bytes(0), |sum, lane| sum + lane.bytes)
    }

    /// Bytes of reads and writes.
    pub fn all(&self) -> Bytes {
        self.lanes.iter().fold(Bytes(0), |sum, lane| sum + lane.bytes)
    }

    /// Requests of writes.
    pub fn write_requests(&self) -> u32 {
        self.lanes(false).map(|lane| lane.requests).sum()
    }

    /// Requests for `reason`.
    pub fn requests_of(&self, reason: Reason) -> u32 {
        self.lanes[reason as usize].requests
    }

    /// Whether a read of any kind was issued within `span`.
    pub fn other_issued_within(&self, now: Instant, span: Nanos) -> bool {
        let last = self.lanes(true).filter_map(|lane| lane.issued).max();
        last.is_some_and(|t| now.since(t) < span)
    }

    /// Whether a read of any kind has ended within `span`.
    pub fn other_done_within(&self, now: Instant, span: Nanos) -> bool {
        let last = self.lanes(true).filter_map(|lane| lane.done).max();
        last.is_some_and(|t| now.since(t) < span)
    }

    pub(super) fn set_dirtiers_waiting(&mut self, now: Instant, wait: bool) {
        if wait {
            self.dirtier_slept = Some(Instant::NEVER);
        } else if self.dirtiers_wait() {
            self.dirtier_slept = Some(now);
        }
    }

    /// Whether a dirtier sleeps until pages become clean.
    pub fn dirtiers_wait(&self) -> bool {
        self.dirtier_slept == Some(Instant::NEVER)
    }

    /// Whether a dirtier sleeps, or did within `span`.
    pub fn dirtier_waited_within(&self, now: Instant, span: Nanos) -> bool {
        self.dirtier_slept.is_some_and(|t| now.since(t) < span)
    }

    /// Requests that a caller waits for: reads, writes of small fsyncs, and the device's part of small fsyncs.
    pub fn waits(&self) -> u32 {
        self.waits.count() as u32
    }

    /// Whether a caller waits for a transfer, as opposed to a sync of the device.
    pub fn transfers_wait(&self) -> bool {
        self.waits.has_transfers()
    }

    /// How long callers have waited without any wait ending.
    pub fn waiting(&self, now: Instant) -> Nanos {
        self.waits.since_one_ended(now)
    }

    /// When the oldest current wait began.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.waits.oldest()
    }

    /// Whether a caller waits, or began or ended a wait within `span`.
    pub fn reader_active(&self, now: Instant, span: Nanos) -> bool {
        self.waits.within(now, span)
    }

    /// When anything was last issued or ended.
    pub fn last(&self) -> Instant {
        let last = self.lanes.iter().filter_map(|lane| lane.issued.max(lane.done));
        last.max().unwrap_or_default()
    }

    /// When a write was last issued or ended.
    pub fn last_write(&self) -> Instant {
        let last = self.lanes(false).filter_map(|lane| lane.issued.max(lane.done));
        last.max().unwrap_or_default()
    }

    /// When a caller's wait last ended.
    pub fn last_wait_done(&self) -> Instant {
        self.waits.last_ended()
    }
}
