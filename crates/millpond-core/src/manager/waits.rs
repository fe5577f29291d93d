//! What waits at the head of the flusher's queue, why, and for how long; and the counters that show it.
//!
//! ```text
//!   job ──► admission: not now ──► held back, by the reason of the write ──► issued, or another is next
//!   sync ─► pages in other hands, or before their log ──► blocked ──────────► they can be had
//! ```
//!
//! Both are observed only in [`Manager::pump`](super::Manager), at the time it was given. Writes that wait for nothing
//! cost nothing.

use super::Manager;
use crate::admission::Form;
use crate::io::Reason;
use crate::stats::Stats;
use crate::units::{Bytes, Instant, Nanos, PageCount};
use core::fmt;

/// Since when the next write of a device is held back, and why it is to be made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldBack(Option<(Reason, Instant)>);

impl HeldBack {
    /// The admission lets the next write, which is to be made for `reason`, not go now; `None`: it goes, or there is
    /// none. The wait that is over with it.
    pub(super) fn set(&mut self, now: Instant, reason: Option<Reason>) -> Option<(Reason, Nanos)> {
        if let Some((before, _)) = self.0
            && reason == Some(before)
        {
            return None;
        }
        let over = self.at(now);
        self.0 = reason.map(|reason| (reason, now));
        over
    }

    /// The wait of this moment, and for how long it has lasted.
    pub(super) fn at(&self, now: Instant) -> Option<(Reason, Nanos)> {
        self.0.map(|(reason, since)| (reason, now.since(since)))
    }
}

/// Since when something else waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// A sync, for pages that can't be written at this moment.
    sync_blocked: Option<Instant>,
}

impl Waits {
    /// Whether a sync waits for pages that can't be written now.
    pub(super) fn sync_blocked(&mut self, now: Instant, is_blocked: bool, stats: &mut Stats) {
        if let Some(since) = self.sync_blocked {
            stats.sync_blocked_ns += now.since(since).0;
        }
        self.sync_blocked = is_blocked.then_some(now);
    }

    /// For how long a sync has been held at `now`.
    pub(super) fn now_sync_blocked(&self, now: Instant) -> Option<Nanos> {
        self.sync_blocked.map(|since| now.since(since))
    }
}

/// What writers have before them at one moment. As text it is what explains a pause:
/// `dirty 61.0 % of memory over background 50.0 %, in transit 1.00 of 1.00 MiB, read p99 2.40 ms over goal 2.00 ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pressure {
    /// Frames of the pool.
    pub frames: PageCount,
    /// Pages that are dirty or being written, without those that can't be.
    pub unclean: PageCount,
    /// From so many on the flusher writes.
    pub background: PageCount,
    /// Bytes of writes in transit to the busiest device.
    pub in_transit: Bytes,
    /// Bytes of writes that may be; `None` if the form of admission limits no bytes.
    pub in_transit_limit: Option<Bytes>,
    /// What 99 of 100 reads of the last seconds did not exceed there, of those that a caller waited for.
    pub read_p99: Option<Nanos>,
    /// The goal for that, if the form of admission has one.
    pub read_goal: Option<Nanos>,
}

impl<A: Form> Manager<A> {
    /// What writers have before them at `now`.
    pub fn pressure(&self, now: Instant) -> Pressure {
        let busiest = self.busiest_device(now);
        Pressure {
            frames: self.derived.frames,
            unclean: self.unclean(),
            background: self.derived.dirty.background,
            in_transit: busiest.in_transit,
            in_transit_limit: busiest.in_transit_limit,
            read_p99: busiest.read_p99,
            read_goal: busiest.goal.map(|goal| goal.in_force),
        }
    }

    /// What half of the reads of the last seconds did not exceed on the busiest device, of those that a caller waited for.
    pub fn read_p50(&self, now: Instant) -> Option<Nanos> {
        self.devices.busiest().reads.p50(now)
    }

    /// Nanoseconds for which the next write has been held back so far where `counts` says so of its reason, with the
    /// wait of this moment.
    pub fn held_back_ns(&self, now: Instant, counts: impl Fn(Reason) -> bool) -> u64 {
        let ended = self.stats.admission_wait_ns;
        let ended = Reason::ALL
            .into_iter()
            .filter(|&r| counts(r))
            .map(|r| ended[r as usize]);
        let present = self.devices.iter().filter_map(|device| device.held_back.at(now));
        let present = present.filter(|&(reason, _)| counts(reason));
        ended.chain(present.map(|(_, span)| span.0)).sum()
    }

    /// Nanoseconds for which syncs have waited so far for pages that can't be written, with the wait of this moment.
    pub fn sync_blocked_ns(&self, now: Instant) -> u64 {
        self.stats.sync_blocked_ns + self.waits.sync_blocked.map_or(0, |since| now.since(since).0)
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = |value: u64, limit: u64| if value > limit { "over" } else { "within" };
        let frames = self.frames.0.max(1);
        let (unclean, background) = (self.unclean.0 * 1000 / frames, self.background.0 * 1000 / frames);
        write!(
            f,
            "dirty {} % of memory {} background {} %, in transit ",
            Tenths(unclean),
            beside(self.unclean.0, self.background.0),
            Tenths(background)
        )?;
        match self.in_transit_limit {
            Some(in_transit_limit) => write!(f, "{} of {} MiB", Mib(self.in_transit), Mib(in_transit_limit))?,
            None => write!(f, "{} MiB", Mib(self.in_transit))?,
        }
        match (self.read_p99, self.read_goal) {
            (Some(p99), Some(goal)) => write!(
                f,
                ", read p99 {} ms {} goal {} ms",
                Millis(p99),
                beside(p99.0, goal.0),
                Millis(goal)
            ),
            (Some(p99), None) => write!(f, ", read p99 {} ms", Millis(p99)),
            (None, _) => Ok(()),
        }
    }
}

struct Tenths(u64);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

struct Mib(Bytes);

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0.0 * 100 / (1 << 20);
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

struct Millis(Nanos);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0.0 / 10_000;
        write!(f, "{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_wait_is_counted_for_the_reason_of_the_write_that_waits() {
        let (mut held, mut stats) = (HeldBack::default(), Stats::default());
        let mut set = |now, reason| {
            if let Some((reason, waited)) = held.set(now, reason) {
                stats.admission_waited(reason, waited);
            }
        };
        set(Instant(10), Some(Reason::Background));
        set(Instant(20), Some(Reason::Background));
        // A sync comes, and its write is next.
        set(Instant(30), Some(Reason::Sync));
        set(Instant(35), None);
        set(Instant(90), None);
        let of = |counts: [u64; Reason::COUNT]| {
            [
                counts[Reason::Background as usize],
                counts[Reason::Sync as usize],
                counts.iter().sum(),
            ]
        };
        assert_eq!(of(stats.admission_waits), [1, 1, 2]);
        assert_eq!(of(stats.admission_wait_ns), [20, 5, 25]);
        assert_eq!(of(stats.admission_wait_ns_max), [20, 5, 25]);
    }

    #[test]
    fn a_sync_that_is_held_is_counted_for_as_long_as_it_is() {
        let (mut waits, mut stats) = (Waits::default(), Stats::default());
        for (at, is_blocked) in [(10, true), (25, true), (40, false), (100, false)] {
            waits.sync_blocked(Instant(at), is_blocked, &mut stats);
        }
        assert_eq!(stats.sync_blocked_ns, 30);
    }

    #[test]
    fn the_text_has_the_figures_and_says_which_limit_is_passed() {
        let pressure = Pressure {
            frames: PageCount(1000),
            unclean: PageCount(610),
            background: PageCount(500),
            in_transit: Bytes::from_mib(1),
            in_transit_limit: Some(Bytes::from_mib(1)),
            read_p99: Some(Nanos::from_micros(2_400)),
            read_goal: Some(Nanos::from_millis(2)),
        };
        assert_eq!(
            pressure.to_string(),
            "dirty 61.0 % of memory over background 50.0 %, in transit 1.00 of 1.00 MiB, read p99 2.40 ms over goal 2.00 ms"
        );
        let calm = Pressure {
            unclean: PageCount(5),
            in_transit: Bytes::from_kib(64),
            in_transit_limit: None,
            read_goal: None,
            ..pressure
        };
        assert_eq!(
            calm.to_string(),
            "dirty 0.5 % of memory within background 50.0 %, in transit 0.06 MiB, read p99 2.40 ms"
        );
    }
}
