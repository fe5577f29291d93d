//! Whose turn it is on a device that does not serve reads and writes side by side.
//!
//! ```text
//! stop     when a read has waited for so long that, once the writes in transit and the next one have been worked
//!          off, it would end later than fifteen sixteenths of the goal
//! readers  until they have had their part of the time for which they were kept waiting, none comes back, or the
//!          turn has lasted as long as the goal
//! writers  at least a third of the time that the readers' last turn took, even where the goal is missed for it
//! ```
//!
//! How long the writers' turn is follows from the goal, how long the readers' is from the writers' share: a read
//! right after another costs a rotating disk half of one between writes (5.4 against 11.5 ms of the actuator at
//! 7200 rpm), so a long goal with several reads a turn gives both sides more than a short one with one read.

use super::Recent;
use crate::admission::InTransit;
use crate::units::{Bytes, Instant, Nanos};

/// The writers' part of the time that both sides want is never less, in percent.
const SHARE_MIN: u64 = 25;

/// Where reads and writes are served side by side a turn gains a reader little beyond the read that had waited. With
/// turns by share the writers of a real flash disk took 2.2 to 2.6 s for what takes them 1.3 to 1.5 s so.
const READS_BESIDE: u32 = 2;

/// A turn of the readers.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// When the last write was issued before it, and since when the read that ended the writers' turn had waited.
    stopped: Instant,
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
pub(super) struct Turns {
    readers: Option<Turn>,
    /// What the first read of a turn took once the device had nothing but reads.
    first_read: Recent,
    rate: WriteRate,
    /// Writes overtake reads: the device has to be kept from it.
    pub(super) overtakes: bool,
    /// Bytes of writes that were issued and have ended since a read began to wait, while it waits.
    ahead: u64,
    /// What a read right after another takes.
    next_read: Nanos,
    /// What the readers have had too little (above 0) or too much, in nanoseconds.
    owed: i64,
    /// The last turn of the readers.
    last: Nanos,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns {
            readers: None,
            first_read: Recent::new(),
            rate: WriteRate::new(),
            overtakes: false,
            ahead: 0,
            next_read: Nanos::ZERO,
            owed: 0,
            last: Nanos::ZERO,
        }
    }

    /// The bytes that the device writes in `span`, if that is known.
    pub(super) fn written_in(&self, span: Nanos) -> Option<Bytes> {
        let rate = self.rate.bytes_per_ms?;
        Some(Bytes(rate * span.0 / 1_000_000))
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
        if in_transit.waits() > 0 && in_transit.waiting(now) > now.since(issued_at) {
            self.ahead += bytes.0;
        }
    }

    /// How much was written before the read that has just ended, though it was issued later.
    pub(super) fn overtaken_by(&mut self) -> Bytes {
        Bytes(core::mem::take(&mut self.ahead))
    }

    /// Nobody reads any more.
    pub(super) fn forget(&mut self) {
        (self.readers, self.owed, self.last) = (None, 0, Nanos::ZERO);
    }

    /// Whether the writes must stop for a read that has waited for so long, with `bytes` in transit and to be issued.
    fn must_stop(&self, waited: Nanos, goal: Nanos, bytes: Bytes) -> bool {
        if waited.0 < self.last.0 * SHARE_MIN / (100 - SHARE_MIN) {
            return false;
        }
        match (self.first_read.tail(), self.rate.bytes_per_ms) {
            (Some(read), Some(rate)) if self.overtakes => {
                let drain = bytes.0.saturating_mul(1_000_000) / rate.max(1);
                waited.0 + drain + read.0 >= goal.0 - goal.0 / 16
            }
            _ => waited.0 >= goal.0 / 4,
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
        if let Some(turn) = self.readers {
            let ends = turn.stopped + goal;
            // Short against the goal, long against the time that a reader needs to come back.
            let back_by = in_transit.last_wait_done() + Nanos(goal.0 / 32);
            let is_gone = turn.ended > 0 && in_transit.waits() == 0 && now >= back_by;
            if !turn.over && !is_gone && now < ends {
                let alone = turn.ended > 0 && in_transit.waits() == 0;
                return Some(if alone { back_by.min(ends) } else { ends });
            }
            if is_gone {
                self.owed = 0;
            }
            self.last = now.since(turn.drained);
            self.readers = None;
            return None;
        }
        let waited = in_transit.waiting(now);
        let writes = in_transit.writes();
        if in_transit.waits() == 0 || writes == Bytes(0) || !self.must_stop(waited, goal, writes + bytes) {
            return None;
        }
        self.readers = Some(Turn {
            stopped: now,
            waiting_since: Instant(now.0 - waited.0),
            drained: now,
            ended: 0,
            last_end: now,
            way: Nanos::ZERO,
            over: false,
        });
        Some(now + goal)
    }

    /// Somebody's wait has ended, with `own` bytes at most of his own still counted; the writers are to have `share`
    /// percent. In a turn of the readers: which one it was.
    pub(super) fn wait_ended(
        &mut self,
        now: Instant,
        own: Bytes,
        goal: Nanos,
        share: u32,
        in_transit: &InTransit,
    ) -> Option<u32> {
        let turn = self.readers.as_mut()?;
        turn.ended += 1;
        if turn.ended == 1 {
            if in_transit.writes() <= own {
                turn.drained = in_transit.last_write().max(turn.stopped);
                self.first_read.add(now.since(turn.drained));
                turn.way = Nanos(now.since(turn.drained).0.saturating_sub(self.next_read.0));
            }
        } else {
            let took = now.since(turn.last_end).0;
            let known = self.next_read.0;
            self.next_read.0 = if known == 0 { took } else { (known * 7 + took) / 8 };
        }
        turn.last_end = now;
        let share = u64::from(share.clamp(1, 99));
        let due = turn.drained.since(turn.waiting_since).0 * (100 - share) / share;
        let left = due as i64 + self.owed - (now.since(turn.drained) + turn.way).0 as i64;
        let is_over = match self.overtakes {
            true => left < self.next_read.0 as i64 / 2,
            false => turn.ended >= READS_BESIDE,
        };
        if is_over {
            let most = goal.0 as i64 / 2;
            self.owed = left.clamp(-most, most);
            turn.over = true;
        }
        Some(turn.ended)
    }
}

/// What the device writes while it has something to write.
#[derive(Clone, Copy, Debug)]
struct WriteRate {
    bytes_per_ms: Option<u64>,
    last_end: Instant,
    bytes: u64,
    busy: u64,
}

/// So many bytes make a rate: shorter stretches are the device's cache.
const RATE_BYTES: u64 = 4 << 20;

impl WriteRate {
    fn new() -> WriteRate {
        WriteRate {
            bytes_per_ms: None,
            last_end: Instant(0),
            bytes: 0,
            busy: 0,
        }
    }

    fn add(&mut self, now: Instant, bytes: Bytes, issued_at: Instant) {
        self.busy += now.since(self.last_end.max(issued_at)).0;
        self.bytes += bytes.0;
        self.last_end = now;
        if self.bytes >= RATE_BYTES {
            let new = self.bytes * 1_000_000 / self.busy.max(1);
            let old = self.bytes_per_ms.unwrap_or(new);
            self.bytes_per_ms = Some((old * 3 + new) / 4);
            (self.bytes, self.busy) = (0, 0);
        }
    }
}
