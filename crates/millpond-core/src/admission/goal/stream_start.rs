//! The first write of a stream is alone in the queue until the device must have chosen it.
//!
//! Decides when the second write of a stream may go. The inputs are the size of the first, the device's best write
//! rate, and since when no other write is in transit. Applies only to devices that favor writes.
//!
//! A rotating disk serves what comes under the head first. Given the first two writes of a stream at once, it may start
//! with the second, and continue with the fourth, whose start is as near. Each pair then costs a revolution that an
//! in-order stream does not (7.6 ms of 24 for writes of 896 KiB), as long as the stream lasts.

use super::Facts;
use crate::admission::Verdict;
use crate::units::{Bytes, Instant, Nanos};

/// A write that does not begin where the one before it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamStart {
    bytes: Bytes,
    /// Since when no other write is in transit.
    alone_since: Option<Instant>,
}

impl StreamStart {
    /// It was just issued.
    pub(super) fn new(bytes: Bytes) -> StreamStart {
        StreamStart {
            bytes,
            alone_since: None,
        }
    }

    /// The next write asks: it goes once it is certain that the device has chosen this one. `bytes_per_ms` is what the device
    /// writes at its best.
    pub(super) fn admit_next(&mut self, facts: Facts<'_>, bytes_per_ms: u64) -> Verdict {
        match facts.in_transit.write_requests() {
            0 => Verdict::Go,
            1 => {
                // Seven eighths of the least that it takes: late enough to be chosen, early enough to be followed.
                let least = self.bytes.0 * 1_000_000 / bytes_per_ms.max(1);
                let until = *self.alone_since.get_or_insert(facts.now) + Nanos(least - least / 8);
                if facts.now < until {
                    Verdict::Wait(Some(until))
                } else {
                    Verdict::Go
                }
            }
            _ => Verdict::Wait(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::InTransit;
    use crate::io::Reason::{Background, Sync};

    const KIB_800: Bytes = Bytes::from_kib(800);
    /// 800 KiB take 8 ms.
    const RATE: u64 = 102_400;

    fn at(ms: u64) -> Instant {
        Instant(0) + Nanos::from_millis(ms)
    }

    fn next(start: &mut StreamStart, ms: u64, in_transit: &InTransit) -> Verdict {
        let facts = Facts {
            now: at(ms),
            goal: Nanos::from_millis(60),
            share: 80,
            seeks: true,
            in_transit,
        };
        start.admit_next(facts, RATE)
    }

    #[test]
    fn the_second_write_waits_for_seven_eighths_of_the_first() {
        let (mut start, mut t) = (StreamStart::new(KIB_800), InTransit::default());
        t.issued(at(0), Background, KIB_800);
        assert_eq!(next(&mut start, 0, &t), Verdict::Wait(Some(at(7))));
        assert_eq!(next(&mut start, 6, &t), Verdict::Wait(Some(at(7))));
        assert_eq!(next(&mut start, 7, &t), Verdict::Go);
    }

    #[test]
    fn it_is_chosen_no_earlier_than_what_was_there_before_has_ended() {
        let (mut start, mut t) = (StreamStart::new(KIB_800), InTransit::default());
        t.issued(at(0), Sync, KIB_800);
        t.issued(at(1), Background, KIB_800);
        assert_eq!(
            next(&mut start, 20, &t),
            Verdict::Wait(None),
            "it may still be second"
        );
        t.done(at(21), Sync, KIB_800);
        assert_eq!(next(&mut start, 21, &t), Verdict::Wait(Some(at(28))));
    }

    #[test]
    fn when_it_has_ended_nothing_is_waited_for() {
        let t = InTransit::default();
        assert_eq!(next(&mut StreamStart::new(KIB_800), 1, &t), Verdict::Go);
    }
}
