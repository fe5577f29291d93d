//! Writers in batches: of more than a hundred reads one waits for a whole batch, the others for no write at all.
//!
//! ```text
//!   reads    ················ ▬▬▬▬▬▬▬▬▬▬ ················ ▬▬▬▬▬▬▬▬▬▬ ·······
//!   writes                    ██████████                  ██████████
//!            128 quick ones   as many bytes as the device  128 quick ones for each
//!                             writes in `batch`, at once   that was kept waiting
//! ```
//!
//! On a device that serves reads and writes side by side a limit makes every read a little slower, and steers by how
//! much. Batches leave 99 of 100 reads as they are alone, and the one that is left waits long: the better choice for who
//! looks at the 99th percentile, and the worse one for who looks further. `bfq` does about this, by its time slices.
//!
//! A reader who is too slow for that many reads in the readers' part of the time would keep the writers from their part, or
//! miss the goal: for a second the ordinary rules hold then.

use super::super::{InTransit, Verdict};
use crate::units::{Bytes, Instant, Nanos};

/// So many reads within the goal for each beyond it: less than one in a hundred is.
const QUICK_FOR_EACH: u32 = 128;
/// So long the ordinary rules hold before batches are tried again.
const ASIDE: Nanos = Nanos::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No write is issued, since then.
    Readers(Instant),
    /// Begun then; so many bytes may still be issued.
    Writers(Instant, Bytes),
    /// The ordinary rules hold until then.
    Aside(Instant),
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    batch: Nanos,
    phase: Phase,
    /// Reads within the goal and beyond it since the last batch began.
    quick: u32,
    slow: u32,
}

impl Batches {
    /// Batches of so long; zero: never.
    pub(super) fn new(batch: Nanos) -> Batches {
        Batches {
            batch,
            phase: Phase::Readers(Instant(0)),
            quick: 0,
            slow: 0,
        }
    }

    /// Whether they decide, and not the ordinary rules.
    pub(super) fn decide(&self) -> bool {
        self.batch > Nanos::ZERO && !matches!(self.phase, Phase::Aside(_))
    }

    /// Somebody's transfer has ended, within the goal or beyond it.
    pub(super) fn wait_ended(&mut self, is_quick: bool) {
        let count = if is_quick { &mut self.quick } else { &mut self.slow };
        *count = count.saturating_add(1);
    }

    /// Nobody reads any more.
    pub(super) fn forget(&mut self, now: Instant) {
        *self = Batches {
            phase: Phase::Readers(now),
            ..Batches::new(self.batch)
        };
    }

    /// Whether `bytes` may be written: of a batch of `room` in all, with `together` in transit at a time, and `share` percent
    /// of the time for the writers. `None`: what the ordinary rules say.
    pub(super) fn may_write(
        &mut self,
        now: Instant,
        bytes: Bytes,
        (room, together): (Bytes, Bytes),
        share: u32,
        in_transit: &InTransit,
    ) -> Option<Verdict> {
        if self.batch == Nanos::ZERO {
            return None;
        }
        let writes = in_transit.writes();
        let since = match self.phase {
            Phase::Readers(since) => since,
            Phase::Aside(until) if now < until => return None,
            Phase::Aside(_) => {
                self.forget(now);
                now
            }
            Phase::Writers(since, left) if bytes <= left && now < since + self.batch => {
                if writes > Bytes(0) && writes.0 + bytes.0 > together.0 {
                    return Some(Verdict::Wait(Some(since + self.batch)));
                }
                self.phase = Phase::Writers(since, Bytes(left.0 - bytes.0));
                return Some(Verdict::Go);
            }
            Phase::Writers(..) => {
                self.phase = Phase::Readers(now);
                now
            }
        };
        if writes > Bytes(0) {
            return Some(Verdict::Wait(None));
        }
        if self.quick >= QUICK_FOR_EACH.saturating_mul(self.slow.max(1)) {
            let left = Bytes(room.0.saturating_sub(bytes.0));
            (self.phase, self.quick, self.slow) = (Phase::Writers(now, left), 0, 0);
            return Some(Verdict::Go);
        }
        let share = u64::from(share.clamp(1, 99));
        let drained = since.max(in_transit.last_write());
        let until = drained + Nanos(self.batch.0 * (100 - share) / share);
        if now < until {
            return Some(Verdict::Wait(Some(until)));
        }
        self.phase = Phase::Aside(now + ASIDE);
        None
    }
}
