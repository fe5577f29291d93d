//! What a device has answered and not yet written: a volatile write cache.
//!
//! A disk with such a cache answers a write in no time, and lets reads wait while it has too much of that. Nothing is in
//! transit then that could be held back, so what was answered is followed by a bucket that leaks:
//!
//! ```text
//!   hides    a turn of the readers has lasted as long as the goal, with no write in transit, and none of them was served
//!   behind   bytes answered since the device had caught up, less what it writes in the time since
//!   rate     bytes answered from one such moment to the next, by the time between: whenever a read of a turn is served,
//!            the device has caught up
//! ```
//!
//! How full the cache is remains unknown; what matters is what has to be written before a read is served, and that is 0
//! when one is. Only where a request costs its way (a long goal) is it looked for: a flash disk that stalls for its own
//! affairs hides nothing. Seed 001's v3 keeps such a device's queue short for a while after other I/O instead (its
//! write-cache delay).

use crate::units::{Bytes, Instant, Nanos};

/// Less says nothing about a rate.
const SAMPLE_MIN: u64 = 1 << 20;

/// The bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hidden {
    hides: bool,
    /// What the device writes, bytes a millisecond.
    rate: Option<u64>,
    /// Answered since then.
    bytes: u64,
    since: Instant,
}

impl Hidden {
    pub(super) fn new() -> Hidden {
        Hidden {
            hides: false,
            rate: None,
            bytes: 0,
            since: Instant(0),
        }
    }

    /// The device was seen to hide something. Whether that is news.
    pub(super) fn is_seen(&mut self) -> bool {
        !core::mem::replace(&mut self.hides, true)
    }

    pub(super) fn hides(&self) -> bool {
        self.hides
    }

    /// Whether the device had caught up by then, and nothing was answered since.
    pub(super) fn is_level(&self, then: Instant) -> bool {
        self.bytes == 0 && then >= self.since
    }

    /// What it writes in a millisecond, if it hides writes and that is known.
    pub(super) fn bytes_per_ms(&self) -> Option<u64> {
        self.rate.filter(|_| self.hides)
    }

    /// A write is answered.
    pub(super) fn answered(&mut self, bytes: Bytes, issued_at: Instant) {
        if self.bytes == 0 {
            self.since = self.since.max(issued_at);
        }
        self.bytes += bytes.0;
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
        if self.bytes >= SAMPLE_MIN && took > 0 {
            let new = self.bytes * 1_000_000 / took;
            // Down at once: what is taken for quick is a reader's wait. The cache's room makes a rate look high.
            self.rate = Some(self.rate.map_or(new, |old| {
                if new < old {
                    u64::midpoint(old, new)
                } else {
                    (old * 7 + new) / 8
                }
            }));
        }
        (self.bytes, self.since) = (0, now);
    }
}
