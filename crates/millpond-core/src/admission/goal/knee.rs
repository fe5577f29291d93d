//! The knee: the least in transit at which the device writes at its full rate. More only makes reads wait.
//!
//! Decides how much of what the goal allows may be in transit. The inputs are the write rates in stretches with two
//! alternating limits, of 10 to 500 ms each, and reads that are late with one of them. Known as: the knee of the
//! throughput-load curve (Kleinrock; Chiu and Jain), found by a paired trial.
//!
//! ```text
//!   in transit   base  less  base  less  base  less ...      a trial: stretches in turn, of as long each
//!   written      150   150   149   150   150   150  MB/s     as fast with less: so much is enough from now on
//!
//!   More ──► Half ──► Less ──► More ...     the next trial where one brought nothing; the same way again where it did
//! ```
//!
//! The goal says how long reads may take. A device that works on many requests at a time reaches its full write rate
//! with some amount in transit. With more it is no faster, and every read waits for writes that need not be there yet.
//! Latencies don't reveal that amount, so it is tried: half as much again, half, or three quarters, alternating with
//! the current limit until the rates clearly differ or clearly don't. Three quarters are adopted if they cost less than
//! 2 %, half if it costs less than 4 %, more (up to what the goal allows) if it gains 2 %. In doubt the choice is more:
//! a device on which nothing can be determined gets what the goal allows, as without this file.
//!
//! Only stretches in which writes waited nearly all the time count, since otherwise the rate is that of the writers,
//! not of the device.
//!
//! Cost: a few sums for each write, and while a trial runs, up to half of the time with the other limit.

use crate::units::{Bytes, Instant, Nanos};

/// Before a stretch the time of `LEFT_OUT` writes is left out, because the device still has what was issued earlier.
/// The stretch then lasts for `STRETCHES` times that, and at least `STRETCH_MIN`.
const LEFT_OUT: u64 = 2;
const STRETCHES: u64 = 2;
const STRETCH_MIN: Nanos = Nanos::from_millis(10);
/// A stretch with fewer than `WRITES_MIN` writes is extended, and is inconclusive if it has fewer after `STRETCH_MAX`.
const WRITES_MIN: i128 = 16;
const STRETCH_MAX: Nanos = Nanos::from_millis(500);
/// Fewer than `PAIRS_MIN` pairs of stretches decide nothing; `PAIRS_MAX` must decide.
const PAIRS_MIN: i64 = 3;
const PAIRS_MAX: i64 = 32;
/// How many first stretches may be inconclusive, with writers that come and go.
const MUTE_MAX: i64 = 2;
/// In parts of 10,000: what a quarter less may cost and half as much again must gain (`WORTH`), and what half may cost.
const WORTH: i64 = 200;
const WORTH_HALF: i64 = 400;
/// The larger limit is too much if one in this many reads misses the goal because of it. Fewer reads mean nothing.
const LATE_MAX: u64 = 50;
const READS_MIN: u64 = 16;
/// A pair counts for at most this much: the device stopped, or its burst buffer was full.
const PAIR_MOST: i128 = 2_500;
/// The pause between trials after one without a result; doubles each time.
const PAUSE_MIN: Nanos = Nanos::from_millis(250);
const PAUSE_MAX: Nanos = Nanos::from_secs(16);
/// The least change in a trial: a page of the largest size, the unit of writes.
const STEP: u64 = super::PAGE_MAX;

/// The limit in transit in bytes, and its bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) limit: u64,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Range {
    /// The limit to try; the same if there is none.
    fn other(self, way: Way) -> u64 {
        let whole = |bytes: u64| bytes - bytes % STEP;
        let less = |bytes: u64| whole(bytes.min(self.limit - 1)).max(self.least);
        match way {
            Way::Half | Way::Less if self.limit <= self.least => self.limit,
            Way::Half => less(self.limit / 2),
            Way::Less => less(self.limit / 4 * 3),
            Way::More => {
                let more = self.limit + (self.limit / 2).max(STEP);
                whole(more).min(self.most).max(self.limit)
            }
        }
    }
}

/// The direction of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Half of the limit.
    Half,
    /// Three quarters of the limit.
    Less,
    /// One and a half times the limit.
    More,
}

/// The rate of writing over some time: a line through the bytes written by each write's end.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begins: Instant,
    last: Instant,
    /// For each end: the time since the beginning, in microseconds, and the bytes written by then, in units of 512
    /// bytes.
    ends: i128,
    written: i128,
    times: i128,
    amounts: i128,
    products: i128,
    squares: i128,
    /// Whether a write waits. Otherwise since when none has that could go, and for how long none did.
    waits: bool,
    idle_since: Option<Instant>,
    idle: Nanos,
}

impl Stretch {
    fn new(begins: Instant) -> Stretch {
        Stretch {
            begins,
            waits: false,
            last: begins,
            ends: 0,
            written: 0,
            times: 0,
            amounts: 0,
            products: 0,
            squares: 0,
            idle_since: None,
            idle: Nanos::ZERO,
        }
    }

    fn write_done(&mut self, now: Instant, bytes: Bytes) {
        if !self.waits && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        if now < self.begins {
            return;
        }
        let time = i128::from(now.since(self.begins).0 / 1_000);
        self.written += i128::from(bytes.0 / 512);
        self.ends += 1;
        self.times += time;
        self.amounts += self.written;
        self.products += time * self.written;
        self.squares += time * time;
        self.last = now;
    }

    /// Whether it has lasted long enough.
    fn is_over(&self, now: Instant, left_out: Nanos) -> bool {
        let span = now.since(self.begins);
        let full = span >= STRETCH_MIN.max(Nanos(left_out.0 * STRETCHES)) && self.ends >= WRITES_MIN;
        full || span >= STRETCH_MAX
    }

    /// The rate in units of 512 bytes per kilosecond, if conclusive.
    fn rate(&self) -> Option<i128> {
        let spread = self.ends * self.squares - self.times * self.times;
        let told = self.ends >= WRITES_MIN && spread > 0 && self.idle.0 < self.last.since(self.begins).0 / 16;
        let slope = self.ends * self.products - self.times * self.amounts;
        told.then(|| slope * 1_000_000_000 / spread)
    }
}

/// The limit used in a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Base,
    /// The limit being tried.
    Other,
}

/// Reads beside writes, and how many of them missed the goal.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    ended: u64,
    late: u64,
}

impl Reads {
    fn late_per_mille(self) -> u64 {
        self.late * 1_000 / self.ended.max(1)
    }
}

/// Stretches alternating between the base and another limit.
#[derive(Clone, Copy, Debug)]
struct Trial {
    way: Way,
    /// That of the running stretch.
    side: Side,
    stretch: Stretch,
    left_out: Nanos,
    /// The base's rate in the previous stretch.
    base_rate: Option<i128>,
    /// Pairs, the sum of what the other limit gained in parts of 10,000, and the sum of its squares.
    pairs: i64,
    gained: i64,
    squares: i64,
    /// Inconclusive stretches.
    mute: i64,
    base_reads: Reads,
    other_reads: Reads,
}

impl Trial {
    fn new(way: Way, now: Instant, left_out: Nanos) -> Trial {
        Trial {
            way,
            side: Side::Base,
            stretch: Stretch::new(now + left_out),
            left_out,
            base_rate: None,
            pairs: 0,
            gained: 0,
            squares: 0,
            mute: 0,
            base_reads: Reads::default(),
            other_reads: Reads::default(),
        }
    }

    /// Whether more reads miss the goal with the other limit than with the base.
    fn misses_more(&self) -> bool {
        let (base, other) = (self.base_reads, self.other_reads);
        other.ended >= READS_MIN && other.late_per_mille() > base.late_per_mille() + 1_000 / LATE_MAX
    }

    fn stretch_ended(&mut self) {
        let rate = self.stretch.rate();
        if rate.is_none() {
            self.mute += 1;
        }
        if self.side == Side::Base {
            self.base_rate = rate;
        } else if let (Some(base), Some(rate)) = (self.base_rate, rate) {
            let gained = (rate - base) * 10_000 / base.max(1);
            let gained = gained.clamp(-PAIR_MOST, PAIR_MOST) as i64;
            self.pairs += 1;
            self.gained += gained;
            self.squares += gained * gained;
        }
    }

    /// Whether the other limit is better, once known.
    fn result(&self) -> Option<bool> {
        let n = self.pairs;
        let is_too_much = self.way == Way::More && self.misses_more();
        if is_too_much || self.mute > PAIRS_MAX || (n == 0 && self.mute >= MUTE_MAX) {
            return Some(false);
        }
        if n < PAIRS_MIN {
            return None;
        }
        let least = match self.way {
            Way::Half => -WORTH_HALF,
            Way::Less => -WORTH,
            Way::More => WORTH,
        };
        // The mean's distance from it against errors of the mean, all times n.
        let distance = self.gained - least * n;
        let variance = (self.squares - self.gained * self.gained / n).max(0) / (n - 1);
        let is_beyond = |errors: i64| distance * distance > errors * errors * variance * n;
        match (distance > 0, self.way) {
            (is_better, _) if is_beyond(2) => Some(is_better),
            // In doubt it is more.
            (false, Way::Half | Way::Less) if is_beyond(1) => Some(false),
            _ if n < PAIRS_MAX => None,
            (is_better, way) => Some(is_better && way == Way::More),
        }
    }
}

/// The result of the trials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// No trial yet.
    Untried,
    /// The last trial was inconclusive because writers come and go.
    Untold,
    /// Writes were no faster with more than this.
    At(u64),
}

/// What is known about the knee.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knee {
    known: Known,
    trial: Option<Trial>,
    next: Way,
    pause: Nanos,
    not_before: Instant,
    /// The device's write rate at the last trial. Another rate means another device.
    rate: u64,
    /// The duration of a write.
    took: Nanos,
}

impl Knee {
    pub(super) fn new() -> Knee {
        Knee {
            known: Known::Untried,
            trial: None,
            next: Way::More,
            pause: PAUSE_MIN,
            not_before: Instant(0),
            rate: 0,
            took: Nanos::ZERO,
        }
    }

    /// The amount in transit above which writes were no faster.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self.known {
            Known::At(bytes) => Some(bytes),
            Known::Untried | Known::Untold => None,
        }
    }

    /// Whether the limit may grow without a trial while reads keep the goal: it is below the knee, or nothing can be
    /// determined.
    pub(super) fn may_grow(&self, range: Range) -> bool {
        let most = match self.known {
            Known::Untried => return false,
            Known::Untold => range.most,
            Known::At(bytes) => bytes,
        };
        self.trial.is_none() && range.limit < most
    }

    /// Whether a trial runs. The figures that it compares must then stay unchanged.
    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// The limit in transit: the present one, or the one being tried.
    pub(super) fn in_transit(&self, range: Range) -> u64 {
        match self.trial {
            Some(Trial {
                way,
                side: Side::Other,
                ..
            }) => range.other(way),
            _ => range.limit,
        }
    }

    /// Reads keep the goal with the limit, and writes wait for it: starts a trial if one is due. The device writes
    /// `rate`.
    pub(super) fn begin_trial(&mut self, now: Instant, goal: Nanos, range: Range, rate: u64) {
        if rate.min(self.rate) < rate.max(self.rate) / 2 {
            (self.rate, self.pause, self.not_before) = (rate, PAUSE_MIN, now);
        }
        if self.trial.is_some() || now < self.not_before {
            return;
        }
        let differs = |way: &Way| range.other(*way) != range.limit;
        if let Some(way) = [self.next, Way::Half, Way::More].into_iter().find(differs) {
            self.rate = rate;
            let left_out = Nanos(self.took.0 * LEFT_OUT).min(goal);
            self.trial = Some(Trial::new(way, now, left_out));
        }
    }

    /// A read with writes beside it has ended.
    pub(super) fn read_done(&mut self, is_late: bool) {
        if let Some(trial) = &mut self.trial {
            let reads = match trial.side {
                Side::Base => &mut trial.base_reads,
                Side::Other => &mut trial.other_reads,
            };
            reads.ended += 1;
            reads.late += u64::from(is_late);
        }
    }

    /// A write has asked. `waits`: it must wait for the limit. `has_room`: there is room for another with it.
    pub(super) fn asked(&mut self, now: Instant, waits: bool, has_room: bool) {
        let Some(trial) = &mut self.trial else { return };
        let stretch = &mut trial.stretch;
        if let Some(since) = stretch.idle_since.take() {
            stretch.idle.0 += now.since(since.max(stretch.begins)).0;
        }
        stretch.waits = waits;
        stretch.idle_since = (!waits && has_room).then_some(now);
    }

    /// A write has ended. Returns the new limit when a trial has a result.
    pub(super) fn write_done(
        &mut self,
        now: Instant,
        bytes: Bytes,
        issued_at: Instant,
        range: Range,
    ) -> Option<u64> {
        self.took.0 = (self.took.0 * 7 + now.since(issued_at).0) / 8;
        let trial = self.trial.as_mut()?;
        trial.stretch.write_done(now, bytes);
        if !trial.stretch.is_over(now, trial.left_out) {
            return None;
        }
        trial.stretch_ended();
        let way = trial.way;
        let Some(is_better) = trial.result() else {
            trial.side = match trial.side {
                Side::Base => Side::Other,
                Side::Other => Side::Base,
            };
            trial.stretch = Stretch {
                waits: trial.stretch.waits,
                idle_since: trial.stretch.idle_since,
                ..Stretch::new(now + trial.left_out)
            };
            return None;
        };
        let told = trial.pairs > 0;
        self.trial = None;
        self.not_before = now;
        if is_better {
            let new = range.other(way);
            (self.known, self.next, self.pause) = (Known::At(new), way, PAUSE_MIN);
            return Some(new);
        }
        let was_known = self.bytes().is_some();
        self.known = match self.known {
            _ if told && way == Way::More => Known::At(range.limit),
            Known::At(bytes) => Known::At(bytes),
            _ if told => Known::Untried,
            _ => Known::Untold,
        };
        self.next = match way {
            Way::Half => Way::Less,
            Way::Less => Way::More,
            Way::More => Way::Half,
        };
        if was_known || way != Way::More || !told {
            self.not_before = now + self.pause;
            self.pause = Nanos(self.pause.0 * 2).min(PAUSE_MAX);
        }
        None
    }

    /// Writes are now paced, so no amount in transit makes them faster.
    pub(super) fn drop_trial(&mut self) {
        self.trial = None;
    }

    /// No reader is active now, or other rules apply: the current trial compares nothing.
    pub(super) fn forget_trial(&mut self) {
        if self.trial.take().is_some() && self.known == Known::Untried {
            self.known = Known::Untold;
        }
    }
}
