//! `block/blk-wbt.c` of Linux 4.10 in its form of 7.0, which limits writes by how long reads take.
//!
//! What it decides: how many requests of writes may be in flight. By what: the fastest read of a window against a target,
//! and whether there were reads at all. In the literature: CoDel's minimum and its shrinking interval.
//!
//! ```text
//!   every window (100 ms, shorter with each step down, as CoDel has it: 1 / sqrt(step + 1))
//!     the fastest read took longer than the target, or one has not come back ──► one step down: half as many writes
//!     reads were fast enough, or there was nothing but writes                 ──► one step up: twice as many
//!     neither is known                                                        ──► after five in a row, back to step 0
//! ```
//!
//! The *minimum* of a window decides, as in CoDel: one read that the device answers from its cache makes the window
//! good. Below step 0 (scaling up) the depth is held at three quarters of the queue, which for queues of 21 or fewer is
//! less than at step 0; [`MergedOptions::clamp_up`], on by default, takes the larger.
//!
//! Three classes of writes have counts of their own and the same limits: reclaim's, discards (there are none here), and
//! all others. Windows are evaluated when something happens after their end, with what was known at the end.

use super::gate::Gate;
use millpond_core::admission::{InTransit, Verdict};
use millpond_core::io::Reason;
use millpond_core::units::{Instant, Nanos};

/// The depth at step 0: `RWB_DEF_DEPTH`.
const DEPTH_DEFAULT: u32 = 16;
/// `RWB_WINDOW_NSEC`.
const WINDOW: Nanos = Nanos::from_millis(100);
/// Fewer samples say nothing: `RWB_MIN_WRITE_SAMPLES`, and one read.
const SAMPLES_WRITES: u32 = 3;
/// This many windows without a verdict in a row are a step back to 0: `RWB_UNKNOWN_BUMP`.
const UNKNOWN_BUMP: u32 = 5;
/// A dirtier that slept within this span is waited for.
const DIRTIER_SPAN: Nanos = Nanos::from_secs(1);
/// Others used the device within this span.
const OTHERS_SPAN: Nanos = Nanos::from_millis(100);
/// Windows that are caught up with at most, after a long sleep: by then any step is back at 0.
const WINDOWS_BEHIND_MAX: u32 = 1000;

/// The settings of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergedOptions {
    /// The fastest read of a window shall not take longer: 2 ms by default, 75 ms for rotating disks.
    pub target: Nanos,
    /// The device's queue depth.
    pub queue_depth: u32,
    /// The device has a volatile write cache.
    pub write_cache: bool,
    /// A step up never makes the depth smaller.
    pub clamp_up: bool,
}

impl MergedOptions {
    /// For a rotating disk with a queue of 31 and a write cache.
    pub fn rotating() -> MergedOptions {
        MergedOptions {
            target: Nanos::from_millis(75),
            ..MergedOptions::flash()
        }
    }

    /// For a device that doesn't rotate.
    pub fn flash() -> MergedOptions {
        MergedOptions {
            target: Nanos::from_millis(2),
            queue_depth: 31,
            write_cache: true,
            clamp_up: true,
        }
    }
}

/// The limits on writes in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// For writes that a caller waits for.
    pub max: u32,
    /// For others, while there is no other I/O.
    pub normal: u32,
    /// For the background, and beside other I/O.
    pub background: u32,
    /// More is not to be had: no step further up.
    pub scaled_max: bool,
}

/// The limits at `step`; above 0 is down. `rq_depth_calc_max_depth` and `calc_wb_limits`.
pub fn limits(step: i32, options: &MergedOptions) -> Limits {
    let depth = options.queue_depth;
    let (max, scaled_max) = if depth <= 1 {
        if step > 0 { (1, false) } else { (2, true) }
    } else {
        let base = depth.min(DEPTH_DEFAULT);
        match step {
            0 => (base, false),
            1.. => (1 + ((base - 1) >> step.min(31)), false),
            _ => {
                let scaled = 1 + (u64::from(base - 1) << step.unsigned_abs().min(31));
                let most = u64::from(3 * depth / 4);
                let most = if options.clamp_up {
                    most.max(base.into())
                } else {
                    most
                };
                (scaled.min(most) as u32, scaled > most)
            }
        }
    };
    let (normal, background) = if max <= 2 {
        (max, 1)
    } else {
        (max.div_ceil(2), max.div_ceil(4))
    };
    Limits {
        max,
        normal,
        background,
        scaled_max,
    }
}

/// The length of a window at `step`.
pub fn window(step: i32) -> Nanos {
    if step <= 0 {
        return WINDOW;
    }
    Nanos((WINDOW.0 << 4) / u64::from(((step as u32 + 1) << 8).isqrt()))
}

/// The verdict of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Reads were too slow.
    Exceeded,
    /// They were not.
    Ok,
    /// There were no reads worth the name, but writes.
    UnknownWrites,
    /// There was nothing.
    Unknown,
}

/// Samples of one window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Samples {
    /// Reads that ended.
    pub reads: u32,
    /// The fastest of them.
    pub read_least: Nanos,
    /// Writes that ended.
    pub writes: u32,
    /// How long the sampled read has been in flight.
    pub oldest: Nanos,
    /// Writes are in flight, or a dirtier slept lately.
    pub is_busy: bool,
}

impl Samples {
    /// `latency_exceeded`.
    pub fn judge(&self, window: Nanos, target: Nanos) -> Judgement {
        if self.oldest > window || (self.oldest > target && self.reads == 0) {
            return Judgement::Exceeded;
        }
        if self.reads < 1 || self.writes < SAMPLES_WRITES {
            return if self.writes > 0 || self.is_busy {
                Judgement::UnknownWrites
            } else {
                Judgement::Unknown
            };
        }
        if self.read_least > target {
            Judgement::Exceeded
        } else {
            Judgement::Ok
        }
    }
}

/// The step, and what the window that runs has shown.
#[derive(Clone, Debug)]
pub struct Merged {
    options: MergedOptions,
    step: i32,
    limits: Limits,
    unknown: u32,
    samples: Samples,
    /// When the window began, and when it ends; none runs until a write has been refused.
    window: Option<(Instant, Instant)>,
    /// The sampled read: when it was issued.
    looked_at: Option<Instant>,
    /// The queues: of reclaim, and of all else.
    gates: [Gate; 2],
}

impl Merged {
    /// At step 0.
    pub fn new(options: MergedOptions) -> Merged {
        Merged {
            options,
            step: 0,
            limits: limits(0, &options),
            unknown: 0,
            samples: Samples::default(),
            window: None,
            looked_at: None,
            gates: Default::default(),
        }
    }

    /// The settings.
    pub fn options(&self) -> MergedOptions {
        self.options
    }

    /// Its number of steps down; up is negative.
    pub fn step(&self) -> i32 {
        self.step
    }

    /// How many requests of writes may be in flight for `reason`.
    pub fn limit(&self, now: Instant, reason: Reason, t: &InTransit) -> u32 {
        let waited_for = t.dirtier_waited_within(now, DIRTIER_SPAN);
        match reason {
            Reason::Sync | Reason::Reclaim | Reason::Swap => self.limits.max,
            _ if waited_for => self.limits.max,
            Reason::Background => self.limits.background,
            _ if t.other_issued_within(now, OTHERS_SPAN) || t.other_done_within(now, OTHERS_SPAN) => {
                self.limits.background
            }
            _ => self.limits.normal,
        }
    }

    pub(super) fn admit(&mut self, now: Instant, reason: Reason, t: &InTransit) -> Verdict {
        self.catch_up(now, t);
        let limit = self.limit(now, reason, t);
        let gate = &mut self.gates[class(reason)];
        if gate.admit(now, in_flight(reason, t), limit) {
            return Verdict::Go;
        }
        let (_, end) = *self.window.get_or_insert((now, now + window(self.step)));
        Verdict::Wait(Some(end))
    }

    pub(super) fn read_issued(&mut self, now: Instant) {
        self.looked_at.get_or_insert(now);
    }

    pub(super) fn read_done(&mut self, now: Instant, issued_at: Instant, t: &InTransit) {
        self.catch_up(now, t);
        if self.looked_at == Some(issued_at) {
            self.looked_at = None;
        }
        let took = now.since(issued_at);
        let samples = &mut self.samples;
        samples.read_least = if samples.reads == 0 {
            took
        } else {
            samples.read_least.min(took)
        };
        samples.reads += 1;
    }

    pub(super) fn write_done(&mut self, now: Instant, reason: Reason, t: &InTransit) {
        self.catch_up(now, t);
        self.samples.writes += 1;
        let in_flight = in_flight(reason, t);
        let limit = if self.options.write_cache && !t.dirtier_waited_within(now, DIRTIER_SPAN) {
            0
        } else {
            self.limits.normal
        };
        if in_flight > 0 && in_flight >= limit {
            return;
        }
        if in_flight == 0 || limit - in_flight >= self.limits.background / 2 {
            self.gates[class(reason)].wake();
        }
    }

    /// Windows that have ended since the last event.
    fn catch_up(&mut self, now: Instant, t: &InTransit) {
        for _ in 0..WINDOWS_BEHIND_MAX {
            match self.window {
                Some((_, end)) if end <= now => self.window_ends(end, t),
                _ => return,
            }
        }
        self.window = Some((now, now + window(self.step)));
    }

    fn window_ends(&mut self, end: Instant, t: &InTransit) {
        let samples = Samples {
            oldest: self.looked_at.map_or(Nanos::ZERO, |since| end.since(since)),
            is_busy: t.write_requests() > 0 || t.dirtier_waited_within(end, DIRTIER_SPAN),
            ..core::mem::take(&mut self.samples)
        };
        match samples.judge(window(self.step), self.options.target) {
            Judgement::Exceeded => self.step_down(true),
            Judgement::Ok | Judgement::UnknownWrites => self.step_up(),
            Judgement::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN_BUMP {
                    match self.step {
                        1.. => self.step_up(),
                        0 => {}
                        _ => self.step_down(false),
                    }
                }
            }
        }
        let goes_on = self.step != 0 || t.write_requests() > 0 || self.gates.iter().any(Gate::is_waiting);
        self.window = goes_on.then(|| (end, end + window(self.step)));
    }

    /// Fewer writes; a `hard` step down from above leads to step 0 at once. `rq_depth_scale_down`.
    fn step_down(&mut self, hard: bool) {
        if self.limits.max == 1 {
            return;
        }
        self.step = if self.step < 0 && hard { 0 } else { self.step + 1 };
        self.stepped();
    }

    /// More writes, for all that wait at once. `rq_depth_scale_up`.
    fn step_up(&mut self) {
        if self.limits.scaled_max {
            return;
        }
        self.step -= 1;
        self.stepped();
        self.gates.iter_mut().for_each(Gate::wake);
    }

    fn stepped(&mut self) {
        self.limits = limits(self.step, &self.options);
        self.unknown = 0;
    }
}

/// Reclaim has a count and a queue of its own, and what goes to swap is reclaim's.
fn class(reason: Reason) -> usize {
    usize::from(matches!(reason, Reason::Reclaim | Reason::Swap))
}

/// Requests in flight that are counted together with those for `reason`.
fn in_flight(reason: Reason, t: &InTransit) -> u32 {
    let of_reclaim = t.requests_of(Reason::Reclaim) + t.requests_of(Reason::Swap);
    if class(reason) == class(Reason::Reclaim) {
        of_reclaim
    } else {
        t.write_requests() - of_reclaim
    }
}

#[cfg(test)]
mod tests;
