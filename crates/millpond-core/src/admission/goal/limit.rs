//! The limit in transit beside readers: a congestion window in bytes, controlled by the tail of read latencies.
//!
//! Decides how many bytes of writes may be in transit. The inputs are the p99 of reads since the limit or the pacing
//! rate last changed, with a half-life of one second, evaluated every 100 ms and 20 reads; whether the limit held back
//! a write; and the knee. Known as: a delay-based congestion window, as in Vegas. `blk-wbt` uses the minimum in the
//! same way.
//!
//! ```text
//!   p99               0 ─────────── 3/4 ─────────── goal ──────────►
//!   step                     Up             Stay            Down
//!                   if a write was held back         towards 7/8 of the goal, in proportion,
//!                   and the knee lets it             by half at most up or down
//! ```
//!
//! The histogram is emptied when the limit or the pacing changes, so no read counts against a limit that it did not
//! meet. It grows while nothing changes, so even at 500 reads a second, 50 in a window, the p99 is met.
//!
//! On a device with many channels a window also drives the knee's trials and the pacing. While one of them compares,
//! the limit is fixed; a missed goal ends the comparison. With time slices the limit follows the device's write rate
//! instead of windows.

use super::knee::Range;
use super::pacing::{Reads, WindowEnd};
use super::{GoalState, LIMIT_START};
use crate::latencies::Latencies;
use crate::units::{Bytes, Instant, Nanos};

/// The shortest window over which latencies are evaluated, as in `blk-wbt`.
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
/// The fewest reads in an evaluated window: a percentile of fewer means nothing.
const WINDOW_READS_MIN: u32 = 20;

/// After this time a read's weight is half.
const HALF_LIFE: Nanos = Nanos::from_secs(1);

/// The reads since the last change, and the current window.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    reads: Latencies,
    halved: Instant,
    /// When the window began, its number of reads, and their total latency.
    since: Instant,
    count: u32,
    sum: Nanos,
    /// A read had writes beside it; only then do reads say something about the limit.
    beside_writes: bool,
    /// A write waited for the limit; only then would a larger limit change anything.
    pub(super) limited: bool,
}

impl Sample {
    pub(super) fn new(since: Instant) -> Sample {
        Sample {
            reads: Latencies::default(),
            halved: since,
            since,
            count: 0,
            sum: Nanos::ZERO,
            beside_writes: false,
            limited: false,
        }
    }

    fn add(&mut self, now: Instant, latency: Nanos, beside_writes: bool) {
        if now.since(self.halved) >= HALF_LIFE {
            self.reads.halve();
            self.halved = now;
        }
        self.reads.add(latency);
        (self.count, self.sum.0) = (self.count + 1, self.sum.0 + latency.0);
        self.beside_writes |= beside_writes;
    }

    fn is_over(&self, now: Instant) -> bool {
        self.count >= WINDOW_READS_MIN && now.since(self.since) >= WINDOW_MIN
    }

    fn p99(&self) -> Nanos {
        self.reads.p99().unwrap_or_default()
    }

    /// The mean latency of the window's reads.
    fn mean(&self) -> Nanos {
        Nanos(self.sum.0 / u64::from(self.count.max(1)))
    }

    /// The next window, which starts with the reads so far.
    fn next(self, now: Instant) -> Sample {
        Sample {
            reads: self.reads,
            halved: self.halved,
            ..Sample::new(now)
        }
    }
}

/// A window's verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Reads have missed the goal.
    Down,
    Stay,
    /// Reads were well within the goal, and more writes were waiting.
    Up,
}

impl GoalState {
    /// A caller has waited for `latency`, with writes beside it or not. The limit is adjusted at the end of a window.
    pub(super) fn judge(&mut self, now: Instant, latency: Nanos, beside_writes: bool) {
        self.sample.add(now, latency, beside_writes);
        let favours_writes = self.slices.favours_writes();
        if beside_writes && !favours_writes {
            self.knee.read_done(latency > self.goal());
        }
        if !self.sample.is_over(now) {
            return;
        }
        let sample = core::mem::replace(&mut self.sample, Sample::new(now));
        if !sample.beside_writes {
            return;
        }
        let before = (self.limit, self.pacing.bytes_per_ms());
        if favours_writes {
            self.follow_rate();
        } else {
            self.steer(now, &sample);
        }
        if before == (self.limit, self.pacing.bytes_per_ms()) {
            self.sample = sample.next(now);
        }
    }

    /// With time slices: the limit is what the device writes in an eighth of the goal.
    fn follow_rate(&mut self) {
        self.knee.forget_trial();
        self.pacing.forget();
        let wanted = self.least().max(LIMIT_START);
        // A little less, and the second of two writes in transit no longer fits: the disk would lose a revolution.
        if wanted.0.abs_diff(self.limit.0) > self.limit.0 / 8 {
            self.step_to(wanted);
        }
    }

    /// A read's wait is roughly proportional to the bytes written before it. Aims at seven eighths of the goal, but at
    /// no more than the knee.
    fn steer(&mut self, now: Instant, sample: &Sample) {
        let (goal, seen) = (self.goal(), sample.p99());
        let step = self.step(seen, goal, sample.limited);
        let missed_before = core::mem::replace(&mut self.missed_before, step == Step::Down);
        if !self.seeks() {
            // What would only be taken back is not given before it is known whether less would do.
            let is_settled = match step {
                Step::Down => false,
                Step::Stay => sample.limited,
                Step::Up => missed_before,
            };
            if is_settled && self.pacing.is_at_full_rate() {
                let rate = self.slices.bytes_per_ms();
                self.knee.begin_trial(now, goal, self.range(), rate);
            }
            self.pace(now, sample, is_settled);
        }
        match step {
            Step::Down => {
                self.knee.drop_trial();
                self.pacing.forget_trial();
            }
            Step::Up if !self.knee.is_trying() && !self.pacing.is_trying() => {}
            Step::Up | Step::Stay => return,
        }
        let aimed = u128::from(goal.0 - goal.0 / 8);
        let wanted = u128::from(self.limit.0) * aimed / u128::from(seen.0.max(1));
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let most = self.knee.bytes().unwrap_or(u64::MAX);
        self.step_to(Bytes(wanted.min(most)));
    }

    /// The step for a percentile of `seen`. `limited`: a write was held back.
    fn step(&self, seen: Nanos, goal: Nanos, limited: bool) -> Step {
        let is_well_inside = seen.0 < goal.0 - goal.0 / 4;
        // With a short goal it is tried first whether more makes writes faster.
        let may_grow = || self.seeks() || self.knee.may_grow(self.range());
        if seen > goal {
            Step::Down
        } else if is_well_inside && limited && may_grow() {
            Step::Up
        } else {
            Step::Stay
        }
    }

    /// Passes the result of the window to the pacing. `is_settled`: the goal was met, and the limit stays.
    fn pace(&mut self, now: Instant, sample: &Sample, is_settled: bool) {
        let is_tried = self.knee.is_trying();
        let has_missed = sample.p99() > self.goal();
        let reads = if has_missed && !is_tried && self.limit <= self.options.in_transit_min {
            Reads::Missed
        } else if has_missed {
            Reads::Unclear
        } else if is_settled && self.knee.bytes().is_some() && !is_tried {
            Reads::Settled
        } else {
            Reads::Kept
        };
        let end = WindowEnd {
            reads,
            waited: sample.limited,
            device_rate: self.slices.bytes_per_ms(),
            mean: sample.mean(),
            share: self.share(),
        };
        self.pacing.window_ended(now, end);
        if self.pacing.is_paced() {
            self.knee.drop_trial();
        }
    }

    /// What the device writes in an eighth of the goal. Holding back more gains a read at most that eighth. A rotating
    /// disk serves waiting reads between two short writes, at half an actuator's round per read.
    fn least(&self) -> Bytes {
        let in_eighth = self.slices.written_in(Nanos(self.goal().0 / 8));
        let min = self.options.in_transit_min;
        in_eighth.map_or(min, |bytes| bytes.max(min))
    }

    /// Moves the limit towards `wanted`, by at most half up or down at once.
    fn step_to(&mut self, wanted: Bytes) {
        let limit = self.limit.0;
        let wanted = wanted.0.clamp(limit / 2, limit + limit / 2);
        let min = self.options.in_transit_min;
        let least = self.least().0.min(self.knee.bytes().unwrap_or(u64::MAX));
        self.limit = Bytes(wanted.max(least)).clamp(min, self.options.in_transit_max.max(min));
    }

    /// The limit set by the goal, and its bounds.
    pub(super) fn range(&self) -> Range {
        let least = self.options.in_transit_min.0;
        Range {
            limit: self.limit.0,
            least,
            most: self.options.in_transit_max.0.max(least),
        }
    }
}
