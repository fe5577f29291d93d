//! Time slices: readers and writers alternate on a device that does not serve them side by side.
//!
//! Decides whose slice it is. The inputs are since when callers wait, what the device needs for the writes in transit
//! and for a read, the write-cache backlog (`backlog`), and the writers' share. Known as: BFQ's time slices, with DRR's
//! deficit: the next slice makes up for what the previous one lacked.
//! ```text
//!               a read has waited so long that, once the writes in transit and the next one are worked off and
//!               the others that wait are served, it would end later than fifteen sixteenths of the goal
//!            ┌───────────────────────────────────────────────────────────────────────────────────────┐
//!            │                                                                                       ▼
//!     writers' slice                                                                          readers' slice
//!            ▲    Served    all that waited at its beginning, and readers had their share of the     │
//!            │              time for which they were kept waiting                                    │
//!            ├────Gone      no read for a 32nd of the goal                                           │
//!            └────TimedOut  it has lasted as long as the goal (eight goals, and 4 s for a sync,  ◄───┘
//!                           while a device with a backlog serves none of them)
//! ```
//!
//! A writers' slice lasts at least a third of the readers' slice before it, even if the goal is missed for that.
//!
//! The length of the writers' slice follows from the goal, that of the readers' slice from the writers' share. A read
//! directly after another costs a rotating disk half as much as one between writes (5.4 against 11.5 ms of the actuator
//! at 7200 rpm). So a long goal with several reads per slice gives both sides more than a short one with one read.
//!
//! On a device that does not favor writes a readers' slice is two reads long, and begins only once a read has missed
//! the goal.

use super::backlog::Backlog;
use super::favours_writes::Detector;
use super::write_rate::WriteRate;
use super::{Facts, WaitEnd};
use crate::admission::{InTransit, Verdict};
use crate::units::{Bytes, Instant, Nanos};

/// The writers' part of the time that both sides want is never less, in percent.
const SHARE_MIN: u64 = 25;

/// Where reads and writes are served side by side a slice gains a reader little beyond the read that had waited. With
/// slices by share the writers of a real flash disk took 2.2 to 2.6 s for what takes them 1.3 to 1.5 s so.
const READS_BESIDE: u32 = 2;

/// How many goals' time a device with a backlog has to catch up, in a readers' slice.
const CATCHING_UP: u64 = 8;

/// If it has to write all of that, because a caller syncs it, it is given longer than a cache of 256 MiB takes at 120 MB/s.
/// What it gets meanwhile it may write first: the modeled drive takes what is nearest, and a stream is always nearer than
/// the record of a log, which waited for as long as there were writers.
const FLUSHED_IN: Nanos = Nanos::from_secs(4);

/// How far a readers' slice has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The device works at writes that it has still in transit, or at its backlog.
    Draining,
    /// The first that waited has been served, all of them where there is a backlog, or the device was flushed.
    Serving,
    /// All were served and have had their share.
    Served,
}

/// A readers' slice.
#[derive(Clone, Copy, Debug)]
struct ReadSlice {
    /// When the last write was issued before it, and since when the writers had kept a caller waiting.
    stopped: Instant,
    waiting_since: Instant,
    /// The time that the writes in transit then take, at the device's best.
    drain: Nanos,
    /// Until then the device works at its backlog.
    level_at: Instant,
    phase: Phase,
    /// The first read was served only after half of the goal, with no write in transit.
    is_slow: bool,
    /// When the device had nothing but reads.
    drained: Instant,
    /// How many waits have ended, and when the last of them did.
    ended: u32,
    last_end: Instant,
    /// The duration of the seek to the reads, if known, and so that of the seek back.
    seek: Nanos,
}

impl ReadSlice {
    /// No caller that waited when it began still waits.
    fn has_served_all(&self, in_transit: &InTransit) -> bool {
        let oldest = in_transit.waiting_since();
        oldest.is_none_or(|oldest| oldest > self.stopped)
    }
}

/// Why a readers' slice ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// No reader has come back.
    Gone,
    Served,
    TimedOut,
}

/// The state of both sides.
#[derive(Clone, Debug)]
pub(super) struct TimeSlices {
    /// The readers' slice that runs; else it is the writers'.
    read_slice: Option<ReadSlice>,
    /// How long the last one was, and when the writers' slice after it began.
    last_read_slice: Nanos,
    writers_since: Instant,
    /// The time that readers have had too little (above 0) or too much, in nanoseconds.
    deficit: i64,
    /// The latency of a slice's first read once the device had nothing but reads.
    first_read: Recent,
    /// The latency of a read right after another.
    next_read: Nanos,
    rate: WriteRate,
    detector: Detector,
    /// Bytes that a write cache has acknowledged and not yet written.
    backlog: Backlog,
}

impl TimeSlices {
    pub(super) fn new() -> TimeSlices {
        TimeSlices {
            read_slice: None,
            last_read_slice: Nanos::ZERO,
            writers_since: Instant(0),
            deficit: 0,
            first_read: Recent::default(),
            next_read: Nanos::ZERO,
            rate: WriteRate::new(),
            detector: Detector::default(),
            backlog: Backlog::new(),
        }
    }

    /// Whether the device serves new writes before reads that wait.
    pub(super) fn favours_writes(&self) -> bool {
        self.detector.favours_writes() || self.backlog.is_detected()
    }

    /// The bytes that the device writes in `span` at its best, if that is known.
    pub(super) fn written_in(&self, span: Nanos) -> Option<Bytes> {
        let answered = self.rate.best?;
        // A cache answers faster than its disk writes.
        let rate = self
            .backlog
            .bytes_per_ms()
            .map_or(answered, |rate| rate.min(answered));
        Some(Bytes(rate * span.0 / 1_000_000))
    }

    /// The bytes that the device writes in `span` as it is now, if that is known.
    pub(super) fn drained_in(&self, span: Nanos) -> Option<Bytes> {
        let rate = self.backlog.bytes_per_ms().or(self.rate.bytes_per_ms)?;
        Some(Bytes(rate.saturating_mul(span.0) / 1_000_000))
    }

    /// Whether a read issued then had to wait for something acknowledged before.
    pub(super) fn had_backlog(&self, issued_at: Instant) -> bool {
        self.backlog.is_detected() && !self.backlog.is_level(issued_at)
    }

    /// The device's best write rate, in bytes a millisecond; more than any device's if it is not known.
    pub(super) fn best_bytes_per_ms(&self) -> u64 {
        self.rate.best.unwrap_or(u64::MAX)
    }

    /// Its present write rate, in bytes a millisecond; 0 if it is not known.
    pub(super) fn bytes_per_ms(&self) -> u64 {
        self.rate.bytes_per_ms.unwrap_or(0)
    }

    /// A write has ended.
    pub(super) fn write_done(
        &mut self,
        now: Instant,
        bytes: Bytes,
        issued_at: Instant,
        in_transit: &InTransit,
    ) {
        self.rate.add(now, bytes, issued_at);
        self.backlog.write_done(bytes, issued_at);
        if in_transit.transfers_wait() {
            let later = in_transit.waiting(now) > now.since(issued_at);
            self.detector.written(bytes, later);
        }
    }

    /// No reader is active now.
    pub(super) fn forget_readers(&mut self) {
        (self.read_slice, self.deficit, self.last_read_slice) = (None, 0, Nanos::ZERO);
        self.backlog.forget_slow_slices();
    }

    /// A write of `bytes` asks: it goes in the writers' slice. This begins and ends slices.
    pub(super) fn admit(&mut self, facts: Facts<'_>, bytes: Bytes) -> Verdict {
        match self.read_slice {
            Some(slice) => self.admit_in_read_slice(facts, slice),
            None => self.admit_in_write_slice(facts, bytes),
        }
    }

    fn admit_in_read_slice(&mut self, facts: Facts<'_>, slice: ReadSlice) -> Verdict {
        let Facts {
            now,
            goal,
            in_transit,
            ..
        } = facts;
        let is_drained = self.backlog.is_detected() || in_transit.writes() == Bytes(0);
        let is_unserved = slice.phase == Phase::Draining && in_transit.waits() > 0 && is_drained;
        let had_time = in_transit.last_write() <= slice.stopped + Nanos(goal.0 / 4);
        let is_late = now >= slice.stopped + goal;
        if facts.seeks && is_unserved && is_late && had_time && self.backlog.detect() {
            self.backlog_is_found();
        }
        let (begun, longest) = if !self.backlog.is_detected() {
            (slice.stopped, goal)
        } else if !is_unserved {
            (slice.drained, goal)
        } else if in_transit.transfers_wait() {
            (slice.drained, Nanos(goal.0 * CATCHING_UP))
        } else {
            (slice.drained, FLUSHED_IN.max(goal))
        };
        let ends = begun + longest;
        // Short against the goal, long against the time that a reader needs to come back.
        let back_by = in_transit.last_wait_done() + Nanos(goal.0 / 32);
        let is_idle = slice.ended > 0 && in_transit.waits() == 0;
        let end = if is_idle && now >= back_by {
            End::Gone
        } else if slice.phase == Phase::Served {
            End::Served
        } else if now >= ends {
            End::TimedOut
        } else {
            return Verdict::Wait(Some(if is_idle { back_by.min(ends) } else { ends }));
        };
        if end == End::Gone {
            self.deficit = 0;
        }
        // The goal is three reads at least; and what was in transit was written early in it, or should have been.
        let is_early = (is_drained && had_time) || slice.drain.0 < goal.0 / 4;
        let is_short = is_early && end == End::TimedOut && slice.ended < 2;
        if facts.seeks && self.backlog.read_slice_ended(slice.is_slow || is_short) {
            self.backlog_is_found();
        }
        // If no write has asked for a while the slice was over long before.
        self.last_read_slice = now.min(ends).since(slice.drained);
        self.writers_since = now;
        self.backlog.slice_begun();
        self.read_slice = None;
        Verdict::Go
    }

    fn admit_in_write_slice(&mut self, facts: Facts<'_>, bytes: Bytes) -> Verdict {
        let Facts {
            now,
            goal,
            in_transit,
            ..
        } = facts;
        let writes = in_transit.writes();
        let mut level_at = now;
        if let Some(rate) = self.backlog.bytes_per_ms() {
            let wait = self.too_far_behind(facts, rate, bytes);
            if in_transit.waits() == 0 {
                return wait.map_or(Verdict::Go, |wait| Verdict::Wait(Some(now + wait)));
            }
            // A wait that is longer than the goal says that the rate is too high, and only a readers' slice makes it lower.
            if wait.is_none() && !self.is_kept_waiting(facts) {
                return Verdict::Go;
            }
            let behind = writes + self.backlog.bytes(now);
            level_at = now + time_for(behind, rate);
        } else if writes == Bytes(0) || !self.must_stop(facts, writes + bytes) {
            return Verdict::Go;
        }
        self.backlog.slice_begun();
        self.read_slice = Some(ReadSlice {
            stopped: now,
            waiting_since: in_transit.waiting_since().unwrap_or(now).max(self.writers_since),
            drain: self.rate.best.map_or(goal, |best| time_for(writes, best)),
            level_at,
            phase: Phase::Draining,
            is_slow: false,
            drained: now,
            ended: 0,
            last_end: now,
            seek: Nanos::ZERO,
        });
        Verdict::Wait(Some(now + goal))
    }

    /// Whether the writes must stop for waiting callers, with `bytes` in transit and to be issued.
    fn must_stop(&self, facts: Facts<'_>, bytes: Bytes) -> bool {
        let Facts {
            now,
            goal,
            in_transit,
            ..
        } = facts;
        let Some(oldest) = in_transit.waiting_since() else {
            return false;
        };
        if now.since(self.writers_since.max(oldest)) < self.writers_least() {
            return false;
        }
        match (self.first_read.tail(), self.rate.bytes_per_ms) {
            (Some(read), Some(rate)) if self.favours_writes() => {
                let drain = time_for(bytes, rate).0;
                // The oldest may be served last of those that wait.
                let others = u64::from(in_transit.waits() - 1) * self.next_read.0;
                now.since(oldest).0 + drain + read.0 + others >= goal.0 - goal.0 / 16
            }
            // Here it is found out whether the device favors writes.
            _ if facts.seeks => in_transit.waiting(now).0 >= goal.0 / 4,
            // The limit in transit keeps the goal, and a slice is for a read that it has failed.
            _ => in_transit.waiting(now) >= goal,
        }
    }

    /// Where the device writes its backlog at `rate`: for how long the writers must wait, if `bytes` in transit and to be
    /// issued are too much for the oldest wait or the reader that comes next. One write is never too much where the device
    /// has caught up, or after the whole of the goal.
    fn too_far_behind(&self, facts: Facts<'_>, rate: u64, bytes: Bytes) -> Option<Nanos> {
        let Facts {
            now,
            goal,
            in_transit,
            ..
        } = facts;
        let behind = in_transit.writes() + self.backlog.bytes(now);
        let had = in_transit.writes() + self.backlog.answered_in_slice();
        let has_least = time_for(had, rate) >= self.writers_least();
        if behind == Bytes(0) || !has_least || now.since(in_transit.last_write()) >= goal {
            return None;
        }
        let waited = in_transit
            .waiting_since()
            .map_or(Nanos::ZERO, |oldest| now.since(oldest));
        let others = u64::from(in_transit.waits().saturating_sub(1)) * self.next_read.0;
        let read = self.first_read.tail().unwrap_or_default();
        let left = (goal.0 - goal.0 / 16).saturating_sub(waited.0 + read.0 + others);
        let drain = time_for(behind + bytes, rate).0;
        (drain > left).then(|| Nanos(drain - left).min(goal))
    }

    /// A caller has waited for as long as the goal, and the writers have had their least.
    fn is_kept_waiting(&self, facts: Facts<'_>) -> bool {
        let Some(oldest) = facts.in_transit.waiting_since() else {
            return false;
        };
        let had = facts.now.since(self.writers_since.max(oldest));
        facts.now.since(oldest) >= facts.goal && had >= self.writers_least()
    }

    /// The minimum of the writers' time after the last readers' slice.
    fn writers_least(&self) -> Nanos {
        Nanos(self.last_read_slice.0 * SHARE_MIN / (100 - SHARE_MIN))
    }

    /// It is news that the device has a backlog.
    fn backlog_is_found(&mut self) {
        self.first_read = Recent::default();
    }

    /// A wait for a transfer has ended: for a read, or for a write, which the device may answer without having written it. At
    /// most `limit` was in transit.
    pub(super) fn wait_ended(&mut self, facts: Facts<'_>, end: WaitEnd, limit: Bytes) {
        let Facts {
            now,
            goal,
            in_transit,
            ..
        } = facts;
        self.detector.wait_ended(limit);
        let Some(slice) = self.read_slice.as_mut() else {
            return;
        };
        // Of several that wait behind a backlog the device may have one in its hands already.
        let is_level = !self.backlog.is_detected() || slice.has_served_all(in_transit);
        if slice.phase == Phase::Draining && is_level {
            slice.phase = Phase::Serving;
            if in_transit.writes() == Bytes(0) {
                slice.drained = in_transit.last_write().max(slice.stopped);
                // The head comes from elsewhere.
                let usual = Nanos(self.next_read.0 * (u64::from(slice.ended) + 2));
                if self.backlog.is_detected() {
                    slice.drained = slice.drained.max(Instant(now.0.saturating_sub(usual.0)));
                }
                if end.is_read {
                    let late = now.since(slice.level_at.max(slice.stopped)).0 > usual.0 + goal.0 / 4;
                    let answered = self.rate.best;
                    self.backlog.caught_up(now, usual, late, answered);
                    slice.is_slow = now.since(in_transit.last_write().max(slice.stopped)).0 >= goal.0 / 2;
                }
                // Of those that waited only the first had the seek.
                let others = self.next_read.0 * u64::from(slice.ended);
                let first = Nanos(now.since(slice.drained).0.saturating_sub(others));
                self.first_read.add(first);
                slice.seek = Nanos(first.0.saturating_sub(self.next_read.0));
            }
        } else if slice.phase != Phase::Draining {
            let took = now.since(slice.last_end).0;
            let known = self.next_read.0;
            self.next_read.0 = if known == 0 { took } else { (known * 7 + took) / 8 };
        }
        self.count_end(facts);
    }

    /// A sync of the device has ended that a caller waited for.
    pub(super) fn device_sync_ended(&mut self, facts: Facts<'_>) {
        // Nothing stood in its way that was written meanwhile.
        self.detector.forget_ahead();
        if let Some(slice) = self.read_slice.as_mut() {
            if slice.ended == 0 {
                slice.drained = facts.in_transit.last_write().max(slice.stopped);
            }
            if slice.phase == Phase::Draining {
                slice.phase = Phase::Serving;
            }
            self.backlog.flushed(slice.stopped, facts.now);
        }
        self.count_end(facts);
    }

    /// One more wait of the readers' slice has ended: whether they have had their share.
    fn count_end(&mut self, facts: Facts<'_>) {
        let favours_writes = self.favours_writes();
        let Some(slice) = self.read_slice.as_mut() else {
            return;
        };
        slice.ended += 1;
        slice.last_end = facts.now;
        let share = u64::from(facts.share.clamp(1, 99));
        let due = slice.drained.since(slice.waiting_since).0 * (100 - share) / share;
        let had = (facts.now.since(slice.drained) + slice.seek).0;
        let left = due as i64 + self.deficit - had as i64;
        let is_served = if favours_writes {
            slice.has_served_all(facts.in_transit) && left < self.next_read.0 as i64 / 2
        } else {
            slice.ended >= READS_BESIDE
        };
        if is_served {
            let most = facts.goal.0 as i64 / 2;
            self.deficit = left.clamp(-most, most);
            slice.phase = Phase::Served;
        }
    }
}

/// The last values of a series, and the second largest of them.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    values: [Nanos; 32],
    count: u32,
}

impl Recent {
    fn add(&mut self, value: Nanos) {
        self.values[self.count as usize % self.values.len()] = value;
        self.count = self.count.saturating_add(1);
    }

    /// The largest but one: of 32 about the 95th percentile. `None` before there are four.
    fn tail(&self) -> Option<Nanos> {
        let mut sorted = self.values;
        let known = (self.count as usize).min(sorted.len());
        sorted[..known].sort_unstable();
        (known >= 4).then(|| sorted[known - 2])
    }
}

/// The time for this many bytes at a rate in bytes a millisecond.
fn time_for(bytes: Bytes, rate: u64) -> Nanos {
    Nanos(bytes.0.saturating_mul(1_000_000) / rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_the_recent_is_the_largest_but_one_and_forgets() {
        let mut recent = Recent::default();
        assert_eq!(recent.tail(), None);
        for us in [9, 3, 7, 1] {
            recent.add(Nanos::from_micros(us));
        }
        assert_eq!(recent.tail(), Some(Nanos::from_micros(7)));
        for _ in 0..32 {
            recent.add(Nanos::from_micros(2));
        }
        assert_eq!(recent.tail(), Some(Nanos::from_micros(2)));
    }
}
