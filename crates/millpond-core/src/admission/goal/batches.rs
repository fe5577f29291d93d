//! Writers in batches: of more than a hundred reads one waits for a whole batch, the others for no write at all.
//!
//! What it decides: whether a burst of writes has been paid for. By what: reads that kept the goal and reads that missed it
//! since the last burst, and the time. In the literature: BFQ's time slices do about this.
//!
//! ```text
//!   reads    ················ ▬▬▬▬▬▬▬▬▬▬ ················ ▬▬▬▬▬▬▬▬▬▬ ·······
//!   writes                    ██████████                  ██████████
//!            128 quick ones   as many bytes as the device  128 quick ones for each
//!                             writes in `batch`, at once   that was kept waiting
//!
//!      ┌────────── the batch's bytes or its time are over ─────────┐
//!      ▼                                                           │
//!   Readers ── 128 quick reads for each late one, no write ──► Writers
//!    │   ▲         in transit
//!    │   └── after a second ── Aside ◄─┐
//!    └─ the readers' share is over ────┘
//! ```
//!
//! On a device that serves reads and writes side by side a limit makes every read a little slower, and steers by how
//! much. Batches leave 99 of 100 reads as they are alone, and the one that is left waits long: the better choice where the
//! 99th percentile matters, and the worse one where what is beyond it does.
//!
//! A reader that is too slow for that many reads in the readers' share of the time would keep the writers from their part,
//! or miss the goal: for a second the ordinary rules hold then.

use super::Facts;
use crate::admission::Verdict;
use crate::units::{Bytes, Instant, Nanos};

/// So many reads within the goal for each beyond it: less than one in a hundred is.
const QUICK_FOR_EACH: u32 = 128;
/// So long the ordinary rules hold before batches are tried again.
const ASIDE: Nanos = Nanos::from_secs(1);

/// How much is written in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize {
    /// In all.
    pub(super) total: Bytes,
    /// In transit at a time.
    pub(super) in_transit: Bytes,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No write is issued, since then.
    Readers(Instant),
    /// Begun then; so many bytes may still be issued.
    Writers(Instant, Bytes),
    /// The ordinary rules hold until then.
    Aside(Instant),
}

/// Whether readers or writers have the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    batch: Nanos,
    phase: Phase,
    /// Reads within the goal and beyond it since the last batch began.
    quick: u32,
    late: u32,
}

impl Batches {
    /// Batches of so long; zero: never.
    pub(super) fn new(batch: Nanos) -> Batches {
        Batches {
            batch,
            phase: Phase::Readers(Instant(0)),
            quick: 0,
            late: 0,
        }
    }

    /// Whether they decide, and not the ordinary rules.
    pub(super) fn decide(&self) -> bool {
        self.batch > Nanos::ZERO && !matches!(self.phase, Phase::Aside(_))
    }

    /// A caller's wait for a transfer has ended, within the goal or beyond it.
    pub(super) fn wait_ended(&mut self, is_quick: bool) {
        let count = if is_quick { &mut self.quick } else { &mut self.late };
        *count = count.saturating_add(1);
    }

    /// No reader is active any more.
    pub(super) fn forget_readers(&mut self, now: Instant) {
        *self = Batches {
            phase: Phase::Readers(now),
            ..Batches::new(self.batch)
        };
    }

    /// A write of `bytes` asks. `None`: the ordinary rules decide.
    pub(super) fn admit(&mut self, facts: Facts<'_>, bytes: Bytes, size: BatchSize) -> Option<Verdict> {
        if self.batch == Nanos::ZERO {
            return None;
        }
        let (now, writes) = (facts.now, facts.in_transit.writes());
        let since = match self.phase {
            Phase::Readers(since) => since,
            Phase::Aside(until) if now < until => return None,
            Phase::Aside(_) => {
                self.forget_readers(now);
                now
            }
            Phase::Writers(since, left) if bytes <= left && now < since + self.batch => {
                if writes > Bytes(0) && writes + bytes > size.in_transit {
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
        if self.quick >= QUICK_FOR_EACH.saturating_mul(self.late.max(1)) {
            let left = Bytes(size.total.0.saturating_sub(bytes.0));
            (self.phase, self.quick, self.late) = (Phase::Writers(now, left), 0, 0);
            return Some(Verdict::Go);
        }
        let share = u64::from(facts.share.clamp(1, 99));
        let drained = since.max(facts.in_transit.last_write());
        let until = drained + Nanos(self.batch.0 * (100 - share) / share);
        if now < until {
            return Some(Verdict::Wait(Some(until)));
        }
        self.phase = Phase::Aside(now + ASIDE);
        None
    }
}
