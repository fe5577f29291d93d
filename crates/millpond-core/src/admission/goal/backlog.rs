//! The write-cache backlog: bytes that a device with a volatile write cache has acknowledged but not yet written.
//!
//! Decides whether the device has a backlog at all, how many bytes it is, and how fast it drains. The inputs are
//! acknowledged bytes, and when reads of a readers' slice are served. Known as: a leaky bucket.
//!
//! A disk with such a cache acknowledges writes immediately, and delays reads while the cache is too full. There is
//! then no write in transit to hold back, so the controller tracks acknowledged bytes:
//!
//! ```text
//!   detected  a readers' slice has lasted as long as the goal, with no write in transit, and none of them was served;
//!             or, in four slices in a row, the first read took half of the goal, or fewer than two were served
//!   bytes     answered since the device had caught up, less what it writes in the time since
//!   rate      answered from one such moment to the next, by the time between: whenever a read of a slice is served
//!             later than `bytes` says, the device has caught up, and when it was flushed in a slice
//! ```
//!
//! A read served in time shows only that the assumed rate is not too high, or that the cache still has room. The rate
//! is then raised by a 64th: after each such slice if nothing is known, or after up to 64 of them if the last raises by
//! an eighth made a read late. A rate raised to the rate of acknowledgment means no backlog, until one is detected
//! again. So a disk that stalled once and was mistaken for one with a cache is treated as such for some seconds.
//!
//! How full the cache is remains unknown. What matters is how much must be written before a read is served, and that is
//! 0 when one is served. A backlog is looked for only where a request costs a seek (a long goal): a flash disk that
//! stalls for internal reasons has none. Axboe 2016's v3 instead keeps such a device's queue short for a while after
//! other I/O (its write-cache delay).

use crate::units::{Bytes, Instant, Nanos};

/// A smaller sample does not show that a rate is low.
const SAMPLE_MIN: u64 = 1 << 20;

/// After this long without a write the device has caught up, if its rate is not known yet: 64 MiB at 120 MB/s.
const PAUSE: Nanos = Nanos::from_millis(500);

/// The number of slices in a row in which a read waited for half of the goal with no write in transit, or fewer than
/// two reads were served.
const SLOW_SLICES: u32 = 4;

/// Each raise of the rate is one part in this many, and at most this many slices lie between two raises.
const RAISE: u64 = 64;
const HOLD_MAX: u32 = 64;

/// The leaky bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    detected: bool,
    /// Slow slices in a row.
    slow_slices: u32,
    rate: Rate,
    round: Round,
    behind: Behind,
    unflushed: Unflushed,
    /// When the last write was issued, or the device had caught up.
    last: Instant,
}

/// The device's write rate.
#[derive(Clone, Copy, Debug)]
struct Rate {
    bytes_per_ms: Option<u64>,
    /// The rate when a read was late.
    late: u64,
    /// The number of slices between two raises, and the number so far.
    hold: u32,
    slices: u32,
}

/// Bytes acknowledged since a read of a slice was served, whether the device caught up in between, and the time that took.
#[derive(Clone, Copy, Debug)]
struct Round {
    bytes: u64,
    time: Nanos,
}

/// Bytes acknowledged since the device had caught up.
#[derive(Clone, Copy, Debug)]
struct Behind {
    bytes: u64,
    since: Instant,
}

/// Bytes acknowledged since the last flush or pause, and when the first of them was issued.
#[derive(Clone, Copy, Debug)]
struct Unflushed {
    bytes: u64,
    since: Instant,
    /// The part of them since the last slice began.
    in_slice: u64,
}

impl Rate {
    const UNKNOWN: Rate = Rate {
        bytes_per_ms: None,
        late: 0,
        hold: 1,
        slices: 0,
    };

    /// A read was late, so the rate is lower: at once, as readers wait. But no lower than a quarter, which may be one read
    /// that took a second.
    fn lower(&mut self, old: u64, measured: Option<u64>) {
        let lower = measured.unwrap_or(old - old / 4);
        let new = lower.clamp(old / 4, old - old / 32);
        self.hold = match self.is_raised(old) {
            false => (self.hold * 2).min(HOLD_MAX),
            true => 1,
        };
        (self.bytes_per_ms, self.late, self.slices) = (Some(new), new, 0);
    }

    /// A read was in time. Returns whether that raises the rate.
    fn hold_or_raise(&mut self, old: u64) -> bool {
        self.slices += 1;
        let is_due = self.slices >= self.hold;
        if is_due {
            (self.bytes_per_ms, self.slices) = (Some(old + old.div_ceil(RAISE)), 0);
        }
        if self.is_raised(old) {
            self.hold = 1;
        }
        is_due
    }

    /// Whether a rate is more than what made a read late by an eighth.
    fn is_raised(&self, rate: u64) -> bool {
        rate > self.late + self.late / 8
    }

    /// A flush has measured it.
    fn measured(&mut self, new: u64) {
        self.bytes_per_ms = Some(match self.bytes_per_ms {
            Some(old) if new > old => (old * 7 + new) / 8,
            _ => new,
        });
    }
}

impl Round {
    const NEW: Round = Round {
        bytes: 0,
        time: Nanos::ZERO,
    };

    /// The rate that it shows, if it took this long and is not a small sample.
    fn rate(&self, took: Nanos) -> Option<u64> {
        (self.bytes >= SAMPLE_MIN && took > Nanos::ZERO).then(|| per_ms(self.bytes, took))
    }

    /// Whether the device has written it by now, even at a quarter of its rate, below which no read that is late brings it.
    fn is_written(&self, rate: u64, gap: Nanos) -> bool {
        self.bytes.saturating_mul(1_000_000) / (rate / 4).max(1) <= self.time.0 + gap.0
    }

    /// A write was issued this long after the last one.
    fn add(&mut self, bytes: Bytes, gap: Nanos) {
        self.bytes += bytes.0;
        self.time = self.time + gap;
    }
}

impl Backlog {
    pub(super) fn new() -> Backlog {
        Backlog {
            detected: false,
            slow_slices: 0,
            rate: Rate::UNKNOWN,
            round: Round::NEW,
            behind: Behind {
                bytes: 0,
                since: Instant(0),
            },
            unflushed: Unflushed {
                bytes: 0,
                since: Instant(0),
                in_slice: 0,
            },
            last: Instant(0),
        }
    }

    /// The device has a backlog. Returns whether that is new.
    pub(super) fn detect(&mut self) -> bool {
        if !self.detected {
            // What was answered filled the cache, and says nothing of what is written.
            self.rate = Rate::UNKNOWN;
        }
        !core::mem::replace(&mut self.detected, true)
    }

    /// A readers' slice has ended. Returns whether a backlog is newly detected.
    pub(super) fn read_slice_ended(&mut self, is_slow: bool) -> bool {
        self.slow_slices = if is_slow { self.slow_slices + 1 } else { 0 };
        self.slow_slices >= SLOW_SLICES && self.detect()
    }

    /// Whether the device is known to have a backlog at times.
    pub(super) fn is_detected(&self) -> bool {
        self.detected
    }

    /// Whether the device had caught up at `then`, and has acknowledged nothing since.
    pub(super) fn is_level(&self, then: Instant) -> bool {
        let Behind { bytes, since } = self.behind;
        (bytes == 0 && then >= since) || (self.rate.bytes_per_ms.is_some() && self.bytes(then) == Bytes(0))
    }

    /// The device's write rate per millisecond, if it has a backlog and the rate is known.
    pub(super) fn bytes_per_ms(&self) -> Option<u64> {
        self.rate.bytes_per_ms.filter(|_| self.detected)
    }

    /// A write is acknowledged.
    pub(super) fn write_done(&mut self, bytes: Bytes, issued_at: Instant) {
        let (gap, rate) = (issued_at.since(self.last), self.bytes_per_ms());
        let has_paused = gap >= PAUSE;
        let has_caught_up = match rate {
            Some(_) => self.bytes(issued_at) == Bytes(0),
            None => has_paused,
        };
        if has_caught_up {
            self.behind.bytes = 0;
        }
        if self.behind.bytes == 0 {
            self.behind.since = self.behind.since.max(issued_at);
        }
        self.behind.bytes += bytes.0;
        if self.unflushed.bytes == 0 || has_paused {
            (self.unflushed.bytes, self.unflushed.since) = (0, issued_at);
        }
        self.unflushed.bytes += bytes.0;
        self.unflushed.in_slice += bytes.0;
        if has_paused || rate.is_some_and(|rate| self.round.is_written(rate, gap)) {
            self.round = Round::NEW;
            self.round.add(bytes, Nanos::ZERO);
        } else {
            self.round.add(bytes, gap);
        }
        self.last = self.last.max(issued_at);
    }

    /// Bytes acknowledged since the writers' slice began.
    pub(super) fn answered_in_slice(&self) -> Bytes {
        Bytes(self.unflushed.in_slice)
    }

    /// Bytes that the device still has to write before it serves a read.
    pub(super) fn bytes(&self, now: Instant) -> Bytes {
        let written = self.bytes_per_ms().map_or(u64::MAX, |rate| {
            now.since(self.behind.since).0.saturating_mul(rate) / 1_000_000
        });
        Bytes(self.behind.bytes.saturating_sub(written))
    }

    /// A read of a slice was served, with a `usual` latency of its own. `late`: later than the backlog explains.
    /// `answered`: the most bytes per millisecond that the device acknowledges.
    pub(super) fn caught_up(&mut self, now: Instant, usual: Nanos, late: bool, answered: Option<u64>) {
        let took = (self.round.time + now.since(self.last)).0.saturating_sub(usual.0);
        let measured = self.round.rate(Nanos(took));
        match self.rate.bytes_per_ms {
            None => self.rate.bytes_per_ms = measured,
            Some(old) if late => self.rate.lower(old, measured),
            Some(old) if self.detected && self.behind.bytes > 0 => {
                if self.rate.hold_or_raise(old) {
                    self.detected = answered.is_none_or(|answered| old < answered);
                }
            }
            Some(_) => {}
        }
        self.level(now, 0, Round::NEW);
    }

    /// A slice of the readers or of the writers begins.
    pub(super) fn slice_begun(&mut self) {
        self.unflushed.in_slice = 0;
    }

    /// No reader is active now.
    pub(super) fn forget_slow_slices(&mut self) {
        self.slow_slices = 0;
    }

    /// A sync of the device has ended in the slice that began at `stopped`. If that slice took at least half of the
    /// time since the previous sync, the backlog is at most what was still in transit when the writers stopped, and the
    /// bytes written since give the rate.
    pub(super) fn flushed(&mut self, stopped: Instant, now: Instant) {
        let (took, left) = (now.since(self.unflushed.since), self.unflushed.in_slice);
        let written = self.unflushed.bytes.saturating_sub(left);
        self.unflushed = Unflushed {
            bytes: left,
            since: now,
            in_slice: 0,
        };
        if now.since(stopped).0 < took.0 / 2 {
            return;
        }
        if written >= SAMPLE_MIN {
            self.rate.measured(per_ms(written, took));
        }
        let (bytes, time) = (left, Nanos::ZERO);
        self.level(now, left.min(self.behind.bytes), Round { bytes, time });
    }

    /// All but this many bytes have left the device, and a round begins.
    fn level(&mut self, now: Instant, behind: u64, round: Round) {
        self.behind = Behind {
            bytes: behind,
            since: now,
        };
        self.round = round;
        self.last = self.last.max(now);
    }
}

/// This many bytes in this time, per millisecond.
fn per_ms(bytes: u64, took: Nanos) -> u64 {
    bytes.saturating_mul(1_000_000) / took.0.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(0) + Nanos::from_millis(ms)
    }

    /// 8 MiB a served slice, one every 64 ms from `ms`: 128 KiB a millisecond.
    fn slices(backlog: &mut Backlog, ms: u64, count: u64) -> u64 {
        for n in 0..count {
            backlog.write_done(Bytes::from_mib(8), at(ms + 64 * n));
            backlog.caught_up(at(ms + 64 * (n + 1)), Nanos::ZERO, false, None);
        }
        ms + 64 * count
    }

    #[test]
    fn acknowledged_writes_leak_at_the_rate_shown_by_served_slices() {
        let mut backlog = Backlog::new();
        let now = slices(&mut backlog, 0, 4);
        assert_eq!(backlog.bytes_per_ms(), None, "no backlog, as far as is known");
        assert!(backlog.detect() && !backlog.detect());
        let now = slices(&mut backlog, now, 1);
        assert_eq!(backlog.bytes_per_ms(), Some(128 << 10));
        backlog.write_done(Bytes::from_mib(1), at(now));
        assert_eq!(backlog.bytes(at(now)), Bytes::from_mib(1));
        assert_eq!(backlog.bytes(at(now + 4)), Bytes::from_kib(512));
        assert_eq!(backlog.bytes(at(now + 9)), Bytes(0));
    }

    #[test]
    fn a_flush_says_what_is_backlog_no_more_and_how_fast_that_was_written() {
        let mut backlog = Backlog::new();
        backlog.detect();
        // Answered at once; the writers stop at 100 ms, with 8 MiB in transit.
        backlog.write_done(Bytes::from_mib(56), at(0));
        backlog.slice_begun();
        backlog.write_done(Bytes::from_mib(8), at(100));
        backlog.flushed(at(100), at(448));
        assert_eq!(backlog.bytes_per_ms(), Some(128 << 10));
        assert_eq!(backlog.bytes(at(448)), Bytes::from_mib(8));
        // One that ends soon after they stopped says nothing: it may have been for what came before.
        backlog.write_done(Bytes::from_mib(64), at(448));
        backlog.slice_begun();
        backlog.flushed(at(900), at(948));
        assert_eq!(backlog.bytes_per_ms(), Some(128 << 10));
        assert!(backlog.bytes(at(948)) > Bytes(0));
    }

    #[test]
    fn pauses_of_the_writers_do_not_make_the_device_look_slow() {
        for is_known in [false, true] {
            let mut backlog = Backlog::new();
            backlog.detect();
            let now = if is_known { slices(&mut backlog, 0, 1) } else { 0 };
            // A write, ten seconds of nothing, and then as ever.
            backlog.write_done(Bytes::from_mib(1), at(now));
            slices(&mut backlog, now + 10_000, 1);
            let rate = backlog.bytes_per_ms().unwrap();
            assert!(
                rate.abs_diff(128 << 10) <= 4 << 10,
                "{rate}, known before: {is_known}"
            );
        }
    }

    #[test]
    fn a_read_that_took_a_second_is_made_good_by_slices_with_one_short_write() {
        let mut backlog = Backlog::new();
        backlog.detect();
        let mut now = slices(&mut backlog, 0, 1);
        backlog.write_done(Bytes::from_mib(2), at(now));
        now += 1_000;
        backlog.caught_up(at(now), Nanos::ZERO, true, None);
        assert_eq!(backlog.bytes_per_ms(), Some(32 << 10), "a quarter");
        for _ in 0..150 {
            backlog.write_done(Bytes::from_kib(512), at(now));
            now += 4;
            backlog.caught_up(at(now), Nanos::ZERO, false, None);
        }
        let rate = backlog.bytes_per_ms();
        assert!(rate > Some(100 << 10), "{rate:?}");
    }

    /// What is let out while the rate is twice of what the device writes fills its cache, and then a read is late.
    #[test]
    fn a_read_that_is_late_makes_the_rate_what_was_written_in_its_round() {
        let mut backlog = Backlog::new();
        backlog.detect();
        let mut now = slices(&mut backlog, 0, 1);
        for _ in 0..64 {
            now = slices(&mut backlog, now, 1);
        }
        let raised = backlog.bytes_per_ms().unwrap();
        assert!(raised > 256 << 10, "by a 64th a slice: {raised}");
        backlog.write_done(Bytes::from_mib(8), at(now));
        now += 64;
        backlog.caught_up(at(now), Nanos::ZERO, true, None);
        assert_eq!(backlog.bytes_per_ms(), Some(128 << 10));
        // And the next raise comes later the more often that was too much.
        for _ in 0..8 {
            now = slices(&mut backlog, now, 2);
            backlog.write_done(Bytes::from_mib(8), at(now));
            now += 64;
            backlog.caught_up(at(now), Nanos::ZERO, true, None);
        }
        let before = backlog.bytes_per_ms();
        slices(&mut backlog, now, 32);
        assert_eq!(backlog.bytes_per_ms(), before);
    }

    #[test]
    fn four_slices_in_a_row_that_were_slow_for_their_first_read_give_it_away() {
        let mut backlog = Backlog::new();
        for slow in [true, true, true, false, true, true, true] {
            assert!(!backlog.read_slice_ended(slow));
        }
        assert!(backlog.read_slice_ended(true) && backlog.is_detected());
        assert!(!backlog.read_slice_ended(true), "no news any more");
    }

    #[test]
    fn writers_that_trickle_do_not_make_the_device_look_slow() {
        let mut backlog = Backlog::new();
        backlog.detect();
        let mut now = slices(&mut backlog, 0, 1);
        for _ in 0..100 {
            backlog.write_done(Bytes::from_mib(1), at(now));
            now += 400;
        }
        backlog.write_done(Bytes::from_mib(64), at(now));
        backlog.caught_up(at(now + 512), Nanos::ZERO, true, None);
        let rate = backlog.bytes_per_ms().unwrap();
        assert!(rate >= 120 << 10, "{rate}");
    }
}
