//! Whose turn it is on a device that does not serve reads and writes side by side.
//!
//! ```text
//! stop     when a read has waited for so long that, once the writes in transit and the next one have been worked
//!          off and the others who wait have been served, it would end later than fifteen sixteenths of the goal
//! readers  until all who waited at the beginning have been served and they have had their part of the time for which
//!          they were kept waiting, none comes back, or the turn has lasted as long as the goal (eight goals, and 4 s
//!          for a sync, while a device that hides what it has to write serves none of them)
//! writers  at least a third of the time that the readers' last turn took, even where the goal is missed for it
//! ```
//!
//! How long the writers' turn is follows from the goal, how long the readers' is from the writers' share: a read
//! right after another costs a rotating disk half of one between writes (5.4 against 11.5 ms of the actuator at
//! 7200 rpm), so a long goal with several reads a turn gives both sides more than a short one with one read.

use super::Recent;
use super::backlog::Backlog;
use super::favours_writes::FavoursWrites;
use super::rate::WriteRate;
use crate::admission::InTransit;
use crate::units::{Bytes, Instant, Nanos};

/// The writers' part of the time that both sides want is never less, in percent.
const SHARE_MIN: u64 = 25;

/// Where reads and writes are served side by side a turn gains a reader little beyond the read that had waited. With
/// turns by share the writers of a real flash disk took 2.2 to 2.6 s for what takes them 1.3 to 1.5 s so.
const READS_BESIDE: u32 = 2;

/// A device that hides what it has to write has so many goals' time to catch up, in a turn of the readers.
const CATCHING_UP: u64 = 8;

/// If it has to write all of that, because somebody syncs it, it is given longer than a cache of 256 MiB takes at 120 MB/s.
/// What it gets meanwhile it may write first: the modelled drive takes what is nearest, and a stream is always nearer than
/// the record of a log, which waited for as long as there were writers.
const FLUSHED_IN: Nanos = Nanos::from_secs(4);

/// A turn of the readers.
#[derive(Clone, Copy, Debug)]
struct ReadSlice {
    /// When the last write was issued before it, and since when the writers had kept somebody waiting.
    stopped: Instant,
    /// What was in transit then, at the device's best.
    drain: Nanos,
    /// What the device hid then takes it until then.
    level_at: Instant,
    /// The first who waited has been served, all of them where the device hides writes, or it was flushed.
    is_level: bool,
    /// The first read was served only after half of the goal, with no write in transit.
    is_slow: bool,
    waiting_since: Instant,
    /// When the device had nothing but reads.
    drained: Instant,
    /// How many reads have ended, and when the last of them did.
    ended: u32,
    last_end: Instant,
    /// What the way there took, as far as it is known, and so the way back will.
    way: Nanos,
    over: bool,
}

/// The state of both sides.
#[derive(Clone, Debug)]
pub(super) struct TimeSlices {
    read_slice: Option<ReadSlice>,
    /// What the first read of a turn took once the device had nothing but reads.
    first_read: Recent,
    rate: WriteRate,
    /// Writes overtake reads: the device has to be kept from it.
    pub(super) favours_writes: bool,
    detector: FavoursWrites,
    /// Whether this may be a device with a cache that makes reads wait, and what it has answered and not yet written.
    may_have_backlog: bool,
    backlog: Backlog,
    /// What a read right after another takes.
    next_read: Nanos,
    /// What the readers have had too little (above 0) or too much, in nanoseconds.
    deficit: i64,
    /// The last turn of the readers, and when it ended.
    last: Nanos,
    writers_since: Instant,
}

impl TimeSlices {
    /// `may_have_backlog`: the device may be one with a cache that makes reads wait.
    pub(super) fn new(may_have_backlog: bool) -> TimeSlices {
        TimeSlices {
            read_slice: None,
            first_read: Recent::new(),
            rate: WriteRate::new(),
            favours_writes: false,
            detector: FavoursWrites::default(),
            may_have_backlog,
            backlog: Backlog::new(),
            next_read: Nanos::ZERO,
            deficit: 0,
            last: Nanos::ZERO,
            writers_since: Instant(0),
        }
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

    /// Whether a read that was issued then had something to wait for that was answered before.
    pub(super) fn backlog_before(&self, issued_at: Instant) -> bool {
        self.backlog.is_detected() && !self.backlog.is_level(issued_at)
    }

    /// What it writes at its best, in bytes a millisecond; more than any device if that is not known.
    pub(super) fn best_bytes_per_ms(&self) -> u64 {
        self.rate.best.unwrap_or(u64::MAX)
    }

    /// What it writes now, in bytes a millisecond; 0 if that is not known.
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

    /// Nobody reads any more.
    pub(super) fn forget(&mut self) {
        (self.read_slice, self.deficit, self.last) = (None, 0, Nanos::ZERO);
        self.backlog.forget_slow_slices();
    }

    /// Whether the writes must stop for those who wait, with `bytes` in transit and to be issued.
    fn must_stop(&self, now: Instant, goal: Nanos, bytes: Bytes, in_transit: &InTransit) -> bool {
        let Some(oldest) = in_transit.waiting_since() else {
            return false;
        };
        if now.since(self.writers_since.max(oldest)) < self.writers_least() {
            return false;
        }
        match (self.first_read.tail(), self.rate.bytes_per_ms) {
            (Some(read), Some(rate)) if self.favours_writes => {
                let drain = time_for(bytes, rate).0;
                // The oldest may be served last of those who wait.
                let others = u64::from(in_transit.waits() - 1) * self.next_read.0;
                now.since(oldest).0 + drain + read.0 + others >= goal.0 - goal.0 / 16
            }
            // Here it is found out whether writes overtake reads.
            _ if self.may_have_backlog => in_transit.waiting(now).0 >= goal.0 / 4,
            // The limit keeps the goal, and a turn is for a read that it has failed.
            _ => in_transit.waiting(now) >= goal,
        }
    }

    /// Where the device hides what it has to write at `rate`: for how long the writers must wait, if `bytes` in transit and
    /// to be issued are too much for the oldest who waits or the reader who comes next. One write is never too much where
    /// the device has caught up, or after the whole of the goal.
    fn too_far_behind(
        &self,
        now: Instant,
        goal: Nanos,
        rate: u64,
        bytes: Bytes,
        in_transit: &InTransit,
    ) -> Option<Nanos> {
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
        let room = (goal.0 - goal.0 / 16).saturating_sub(waited.0 + read.0 + others);
        let drain = time_for(behind + bytes, rate).0;
        (drain > room).then(|| Nanos(drain - room).min(goal))
    }

    /// Somebody has waited for as long as the goal, and the writers have had their least.
    fn is_kept_waiting(&self, now: Instant, goal: Nanos, in_transit: &InTransit) -> bool {
        let Some(oldest) = in_transit.waiting_since() else {
            return false;
        };
        let had = now.since(self.writers_since.max(oldest));
        now.since(oldest) >= goal && had >= self.writers_least()
    }

    /// What the writers have at the least after the last turn of the readers.
    fn writers_least(&self) -> Nanos {
        Nanos(self.last.0 * SHARE_MIN / (100 - SHARE_MIN))
    }

    /// Whether it is news now that the device hides what it has to write.
    fn on_backlog(&mut self, is_news: bool) {
        if is_news {
            self.favours_writes = true;
            self.first_read = Recent::new();
        }
    }

    /// If it is the readers' turn: when to ask again, unless a transfer ends before.
    pub(super) fn readers_until(
        &mut self,
        now: Instant,
        goal: Nanos,
        bytes: Bytes,
        in_transit: &InTransit,
    ) -> Option<Instant> {
        if let Some(slice) = self.read_slice {
            let drained = self.backlog.is_detected() || in_transit.writes() == Bytes(0);
            let unserved = !slice.is_level && in_transit.waits() > 0 && drained;
            let had_time = in_transit.last_write() <= slice.stopped + Nanos(goal.0 / 4);
            let is_over = now >= slice.stopped + goal;
            let is_hiding = self.may_have_backlog && unserved && is_over && had_time;
            if is_hiding {
                let is_news = self.backlog.detect();
                self.on_backlog(is_news);
            }
            let longest = match self.backlog.is_detected() && unserved {
                true if in_transit.transfers_wait() => Nanos(goal.0 * CATCHING_UP),
                true => FLUSHED_IN.max(goal),
                false => goal,
            };
            let begun = if self.backlog.is_detected() {
                slice.drained
            } else {
                slice.stopped
            };
            let ends = begun + longest;
            // Short against the goal, long against the time that a reader needs to come back.
            let back_by = in_transit.last_wait_done() + Nanos(goal.0 / 32);
            let is_gone = slice.ended > 0 && in_transit.waits() == 0 && now >= back_by;
            if !slice.over && !is_gone && now < ends {
                let alone = slice.ended > 0 && in_transit.waits() == 0;
                return Some(if alone { back_by.min(ends) } else { ends });
            }
            if is_gone {
                self.deficit = 0;
            }
            // The goal is three reads at least; and what was in transit was written early in it, or should have been.
            let early = (drained && had_time) || slice.drain.0 < goal.0 / 4;
            let is_short = early && !is_gone && !slice.over && slice.ended < 2;
            if self.may_have_backlog {
                let is_news = self.backlog.read_slice_ended(slice.is_slow || is_short);
                self.on_backlog(is_news);
            }
            // If no write has asked for a while the turn was over long before.
            self.last = now.min(ends).since(slice.drained);
            self.writers_since = now;
            self.backlog.slice_begun();
            self.read_slice = None;
            return None;
        }
        let writes = in_transit.writes();
        let mut level_at = now;
        if let Some(rate) = self.backlog.bytes_per_ms() {
            let wait = self.too_far_behind(now, goal, rate, bytes, in_transit);
            if in_transit.waits() == 0 {
                return wait.map(|wait| now + wait);
            }
            // Who waits for longer than the goal says that the rate is too high, and only a turn makes it lower.
            if wait.is_none() && !self.is_kept_waiting(now, goal, in_transit) {
                return None;
            }
            let behind = writes + self.backlog.bytes(now);
            level_at = now + time_for(behind, rate);
        } else if writes == Bytes(0) || !self.must_stop(now, goal, writes + bytes, in_transit) {
            return None;
        }
        self.backlog.slice_begun();
        self.read_slice = Some(ReadSlice {
            stopped: now,
            drain: self.rate.best.map_or(goal, |best| time_for(writes, best)),
            level_at,
            is_level: false,
            is_slow: false,
            waiting_since: in_transit.waiting_since().unwrap_or(now).max(self.writers_since),
            drained: now,
            ended: 0,
            last_end: now,
            way: Nanos::ZERO,
            over: false,
        });
        Some(now + goal)
    }

    /// Somebody's transfer has ended: a read, or a write, which the device may answer without having written it. At most
    /// `limit` was in transit, and the writers are to have `share` percent.
    pub(super) fn transfer_ended(
        &mut self,
        now: Instant,
        goal: Nanos,
        limit: Bytes,
        share: u32,
        is_read: bool,
        in_transit: &InTransit,
    ) {
        if let Some(favours_writes) = self.detector.served(limit) {
            self.favours_writes = favours_writes || self.backlog.is_detected();
        }
        let Some(slice) = self.read_slice.as_mut() else {
            return;
        };
        // Of several who wait for what a device hides one may be in its hands already.
        let is_level = match self.backlog.is_detected() {
            true => is_served(slice, in_transit),
            false => true,
        };
        if !slice.is_level && is_level {
            slice.is_level = true;
            if in_transit.writes() == Bytes(0) {
                slice.drained = in_transit.last_write().max(slice.stopped);
                // The head comes from elsewhere.
                let usual = Nanos(self.next_read.0 * (u64::from(slice.ended) + 2));
                if self.backlog.is_detected() {
                    slice.drained = slice.drained.max(Instant(now.0.saturating_sub(usual.0)));
                }
                if is_read {
                    let late = now.since(slice.level_at.max(slice.stopped)).0 > usual.0 + goal.0 / 4;
                    self.backlog.caught_up(now, usual, late);
                    slice.is_slow = now.since(in_transit.last_write().max(slice.stopped)).0 >= goal.0 / 2;
                }
                // Of those who waited only the first had the way there.
                let others = self.next_read.0 * u64::from(slice.ended);
                let first = Nanos(now.since(slice.drained).0.saturating_sub(others));
                self.first_read.add(first);
                slice.way = Nanos(first.0.saturating_sub(self.next_read.0));
            }
        } else if slice.is_level {
            let took = now.since(slice.last_end).0;
            let known = self.next_read.0;
            self.next_read.0 = if known == 0 { took } else { (known * 7 + took) / 8 };
        }
        self.wait_ended(now, goal, share, in_transit);
    }

    /// A sync of the device has ended that somebody waited for; the writers are to have `share` percent.
    pub(super) fn device_sync_ended(
        &mut self,
        now: Instant,
        goal: Nanos,
        share: u32,
        in_transit: &InTransit,
    ) {
        // Nothing stood in its way that was written meanwhile.
        self.detector.forget();
        if let Some(slice) = self.read_slice.as_mut() {
            if slice.ended == 0 {
                slice.drained = in_transit.last_write().max(slice.stopped);
            }
            slice.is_level = true;
            self.backlog.flushed(slice.stopped, now);
        }
        self.wait_ended(now, goal, share, in_transit);
    }

    fn wait_ended(&mut self, now: Instant, goal: Nanos, share: u32, in_transit: &InTransit) {
        let Some(slice) = self.read_slice.as_mut() else {
            return;
        };
        slice.ended += 1;
        slice.last_end = now;
        let share = u64::from(share.clamp(1, 99));
        let due = slice.drained.since(slice.waiting_since).0 * (100 - share) / share;
        let left = due as i64 + self.deficit - (now.since(slice.drained) + slice.way).0 as i64;
        let is_over = match self.favours_writes {
            true => is_served(slice, in_transit) && left < self.next_read.0 as i64 / 2,
            false => slice.ended >= READS_BESIDE,
        };
        if is_over {
            let most = goal.0 as i64 / 2;
            self.deficit = left.clamp(-most, most);
            slice.over = true;
        }
    }
}

/// For so many bytes at a rate in bytes a millisecond.
fn time_for(bytes: Bytes, rate: u64) -> Nanos {
    Nanos(bytes.0.saturating_mul(1_000_000) / rate.max(1))
}

/// Nobody who waited when it began does any more.
fn is_served(slice: &ReadSlice, in_transit: &InTransit) -> bool {
    let oldest = in_transit.waiting_since();
    oldest.is_none_or(|oldest| oldest > slice.stopped)
}
