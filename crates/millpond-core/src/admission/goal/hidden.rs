//! What a device has answered and not yet written: a volatile write cache.
//!
//! A disk with such a cache answers a write in no time, and lets reads wait while it has too much of that. Nothing is in
//! transit then that could be held back, so what was answered is followed by a bucket that leaks:
//!
//! ```text
//!   hides    a turn of the readers has lasted as long as the goal, with no write in transit, and none of them was served
//!   behind   bytes answered since the device had caught up, less what it writes in the time since
//!   rate     bytes answered from one such moment to the next, by the time between: whenever a read of a turn is served,
//!            the device has caught up, and when it was flushed in a turn
//! ```
//!
//! How full the cache is remains unknown; what matters is what has to be written before a read is served, and that is 0
//! when one is. Only where a request costs its way (a long goal) is it looked for: a flash disk that stalls for its own
//! affairs hides nothing. Seed 001's v3 keeps such a device's queue short for a while after other I/O instead (its
//! write-cache delay).

use crate::units::{Bytes, Instant, Nanos};

/// Less does not say that a rate is low.
const SAMPLE_MIN: u64 = 1 << 20;

/// After so long without a write the device has caught up, before its rate is known: 64 MiB at 120 MB/s.
const PAUSE: Nanos = Nanos::from_millis(500);

/// The bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hidden {
    hides: bool,
    /// What the device writes, bytes a millisecond.
    rate: Option<u64>,
    /// Answered since then, with no pause in which the device must have caught up.
    bytes: u64,
    since: Instant,
    last: Instant,
    /// Answered since it was last flushed, or after a pause, and when the first of that was issued.
    unflushed: u64,
    unflushed_since: Instant,
    /// Of that, since the last turn of the readers began.
    since_turn: u64,
}

impl Hidden {
    pub(super) fn new() -> Hidden {
        Hidden {
            hides: false,
            rate: None,
            bytes: 0,
            since: Instant(0),
            last: Instant(0),
            unflushed: 0,
            unflushed_since: Instant(0),
            since_turn: 0,
        }
    }

    /// In a turn nobody was served for the whole goal: it hides something. Whether that is news.
    pub(super) fn is_seen(&mut self) -> bool {
        !core::mem::replace(&mut self.hides, true)
    }

    pub(super) fn hides(&self) -> bool {
        self.hides
    }

    /// Whether the device had caught up by then, and nothing was answered since.
    pub(super) fn is_level(&self, then: Instant) -> bool {
        (self.bytes == 0 && then >= self.since) || (self.rate.is_some() && self.behind(then) == Bytes(0))
    }

    /// What it writes in a millisecond, if it hides writes and that is known.
    pub(super) fn bytes_per_ms(&self) -> Option<u64> {
        self.rate.filter(|_| self.hides)
    }

    /// A write is answered.
    pub(super) fn answered(&mut self, bytes: Bytes, issued_at: Instant) {
        let paused = match self.bytes_per_ms() {
            Some(_) => self.behind(issued_at) == Bytes(0),
            None => issued_at.since(self.last) >= PAUSE,
        };
        if paused {
            self.bytes = 0;
        }
        if self.bytes == 0 {
            self.since = self.since.max(issued_at);
        }
        self.bytes += bytes.0;
        if self.unflushed == 0 || issued_at.since(self.last) >= PAUSE {
            (self.unflushed, self.unflushed_since) = (0, issued_at);
        }
        self.unflushed += bytes.0;
        self.since_turn += bytes.0;
        self.last = self.last.max(issued_at);
    }

    /// What the device has still to write before it serves a read.
    pub(super) fn behind(&self, now: Instant) -> Bytes {
        let written = self.bytes_per_ms().map_or(u64::MAX, |rate| {
            now.since(self.since).0.saturating_mul(rate) / 1_000_000
        });
        Bytes(self.bytes.saturating_sub(written))
    }

    /// A read of a turn was served, after `usual` of its own.
    pub(super) fn caught_up(&mut self, now: Instant, usual: Nanos) {
        let took = now.since(self.since).0.saturating_sub(usual.0);
        let new = self.bytes.saturating_mul(1_000_000) / took.max(1);
        let says_much = self.bytes >= SAMPLE_MIN && took > 0;
        self.rate = match self.rate {
            // Some of it filled the cache's room and made it look quick, and that is a reader's wait: down at once. But no
            // lower than a quarter, which may be one read that took a second.
            Some(old) if new < old / 4 * 3 && says_much => Some(new.max(old / 4)),
            Some(old) if new < old && says_much => Some(u64::midpoint(old, new)),
            Some(old) if new > old && says_much => Some((old * 7 + new) / 8),
            // Where little is let out that is all there is; but the cache's room may have had it.
            Some(old) if new > old && self.bytes > 0 && self.bytes < SAMPLE_MIN => {
                Some(old + old.div_ceil(64))
            }
            None if says_much => Some(new),
            rate => rate,
        };
        (self.bytes, self.since) = (0, now);
    }

    /// A turn of the readers begins.
    pub(super) fn turn_begun(&mut self) {
        self.since_turn = 0;
    }

    /// A sync of the device has ended in the turn that began at `stopped`. If that was at least half of the time since the one
    /// before, nothing is hidden but what was still in transit when the writers stopped; and what was written since says how
    /// fast it is.
    pub(super) fn flushed(&mut self, stopped: Instant, now: Instant) {
        let (took, left) = (now.since(self.unflushed_since).0, self.since_turn);
        let written = self.unflushed.saturating_sub(left);
        (self.unflushed, self.unflushed_since, self.since_turn) = (left, now, 0);
        if now.since(stopped).0 < took / 2 {
            return;
        }
        if written >= SAMPLE_MIN {
            let new = written.saturating_mul(1_000_000) / took.max(1);
            self.rate = Some(match self.rate {
                Some(old) if new > old => (old * 7 + new) / 8,
                _ => new,
            });
        }
        (self.bytes, self.since) = (left.min(self.bytes), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(0) + Nanos::from_millis(ms)
    }

    /// 8 MiB a served turn, one turn every 64 ms from `ms`: 128 KiB a millisecond.
    fn turns(hidden: &mut Hidden, ms: u64, count: u64) -> u64 {
        for n in 0..count {
            hidden.answered(Bytes::from_mib(8), at(ms + 64 * n));
            hidden.caught_up(at(ms + 64 * (n + 1)), Nanos::ZERO);
        }
        ms + 64 * count
    }

    #[test]
    fn what_was_answered_leaks_at_the_rate_that_served_turns_have_shown() {
        let mut hidden = Hidden::new();
        let now = turns(&mut hidden, 0, 4);
        assert_eq!(
            hidden.bytes_per_ms(),
            None,
            "it hides nothing, as far as is known"
        );
        assert!(hidden.is_seen() && !hidden.is_seen());
        assert_eq!(hidden.bytes_per_ms(), Some(128 << 10));
        hidden.answered(Bytes::from_mib(1), at(now));
        assert_eq!(hidden.behind(at(now)), Bytes::from_mib(1));
        assert_eq!(hidden.behind(at(now + 4)), Bytes::from_kib(512));
        assert_eq!(hidden.behind(at(now + 9)), Bytes(0));
    }

    #[test]
    fn a_flush_says_what_is_hidden_no_more_and_how_fast_that_was_written() {
        let mut hidden = Hidden::new();
        hidden.is_seen();
        // Answered at once; the writers stop at 100 ms, with 8 MiB in transit.
        hidden.answered(Bytes::from_mib(56), at(0));
        hidden.turn_begun();
        hidden.answered(Bytes::from_mib(8), at(100));
        hidden.flushed(at(100), at(448));
        assert_eq!(hidden.bytes_per_ms(), Some(128 << 10));
        assert_eq!(hidden.behind(at(448)), Bytes::from_mib(8));
        // One that ends soon after they stopped says nothing: it may have been for what came before.
        hidden.answered(Bytes::from_mib(64), at(448));
        hidden.turn_begun();
        hidden.flushed(at(900), at(948));
        assert_eq!(hidden.bytes_per_ms(), Some(128 << 10));
        assert!(hidden.behind(at(948)) > Bytes(0));
    }

    #[test]
    fn pauses_of_the_writers_do_not_make_the_device_look_slow() {
        for is_known in [false, true] {
            let mut hidden = Hidden::new();
            let now = if is_known { turns(&mut hidden, 0, 4) } else { 0 };
            hidden.is_seen();
            // A write, ten seconds of nothing, and then as ever.
            hidden.answered(Bytes::from_mib(1), at(now));
            turns(&mut hidden, now + 10_000, 1);
            assert_eq!(hidden.bytes_per_ms(), Some(128 << 10), "known before: {is_known}");
        }
    }

    #[test]
    fn a_read_that_took_a_second_is_made_good_by_turns_with_one_short_write() {
        let mut hidden = Hidden::new();
        let mut now = turns(&mut hidden, 0, 4);
        hidden.answered(Bytes::from_mib(2), at(now));
        now += 1_000;
        hidden.caught_up(at(now), Nanos::ZERO);
        assert_eq!(hidden.rate, Some(32 << 10), "a quarter");
        for _ in 0..150 {
            hidden.answered(Bytes::from_kib(512), at(now));
            now += 4;
            hidden.caught_up(at(now), Nanos::ZERO);
        }
        assert!(hidden.rate > Some(100 << 10), "{:?}", hidden.rate);
    }
}
