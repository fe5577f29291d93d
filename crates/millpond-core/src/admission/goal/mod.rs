//! Millpond's default: writes fill what a goal for read latency leaves.
//!
//! Four rules, all derived from the goal:
//!
//! ```text
//!   in transit   while somebody reads, at most `limit` bytes of writes are in the device's queue;
//!                it shrinks when the reads of the last window missed the goal, and grows when they were
//!                well inside it and writes waited for it (with a short goal while it is not known what is enough).
//!                When nobody has read for a while, `in_transit_max` bytes are.
//!   enough       with a short goal, no more than makes the device write faster; see `enough`.
//!   pace         with a short goal, a little slower than the device can where reads gain much by it; see `pace`.
//!   turns        when a read has waited for so long that the goal is at stake, no further write is issued until the
//!                readers have had their part of the time; see [`turns`].
//! ```
//!
//! Where there are turns, the first write of a stream is alone in the queue until the device must have chosen it; see
//! `lead`.
//!
//! The first two rules do where a device works on many requests at a time. A rotating disk puts
//! sequential writes before a read for as long as there are any (it is its fastest order), so reads must be
//! given a turn.
//!
//! On a device where a request costs its way (a long goal), at most two writes that nobody waits for are in transit while
//! somebody reads, however short they are: what one costs does not depend on its size alone.
//!
//! Where there are turns, writes that nobody waits for have half of the limit and a smaller share of the time than
//! those for a sync, for reclaim, or while dirtiers are blocked, as in Axboe 2016's v3 (`wb_normal` and `wb_max`).
//!
//! Where it is asked for, all give way to writers in batches (`batches`).
//!
//! The goal aimed at is never below three times what reads take while no write is in transit: on a disk that is slow or
//! noisy by itself, holding writes back further gains the readers nothing, and would starve the writers for it.
//!
//! Where it comes from: Axboe 2016 limits background writes while others use the device, and
//! Linux 4.10's `blk-wbt` steers that limit by the *minimum* read latency of a 100 ms window. A device whose
//! cache answers now and then always looks healthy that way, so this takes a high percentile. Dillon 2000
//! (Dillon 2000) counts bytes, not requests: what one write costs depends on its size.

mod backlog;
#[cfg(test)]
mod backlog_tests;
mod batches;
#[cfg(test)]
mod batches_tests;
mod favours_writes;
mod knee;
#[cfg(test)]
mod knee_tests;
mod pacing;
#[cfg(test)]
mod pacing_tests;
mod rate;
mod stream_start;
mod target_scale;
#[cfg(test)]
mod tests;
mod time_slices;
mod unloaded;
mod window;

use super::{InTransit, Verdict};
use crate::io::Reason;
use crate::units::{Bytes, Instant, Nanos};
use batches::Batches;
use knee::{Amount, Knee};
use pacing::Pacing;
use stream_start::StreamStart;
use target_scale::TargetScale;
use time_slices::TimeSlices;
use unloaded::UnloadedReads;
use window::{Recent, Window};

/// The settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoalOptions {
    /// What 99 of 100 reads should not exceed while writers are at work. Default 2 ms, `blk-wbt`'s target for devices that
    /// don't rotate: the writers of a fast virtual disk were no slower than with 4 ms, the reader had half as much again. The
    /// engine measures the device and takes up to 60 ms for one that rotates. Where reads take more than a third of it even
    /// while nothing is written, three times what they take is aimed at.
    pub read_latency: Nanos,
    /// Bytes of writes that may be in transit when nobody reads: enough to keep the device busy, not
    /// so much that the next reader waits for long. Default 8 MiB.
    pub in_transit_max: Bytes,
    /// The least that may be in transit, so that writers always progress. Default 64 KiB.
    pub in_transit_min: Bytes,
    /// Where reads and writes take turns: the writers' part of the time in percent, while somebody waits for them (a sync,
    /// reclaim, a blocked dirtier). Default 80. Where several wait, all of them are served before
    /// the writers go on, so these get less: about half of the time beside four readers, and never less than a quarter.
    pub share_waited: u32,
    /// The same while nobody waits for them. Default 50.
    pub share_background: u32,
    /// For so long the writers work at a time, while a read waits, if 128 others are served without any write beside them for
    /// it: 99 of 100 reads are as quick as alone, and the slowest take this long. Default zero: never. 50 us to 10 s; what is
    /// shorter than the goal makes nobody miss it.
    pub batch: Nanos,
}

impl Default for GoalOptions {
    fn default() -> Self {
        GoalOptions {
            read_latency: Nanos::from_millis(2),
            in_transit_max: Bytes::from_mib(8),
            in_transit_min: Bytes::from_kib(64),
            share_waited: 80,
            share_background: 50,
            batch: Nanos::ZERO,
        }
    }
}

/// For so long after a read the reader is taken to be still there. Linux uses 100 ms ("other I/O");
/// half of it leaves the other half to come back to full speed within 100 ms.
const READER_SPAN: Nanos = Nanos::from_millis(50);
/// The shortest window over which latencies are judged, as `blk-wbt`'s.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
/// A window needs so many reads to be judged: a percentile of fewer says nothing.
const WINDOW_READS_MIN: u32 = 20;
/// The least goal, in tails of such reads. With two of them a goal of 20 ms made the modelled disk's writers take 300 s
/// instead of 18, as every write was followed by a seek; with three it is 54 s.
pub(crate) const UNLOADED_P99S: u64 = 3;
/// The limit that a new reader meets, before anything was measured, and the least between turns.
const LIMIT_START: Bytes = Bytes::from_kib(512);

/// With this goal and longer ones the device is one where a write costs its way, however short it is: that of reads of
/// 2 ms.
const SEEKS_FROM: Nanos = Nanos::from_millis(32);
/// On such a device, while somebody reads and nobody waits for writes, so many requests of writes are in transit at most.
/// Of the size that they have in a stream two are the limit; of single pages it has room for dozens, and a third of
/// what a news server's disk did (Dillon 2000) was such writes, while 64 readers waited.
const BESIDE_READERS: u32 = 2;

/// So many times what may be in transit without readers may be in a batch: who reads meanwhile waits once, for all of it.
const BATCHED: u64 = 4;

/// The largest page.
const PAGE_MAX: u64 = 64 << 10;

/// The state of the controller.
#[derive(Clone, Debug)]
pub struct GoalState {
    options: GoalOptions,
    limit: Bytes,
    window: Window,
    /// Whether windows alone keep the goal.
    target_scale: TargetScale,
    /// Whether less in transit would do.
    knee: Knee,
    /// Whether writes are spaced out.
    pacing: Pacing,
    /// The last window missed it.
    missed: bool,
    /// A read of the window had writes beside it: only then does it say something about the limit.
    disturbed: bool,
    /// A write of the window waited for the limit: only then does a larger one change anything.
    limited: bool,
    /// Reads during which no write was in transit.
    unloaded: UnloadedReads,
    slices: TimeSlices,
    batches: Batches,
    /// The last write, if it began a stream.
    stream_start: Option<StreamStart>,
    /// Somebody waits for the writes.
    waited_for: bool,
}

impl GoalState {
    /// A controller that has seen nothing yet.
    pub fn new(options: GoalOptions) -> GoalState {
        let limit = LIMIT_START.clamp(
            options.in_transit_min,
            options.in_transit_max.max(options.in_transit_min),
        );
        GoalState {
            options,
            limit,
            window: Window::new(Instant(0)),
            target_scale: TargetScale::new(),
            knee: Knee::new(),
            pacing: Pacing::new(),
            missed: false,
            disturbed: false,
            limited: false,
            unloaded: UnloadedReads::new(),
            slices: TimeSlices::new(options.read_latency >= SEEKS_FROM),
            batches: Batches::new(options.batch),
            stream_start: None,
            waited_for: false,
        }
    }

    /// The settings.
    pub fn options(&self) -> GoalOptions {
        self.options
    }

    /// The goal that is aimed at.
    pub fn goal(&self) -> Nanos {
        self.options
            .read_latency
            .max(Nanos(self.unloaded.p99().0 * UNLOADED_P99S))
    }

    /// What 99 of 100 of the last reads with no write beside them did not exceed; 0 before there were enough.
    pub fn unloaded_p99(&self) -> Nanos {
        self.unloaded.p99()
    }

    /// What may be in transit now, for the writes that asked last.
    pub(super) fn in_transit_limit(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        if in_transit.reader_active(now, READER_SPAN) && !self.batches.decide() {
            Bytes(self.limit_now())
        } else {
            self.options.in_transit_max
        }
    }

    /// Half of the limit: two writes in transit keep a device busy, and each is as long as it may be. Whole units of
    /// the largest page, so that two of them fit.
    pub(super) fn write_bytes(&self, now: Instant, in_transit: &InTransit) -> Bytes {
        let half = self.in_transit_limit(now, in_transit).0 / 2;
        let whole = half - if half < PAGE_MAX { 0 } else { half % PAGE_MAX };
        Bytes(whole.max(self.options.in_transit_min.0))
    }

    pub(super) fn may_write(
        &mut self,
        now: Instant,
        reason: Reason,
        bytes: Bytes,
        in_transit: &InTransit,
    ) -> Verdict {
        let writes = in_transit.writes();
        if !in_transit.reader_active(now, READER_SPAN) {
            self.slices.forget();
            self.batches.forget(now);
            self.knee.forget_trial();
            self.pacing.forget_trial();
            self.stream_start = None;
            return if writes.0 + bytes.0 <= self.options.in_transit_max.0.max(bytes.0) {
                Verdict::Go
            } else {
                Verdict::Wait(None)
            };
        }
        self.waited_for = reason != Reason::Background || in_transit.dirtiers_wait();
        let batch = self.slices.written_in(self.options.batch);
        let sizes = (
            batch.unwrap_or(self.options.in_transit_max),
            Bytes(self.options.in_transit_max.0 * BATCHED),
        );
        if let Some(verdict) = self
            .batches
            .may_write(now, bytes, sizes, self.share(), in_transit)
        {
            self.knee.forget_trial();
            self.pacing.forget_trial();
            return verdict;
        }
        if let Some(until) = self.slices.readers_until(now, self.goal(), bytes, in_transit) {
            return Verdict::Wait(Some(until));
        }
        if let Some(start) = &mut self.stream_start {
            if let Some(until) = start.is_open(now, self.slices.best_bytes_per_ms(), in_transit) {
                return Verdict::Wait(until);
            }
            self.stream_start = None;
        }
        if !self.waited_for
            && self.options.read_latency >= SEEKS_FROM
            && in_transit.write_requests() >= BESIDE_READERS
        {
            return Verdict::Wait(None);
        }
        let limit = self.limit_now();
        let waits = writes.0 > 0 && writes.0 + bytes.0 > limit;
        self.limited |= waits;
        self.knee.asked(now, waits, writes.0 + 2 * bytes.0 <= limit);
        if writes.0 == 0 {
            // Whatever came in between: the head is elsewhere.
            self.stream_begun(bytes);
        }
        if waits {
            return Verdict::Wait(None);
        }
        match self.pacing.too_early(now, bytes) {
            Some(until) => Verdict::Wait(Some(until)),
            None => Verdict::Go,
        }
    }

    /// For the writes at hand. Where reads and writes are served side by side the tail steers it: with half of it for writes
    /// that nobody waits for the writers of a real flash disk took 1.75 s instead of 1.27, at the same tail.
    fn limit_now(&self) -> u64 {
        if !self.slices.favours_writes {
            self.knee.of(self.amount())
        } else if self.waited_for {
            self.limit.0
        } else {
            self.limit.0 / 2
        }
    }

    fn amount(&self) -> Amount {
        let least = self.options.in_transit_min.0;
        Amount {
            limit: self.limit.0,
            least,
            most: self.options.in_transit_max.0.max(least),
        }
    }

    fn share(&self) -> u32 {
        if self.waited_for {
            self.options.share_waited
        } else {
            self.options.share_background
        }
    }

    /// A transfer that somebody has waited for since `begun` has ended: a write of a brief sync, or what was read ahead of a
    /// reader. Its own end says nothing about writes beside it. A scan that waits for what the device reads at its best waits
    /// for longer than the goal by itself: its writers had 16 MB/s of 450 so, beside 534 of the scan.
    pub(super) fn wait_done(&mut self, now: Instant, reason: Reason, begun: Instant, in_transit: &InTransit) {
        if reason == Reason::ReadAhead {
            self.add_unloaded(now, begun, in_transit);
        }
        let disturbed = in_transit.writes() > Bytes(0);
        self.wait_ended(now, (begun, disturbed), false, in_transit);
    }

    /// The device's part of a brief sync has ended. How long that takes is the device's own affair, and says nothing about
    /// what may be in transit.
    pub(super) fn device_sync_done(&mut self, now: Instant, in_transit: &InTransit) {
        self.slices
            .device_sync_ended(now, self.goal(), self.share(), in_transit);
    }

    /// Somebody has waited for `latency`; `disturbed`: with writes beside it.
    fn judge(&mut self, now: Instant, latency: Nanos, disturbed: bool) {
        self.disturbed |= disturbed;
        self.window.add(latency);
        let goal = self.goal();
        if disturbed && !self.slices.favours_writes {
            self.target_scale.add(now, latency, goal);
            self.knee.read_done(latency > goal);
        }
        if self.window.reads() < WINDOW_READS_MIN || now.since(self.window.since) < WINDOW_MIN {
            return;
        }
        if self.disturbed {
            if self.slices.favours_writes {
                self.knee.forget_trial();
                self.pacing.forget();
                let wanted = self.least().max(LIMIT_START);
                // A little less, and the second of two writes in transit no longer fits: the disk would lose a revolution.
                if wanted.0.abs_diff(self.limit.0) > self.limit.0 / 8 {
                    self.step_to(wanted);
                }
            } else {
                self.adapt(now);
            }
        }
        (self.disturbed, self.limited) = (false, false);
        self.window = Window::new(now);
    }

    /// What the device writes in an eighth of the goal: to hold back more gains a read no more than that eighth, and a disk
    /// that rotates serves waiting reads between two short writes, at half an actuator's round a read.
    fn least(&self) -> Bytes {
        let in_eighth = self.slices.written_in(Nanos(self.goal().0 / 8));
        in_eighth.map_or(self.options.in_transit_min, |bytes| {
            bytes.max(self.options.in_transit_min)
        })
    }

    /// Towards `wanted`, by at most a half down and a half up at once.
    fn step_to(&mut self, wanted: Bytes) {
        let limit = self.limit.0;
        let wanted = wanted.0.clamp(limit / 2, limit + limit / 2);
        let min = self.options.in_transit_min;
        let least = self.least().0.min(self.knee.bytes().unwrap_or(u64::MAX));
        self.limit = Bytes(wanted.max(least)).clamp(min, self.options.in_transit_max.max(min));
    }

    pub(super) fn read_done(&mut self, now: Instant, issued_at: Instant, in_transit: &InTransit) {
        self.add_unloaded(now, issued_at, in_transit);
        let disturbed = in_transit.last_write() > issued_at || in_transit.writes() > Bytes(0);
        self.wait_ended(now, (issued_at, disturbed), true, in_transit);
    }

    /// A read has ended that somebody has waited for since `begun`.
    fn add_unloaded(&mut self, now: Instant, begun: Instant, in_transit: &InTransit) {
        if in_transit.writes() == Bytes(0) && !self.slices.backlog_before(begun) {
            self.unloaded
                .add(now, now.since(begun.max(in_transit.last_write())));
        }
    }

    /// A transfer that somebody has waited for since `begun` has ended, with writes beside it or not.
    fn wait_ended(
        &mut self,
        now: Instant,
        (begun, disturbed): (Instant, bool),
        is_read: bool,
        in_transit: &InTransit,
    ) {
        let (latency, goal, share) = (now.since(begun), self.goal(), self.share());
        self.batches.wait_ended(latency <= goal);
        if self.batches.decide() {
            return;
        }
        // Of little in transit it is nothing special that as much was written meanwhile.
        let limit = match self.knee.bytes() {
            Some(_) => self.limit.max(LIMIT_START),
            None => self.limit,
        };
        self.slices
            .transfer_ended(now, goal, limit, share, is_read, in_transit);
        self.judge(now, latency, disturbed);
    }

    /// The write just issued does not begin where the one before it ended.
    pub(super) fn stream_begun(&mut self, bytes: Bytes) {
        self.stream_start = self.slices.favours_writes.then(|| StreamStart::new(bytes));
    }

    pub(super) fn write_done(
        &mut self,
        now: Instant,
        bytes: Bytes,
        issued_at: Instant,
        in_transit: &InTransit,
    ) {
        self.slices.write_done(now, bytes, issued_at, in_transit);
        let found = self.knee.write_done(now, bytes, issued_at, self.amount());
        if let Some(found) = found {
            self.limit = Bytes(found);
        }
    }

    /// What a read waits for is roughly proportional to what was written before it: towards seven eighths of the goal, but
    /// to no more than is enough.
    fn adapt(&mut self, now: Instant) {
        let (goal, seen) = (self.target_scale.apply(self.goal()), self.window.tail());
        let calm = seen.0 < goal.0 - goal.0 / 4;
        let missed = core::mem::replace(&mut self.missed, seen > goal);
        let is_short = self.options.read_latency < SEEKS_FROM;
        // Whether more makes writes faster is tried before it is given.
        let may_grow = calm && self.limited && (!is_short || self.knee.may_grow(self.amount()));
        // What would only be taken back is not given before it is known whether less would do.
        let is_settled = seen <= goal && self.limited && (missed || !may_grow);
        if is_short {
            let is_least = self.limit <= self.options.in_transit_min;
            if is_settled && !self.pacing.tries() && !self.pacing.is_on() {
                let rate = self.slices.bytes_per_ms();
                self.knee.may_try(now, self.goal(), self.amount(), rate);
            }
            let says_nothing = !is_least || self.knee.tries();
            let ended = pacing::Ended {
                missed: seen > self.goal() && !says_nothing,
                over: seen > self.goal() && says_nothing,
                waited: self.limited,
                takes: self.slices.bytes_per_ms(),
                settled: is_settled && self.knee.bytes().is_some() && !self.knee.tries(),
                mean: self.window.mean(),
                share: self.share(),
            };
            self.pacing.window_ended(now, ended);
            if self.pacing.is_on() {
                self.knee.drop_trial();
            }
        }
        if seen > goal || (may_grow && !self.knee.tries()) {
            let aim = u128::from(goal.0 - goal.0 / 8);
            let wanted = u128::from(self.limit.0) * aim / u128::from(seen.0.max(1));
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
            let most = self.knee.bytes().unwrap_or(u64::MAX);
            self.step_to(Bytes(wanted.min(most)));
        }
    }
}
