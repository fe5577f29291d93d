//! Spaces writes out where even the least in transit makes reads miss the goal, or where reads gain much by it.
//!
//! Decides when the next write may go. The inputs, at the end of each window, are whether reads kept the goal, their
//! mean latency, and what was written. Known as: BBR's pacing rate, slightly below the bottleneck's.
//!
//! ```text
//!                 two windows missed the goal in a row, with the least in transit
//!         ┌───────────────────────────────────────────────────────────────┐
//!         │                                                               ▼
//!      FullRate ── the goal is kept, nothing else is tried ─► Trial ─►  Paced    missed: a 16th slower, to the share
//!       ▲   ▲                                                   │   3     │      kept: a 32nd faster, now and then
//!       │   └─────── reads take more than 4/5 as long ──────────┘ pairs   │
//!       └── at the slowest rate eight more windows missed than kept, or ──┘
//!           it has been raised beyond the full rate
//! ```
//!
//! A flash disk takes writes into a burst buffer, which drains at the rate of its slow medium. Writers at full speed
//! keep the buffer full. Then each write takes as long as the medium, and so does each read after it. Slightly below
//! that rate there is always room, and a write completes in a third of the time. The modeled disk (150 MB/s) has a p99
//! of 904 us at full rate and of 319 us at 96 % of it.
//!
//! If a slower rate does not help, reads miss the goal for another reason, and writes go at full rate again. If it
//! helps, the rate is raised slightly from time to time, more rarely where the last raise was too much. A trial
//! alternates windows at full rate and at 31/32 of it.

use crate::admission::Verdict;
use crate::units::{Bytes, Instant, Nanos};

/// Slower and faster by one part in this many.
const DOWN: u64 = 16;
const UP: u64 = 32;
/// This many windows at the lowest rate that missed the goal, beyond those that kept it, show that it does not help.
const MISSED_MAX: u32 = 8;
/// A window that is missed later than this after a raise is not for it.
const FOR_RAISE: Nanos = Nanos::from_millis(500);
/// After this long without a window the knowledge is outdated: the readers, or the writers, were away.
const STALE: Nanos = Nanos::from_secs(1);
/// The number of pairs of windows in a trial.
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
    /// The mean read latency when the rate proved worthwhile; 0 where the rate serves the goal.
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
    /// The window that runs is one below the full rate.
    fn is_below(&self) -> bool {
        self.windows % 2 == 1
    }
}

/// How writes are paced.
#[derive(Clone, Copy, Debug)]
enum State {
    /// As fast as the device takes them.
    FullRate,
    /// In turn as [`State::FullRate`] and a little slower.
    Trial(Trial),
    /// Spaced out.
    Paced(Rate),
}

/// A window's verdict on the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reads {
    /// They have missed the goal with the least in transit.
    Missed,
    /// They have missed it with more in transit, or while the knee is being tried: that says nothing of the rate.
    Unclear,
    /// They have kept it.
    Kept,
    /// They have kept it, writes waited, and nothing else is being tried.
    Settled,
}

/// A window that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowEnd {
    pub(super) reads: Reads,
    /// A write waited.
    pub(super) waited: bool,
    /// The device's write rate while it has something to write, in bytes a millisecond.
    pub(super) device_rate: u64,
    /// The mean read latency.
    pub(super) mean: Nanos,
    /// The writers' share, in percent.
    pub(super) share: u32,
}

/// The pacer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    state: State,
    /// The next write goes then.
    next: Instant,
    /// Bytes admitted since the window began, without small fsyncs, which wait for nothing.
    written: Bytes,
    /// The window before missed the goal: one alone may be chance.
    missed_before: bool,
    window: Instant,
    hold: Nanos,
    pause: Nanos,
    not_before: Instant,
}

impl Pacing {
    pub(super) fn new() -> Pacing {
        Pacing {
            state: State::FullRate,
            next: Instant(0),
            written: Bytes(0),
            missed_before: false,
            window: Instant(0),
            hold: PAUSE_MIN,
            pause: PAUSE_MIN,
            not_before: Instant(0),
        }
    }

    /// The rate of the window that runs, if it is not the full one.
    pub(super) fn bytes_per_ms(&self) -> Option<u64> {
        match self.state {
            State::FullRate => None,
            State::Trial(trial) => trial.is_below().then(|| trial.full - trial.full / UP),
            State::Paced(rate) => Some(rate.bytes_per_ms),
        }
    }

    /// A write of `bytes` asks. If it goes, the next one is spaced from it.
    pub(super) fn admit(&mut self, now: Instant, bytes: Bytes) -> Verdict {
        if let Some(rate) = self.bytes_per_ms()
            && now.since(self.window) <= STALE
        {
            let takes = Nanos(bytes.0.saturating_mul(1_000_000) / rate.max(1));
            self.next = self.next.min(now + takes);
            if now < self.next {
                return Verdict::Wait(Some(self.next));
            }
            // What was missed by a little is made up for.
            let since = self.next.max(Instant(now.0.saturating_sub(takes.0)));
            self.next = since + takes;
        }
        self.written += bytes;
        Verdict::Go
    }

    pub(super) fn is_paced(&self) -> bool {
        matches!(self.state, State::Paced(_))
    }

    /// It is tried whether to.
    pub(super) fn is_trying(&self) -> bool {
        matches!(self.state, State::Trial(_))
    }

    /// Neither spaced out nor tried. While a trial runs what it compares must stay.
    pub(super) fn is_at_full_rate(&self) -> bool {
        matches!(self.state, State::FullRate)
    }

    /// A window has ended.
    pub(super) fn window_ended(&mut self, now: Instant, end: WindowEnd) {
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
        let has_missed = end.reads == Reads::Missed;
        let missed_twice = core::mem::replace(&mut self.missed_before, has_missed) && has_missed;
        // Where writers rest, it is what they want, and not what the device takes.
        let may_try = now >= self.not_before && end.waited && seen > 0 && seen >= end.device_rate / 2;
        self.state = match self.state {
            State::Paced(rate) => self.paced_window(now, rate, end, missed_twice, seen),
            _ if missed_twice && may_try => self.paced(now, seen, seen - seen / DOWN, Nanos::ZERO),
            State::Trial(trial) => self.trial_window(now, trial, end, seen),
            State::FullRate if end.reads == Reads::Settled && may_try => State::Trial(Trial::default()),
            State::FullRate => State::FullRate,
        };
    }

    /// A window at `rate` has ended, in which `seen` was written: slower where reads have missed the goal, else faster now
    /// and then.
    fn paced_window(
        &mut self,
        now: Instant,
        mut rate: Rate,
        end: WindowEnd,
        missed_twice: bool,
        seen: u64,
    ) -> State {
        let for_raise = rate.raised && now.since(rate.since) <= FOR_RAISE;
        let has_missed = match end.reads {
            Reads::Unclear => return State::Paced(rate),
            Reads::Missed if !missed_twice && !for_raise => return State::Paced(rate),
            Reads::Missed => true,
            Reads::Kept | Reads::Settled => {
                rate.mean > Nanos::ZERO && end.mean.0 > rate.mean.0 + rate.mean.0 / 4
            }
        };
        if !has_missed {
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
            return if rate.bytes_per_ms > rate.full + rate.full / DOWN {
                State::FullRate
            } else {
                State::Paced(rate)
            };
        }
        if core::mem::replace(&mut rate.raised, false) && for_raise {
            self.hold = Nanos(self.hold.0 * 2).min(PAUSE_MAX);
        }
        let least = if end.reads == Reads::Missed {
            rate.full * u64::from(end.share.clamp(1, 100)) / 100
        } else {
            rate.full - rate.full / DOWN
        };
        if rate.bytes_per_ms <= least {
            rate.missed += 1;
            if rate.missed >= MISSED_MAX {
                self.was_in_vain(now);
                return State::FullRate;
            }
            return State::Paced(rate);
        }
        let slower = rate.bytes_per_ms.min(seen);
        rate.bad = slower.max(rate.bytes_per_ms - rate.bytes_per_ms / DOWN);
        rate.bytes_per_ms = (slower - slower / DOWN).max(least);
        rate.since = now;
        State::Paced(rate)
    }

    fn paced(&mut self, now: Instant, full: u64, bytes_per_ms: u64, mean: Nanos) -> State {
        self.hold = PAUSE_MIN;
        State::Paced(Rate {
            bytes_per_ms,
            full,
            bad: full,
            missed: 0,
            since: now,
            raised: false,
            mean,
        })
    }

    fn was_in_vain(&mut self, now: Instant) {
        self.not_before = now + self.pause;
        self.pause = Nanos(self.pause.0 * 2).min(PAUSE_MAX);
    }

    /// A window of `trial` has ended, in which `seen` was written.
    fn trial_window(&mut self, now: Instant, mut trial: Trial, end: WindowEnd, seen: u64) -> State {
        let has_kept = matches!(end.reads, Reads::Kept | Reads::Settled);
        if !has_kept || !(end.waited || trial.is_below()) || seen == 0 {
            return State::FullRate;
        }
        trial.windows += 1;
        if trial.is_below() {
            (trial.full, trial.mean_full) = (seen, end.mean);
            return State::Trial(trial);
        }
        trial.means.0 += end.mean.0;
        let is_worth = end.mean.0 * 5 <= trial.mean_full.0 * 4 && seen >= trial.full - trial.full / DOWN;
        if !is_worth {
            self.was_in_vain(now);
            State::FullRate
        } else if trial.windows < 2 * PAIRS {
            State::Trial(trial)
        } else {
            let mean = Nanos(trial.means.0 / u64::from(PAIRS));
            self.paced(now, trial.full, trial.full - trial.full / UP, mean)
        }
    }

    /// No reader is active now: a trial compares nothing.
    pub(super) fn forget_trial(&mut self) {
        if matches!(self.state, State::Trial(_)) {
            self.state = State::FullRate;
        }
    }

    /// Other rules hold.
    pub(super) fn forget(&mut self) {
        self.state = State::FullRate;
    }
}
