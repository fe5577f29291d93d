//! The device's write rate while it has something to write.
//!
//! Decides the rate for converting between bytes and times: the current one, and the best recent one. The input is the
//! ends of writes. Known as: BBR's bottleneck bandwidth, a maximum that fades.

use crate::units::{Bytes, Instant, Nanos};

/// The rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRate {
    pub(super) bytes_per_ms: Option<u64>,
    /// The highest of late.
    pub(super) best: Option<u64>,
    last_end: Instant,
    bytes: u64,
    busy: u64,
}

/// This many bytes in this much time make a rate. Fewer may be in the device's cache; and where several writes are
/// noticed to have ended at once, the last of them took no time: one such stretch of 4 MiB counted as the best for
/// gigabytes.
const RATE_BYTES: u64 = 4 << 20;
const RATE_TIME: Nanos = Nanos::from_millis(8);
/// The best rate loses one part in this many with each measured rate: a device that has become slow, as a flash disk
/// does when its burst buffer is full, is known to be so 256 MiB later.
const BEST_FADES: u64 = 64;

impl WriteRate {
    pub(super) fn new() -> WriteRate {
        WriteRate {
            bytes_per_ms: None,
            best: None,
            last_end: Instant(0),
            bytes: 0,
            busy: 0,
        }
    }

    pub(super) fn add(&mut self, now: Instant, bytes: Bytes, issued_at: Instant) {
        self.busy += now.since(self.last_end.max(issued_at)).0;
        self.bytes += bytes.0;
        self.last_end = now;
        if self.bytes >= RATE_BYTES && self.busy >= RATE_TIME.0 {
            let new = self.bytes * 1_000_000 / self.busy.max(1);
            let old = self.bytes_per_ms.unwrap_or(new);
            self.bytes_per_ms = Some((old * 3 + new) / 4);
            self.best = Some(self.best.map_or(new, |best| new.max(best - best / BEST_FADES)));
            (self.bytes, self.busy) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: Bytes = Bytes::from_mib(1);

    #[test]
    fn writes_that_are_noticed_to_have_ended_at_once_are_not_infinitely_fast() {
        let mut rate = WriteRate::new();
        for ms in (0..500).step_by(5) {
            let (begun, ended) = (
                Instant(0) + Nanos::from_millis(ms),
                Instant(0) + Nanos::from_millis(ms + 5),
            );
            for _ in 0..8 {
                rate.add(ended, MIB, begun);
            }
        }
        let expected = 8 * MIB.0 / 5;
        let best = rate.best.unwrap();
        assert!(
            best.abs_diff(expected) <= expected / 4,
            "{best} instead of {expected}"
        );
    }
}
