//! Writes spaced out, where even the least in transit makes reads miss the goal.
//!
//! A flash disk takes writes into a burst buffer and empties it at the rate of its slow medium. Writers that go on as fast as
//! they can keep it full, and then each write takes as long as the medium does, and so does each read behind it; a little
//! below that rate there is always room, and a write is over in a third of the time. The modelled disk (150 MB/s) has a p99 of
//! 904 us at full rate and of 319 us at 96 parts of a hundred of it.
//!
//! So when two windows in a row miss the goal with the least in transit, writes go at fifteen sixteenths of the rate that they
//! had, and slower by as much while that is not enough, down to the writers' share of it. Where that does not help either, reads miss
//! the goal for another reason, and writes go at full rate again. Where it does, the rate is raised a little now and then,
//! rarely where that was too much the last time.
//!
//! Where the goal is kept it is tried now and then: windows at full rate and at 31 thirty-seconds of it in turn. If reads take
//! less than four fifths as long in each of them, they are worth that part of the writers' rate.

use crate::units::{Bytes, Instant, Nanos};

/// Slower and faster by one part in so many.
const DOWN: u64 = 16;
const UP: u64 = 32;
/// So many windows with the lowest rate that missed the goal, beyond those that kept it, say that it does not help.
const MISSED_MAX: u32 = 8;
/// A window that is missed later than this after a raise is not for it.
const FOR_RAISE: Nanos = Nanos::from_millis(500);
/// After so long without a window what is known is of another time: the readers, or the writers, were away.
const STALE: Nanos = Nanos::from_secs(1);
/// So many pairs of windows make a trial.
const PAIRS: u32 = 3;
/// Between two raises, and before it is tried again where it did not help: twice as long each time that it was in vain.
const PAUSE_MIN: Nanos = Nanos::from_millis(250);
const PAUSE_MAX: Nanos = Nanos::from_secs(16);

/// The rate in force.
#[derive(Clone, Copy, Debug)]
struct Rate {
    bytes_per_ms: u64,
    /// What was written before there was one.
    full: u64,
    /// The last that has missed the goal.
    bad: u64,
    /// Windows that missed the goal with the lowest rate, less those that kept it since.
    missed: u32,
    /// When it was changed last, and whether it was raised then.
    since: Instant,
    raised: bool,
    /// What reads took on average when the rate was found worth it; 0 where it is for the goal.
    mean: Nanos,
}

/// Windows at full rate and a little below in turn.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    windows: u32,
    full: u64,
    mean_full: Nanos,
    means: Nanos,
}

impl Trial {
    /// The rate of the window that runs, if it is not the full one.
    fn bytes_per_ms(&self) -> Option<u64> {
        (self.windows % 2 == 1).then(|| self.full - self.full / UP)
    }
}

/// A window that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// It has missed the goal with the least in transit.
    pub(super) missed: bool,
    /// It has missed it with more in transit, or with more that is being tried: that says nothing of the rate.
    pub(super) over: bool,
    /// A write waited.
    pub(super) waited: bool,
    /// What the device writes while it has something to write, in bytes a millisecond.
    pub(super) takes: u64,
    /// It has kept it, writes waited, and nothing else is being tried.
    pub(super) settled: bool,
    /// What a read took on average.
    pub(super) mean: Nanos,
    /// The writers' share, in percent.
    pub(super) share: u32,
}

/// What is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    rate: Option<Rate>,
    trial: Option<Trial>,
    /// The next write goes then.
    next: Instant,
    /// What was let go since the window began, brief writes aside, which wait for nothing.
    written: Bytes,
    /// The window before missed the goal: one alone may be anybody's.
    missed_before: bool,
    window: Instant,
    hold: Nanos,
    pause: Nanos,
    not_before: Instant,
}

impl Pacing {
    pub(super) fn new() -> Pacing {
        Pacing {
            rate: None,
            trial: None,
            next: Instant(0),
            written: Bytes(0),
            missed_before: false,
            window: Instant(0),
            hold: PAUSE_MIN,
            pause: PAUSE_MIN,
            not_before: Instant(0),
        }
    }

    /// If it is too early for a write: when it may go. Else it goes.
    pub(super) fn too_early(&mut self, now: Instant, bytes: Bytes) -> Option<Instant> {
        let in_force = self.rate.map(|rate| rate.bytes_per_ms);
        let rate = in_force.or_else(|| self.trial.as_ref()?.bytes_per_ms());
        if let Some(rate) = rate
            && now.since(self.window) <= STALE
        {
            let takes = Nanos(bytes.0.saturating_mul(1_000_000) / rate.max(1));
            self.next = self.next.min(now + takes);
            if now < self.next {
                return Some(self.next);
            }
            // What was missed by a little is made up for.
            let since = self.next.max(Instant(now.0.saturating_sub(takes.0)));
            self.next = since + takes;
        }
        self.written += bytes;
        None
    }

    /// Whether writes are spaced out.
    pub(super) fn is_on(&self) -> bool {
        self.rate.is_some()
    }

    /// While a trial runs what it compares must stay.
    pub(super) fn tries(&self) -> bool {
        self.trial.is_some()
    }

    /// A window has ended.
    pub(super) fn window_ended(&mut self, now: Instant, ended: Ended) {
        let span = now.since(core::mem::replace(&mut self.window, now));
        let written = core::mem::replace(&mut self.written, Bytes(0));
        if span > STALE {
            *self = Pacing {
                window: now,
                ..Pacing::new()
            };
            return;
        }
        let seen = written.0.saturating_mul(1_000_000) / span.0.max(1);
        let twice = core::mem::replace(&mut self.missed_before, ended.missed);
        let Some(rate) = &mut self.rate else {
            // Where writers rest, it is what they want, and not what the device takes.
            let may_try = now >= self.not_before && ended.waited && seen > 0 && seen >= ended.takes / 2;
            if ended.missed && twice && may_try {
                self.adopt(now, seen, seen - seen / DOWN, Nanos::ZERO);
            } else if let Some(trial) = self.trial {
                let goes_on = !ended.missed && !ended.over && (ended.waited || trial.windows % 2 == 1);
                self.trial = match goes_on && seen > 0 {
                    true => self.try_next(now, trial, ended.mean, seen),
                    false => None,
                };
            } else if ended.settled && may_try {
                self.trial = Some(Trial::default());
            }
            return;
        };
        let for_raise = rate.raised && now.since(rate.since) <= FOR_RAISE;
        if ended.over || (ended.missed && !twice && !for_raise) {
            return;
        }
        let missed =
            ended.missed || (rate.mean > Nanos::ZERO && ended.mean.0 > rate.mean.0 + rate.mean.0 / 4);
        if !missed {
            rate.missed = rate.missed.saturating_sub(1);
            let raised = rate.bytes_per_ms + rate.bytes_per_ms / UP;
            let was_bad = raised > rate.bad - rate.bad / UP;
            if now.since(rate.since) >= if was_bad { self.hold } else { PAUSE_MIN } {
                if rate.raised && rate.bytes_per_ms >= rate.bad {
                    (self.hold, rate.bad) = (PAUSE_MIN, u64::MAX);
                }
                (rate.bytes_per_ms, rate.since, rate.raised) = (raised, now, true);
                self.pause = PAUSE_MIN;
            }
            if rate.bytes_per_ms > rate.full + rate.full / DOWN {
                self.rate = None;
            }
            return;
        }
        if core::mem::replace(&mut rate.raised, false) && for_raise {
            self.hold = Nanos(self.hold.0 * 2).min(PAUSE_MAX);
        }
        let least = match ended.missed {
            true => rate.full * u64::from(ended.share.clamp(1, 100)) / 100,
            false => rate.full - rate.full / DOWN,
        };
        if rate.bytes_per_ms <= least {
            rate.missed += 1;
            if rate.missed >= MISSED_MAX {
                self.rate = None;
                self.was_in_vain(now);
            }
            return;
        }
        let slower = rate.bytes_per_ms.min(seen);
        rate.bad = slower.max(rate.bytes_per_ms - rate.bytes_per_ms / DOWN);
        rate.bytes_per_ms = (slower - slower / DOWN).max(least);
        rate.since = now;
    }

    fn adopt(&mut self, now: Instant, full: u64, bytes_per_ms: u64, mean: Nanos) {
        self.rate = Some(Rate {
            bytes_per_ms,
            full,
            bad: full,
            missed: 0,
            since: now,
            raised: false,
            mean,
        });
        (self.trial, self.hold) = (None, PAUSE_MIN);
    }

    fn was_in_vain(&mut self, now: Instant) {
        self.not_before = now + self.pause;
        self.pause = Nanos(self.pause.0 * 2).min(PAUSE_MAX);
    }

    /// A window of `trial` has ended, in which `seen` was written and reads took `mean`.
    fn try_next(&mut self, now: Instant, mut trial: Trial, mean: Nanos, seen: u64) -> Option<Trial> {
        trial.windows += 1;
        if trial.windows % 2 == 1 {
            (trial.full, trial.mean_full) = (seen, mean);
            return Some(trial);
        }
        trial.means.0 += mean.0;
        let is_worth = mean.0 * 5 <= trial.mean_full.0 * 4 && seen >= trial.full - trial.full / DOWN;
        if !is_worth {
            self.was_in_vain(now);
        } else if trial.windows < 2 * PAIRS {
            return Some(trial);
        } else {
            let mean = Nanos(trial.means.0 / u64::from(PAIRS));
            self.adopt(now, trial.full, trial.full - trial.full / UP, mean);
        }
        None
    }

    /// Nobody reads any more: what runs compares nothing.
    pub(super) fn forget_trial(&mut self) {
        self.trial = None;
    }

    /// Other rules hold.
    pub(super) fn forget(&mut self) {
        (self.rate, self.trial) = (None, None);
    }
}
