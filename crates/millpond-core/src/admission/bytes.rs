//! Dillon 2000: bytes in transit, with a high and a low water mark.
//!
//! Decides whether writes are stopped, from the bytes of reads and writes in transit. Known as: two water marks, as in
//! FreeBSD's `runningbufspace`.
//!
//! ```text
//!   going ── a write brings more than `high` in transit ──► stopped ── `low` is reached, or no write is ──► going
//! ```
//!
//! A write is issued first. If more than `high` is then in transit, no other write is issued until `low` is reached.
//! One request can therefore exceed the high mark; this is deliberate. Reads count but never wait, so heavy reading
//! reduces the writers' share.

use super::{InTransit, Verdict};
use crate::units::Bytes;

/// The water marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BytesOptions {
    /// Writes stop when more than this is in transit. Default 1 MiB (Dillon 2000: "For example, 1 MB").
    pub high: Bytes,
    /// Writes resume when this much is left. Default 512 KiB (Dillon 2000).
    pub low: Bytes,
}

impl Default for BytesOptions {
    fn default() -> Self {
        BytesOptions {
            high: Bytes::from_mib(1),
            low: Bytes::from_kib(512),
        }
    }
}

/// Whether writes are stopped.
#[derive(Clone, Debug)]
pub struct BytesState {
    options: BytesOptions,
    stopped: bool,
}

impl BytesState {
    /// Starts with writes not stopped.
    pub fn new(options: BytesOptions) -> BytesState {
        BytesState {
            options,
            stopped: false,
        }
    }

    /// The settings.
    pub fn options(&self) -> BytesOptions {
        self.options
    }

    pub(super) fn admit(&mut self, in_transit: &InTransit) -> Verdict {
        if self.stopped && in_transit.all() <= self.options.low {
            self.stopped = false;
        }
        // With no write in transit one may always go: reads alone never stop the writers for good.
        if self.stopped && in_transit.writes() > Bytes(0) {
            Verdict::Wait(None)
        } else {
            Verdict::Go
        }
    }

    pub(super) fn issued(&mut self, in_transit: &InTransit) {
        if in_transit.all() > self.options.high {
            self.stopped = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Admission, AdmissionOptions};
    use super::*;
    use crate::io::Reason::{Background, Fault};
    use crate::units::Instant;

    #[test]
    fn the_seventeenth_write_of_64_kib_is_the_last_until_nine_have_ended() {
        let mut a = Admission::new(
            AdmissionOptions::Bytes(BytesOptions::default()),
            Bytes::from_mib(1),
        );
        let (now, unit) = (Instant(0), Bytes::from_kib(64));
        for n in 1..=17 {
            assert_eq!(a.admit(now, Background, unit), Verdict::Go, "write {n}");
            a.issued(now, Background, unit);
        }
        for n in 1..=9 {
            assert_eq!(
                a.admit(now, Background, unit),
                Verdict::Wait(None),
                "after {} have ended",
                n - 1
            );
            a.completed(now, Background, unit, now);
        }
        assert_eq!(a.admit(now, Background, unit), Verdict::Go);
    }

    #[test]
    fn reads_count_and_never_wait() {
        let mut a = Admission::new(
            AdmissionOptions::Bytes(BytesOptions::default()),
            Bytes::from_mib(1),
        );
        let now = Instant(0);
        a.issued(now, Background, Bytes::from_kib(64));
        a.issued(now, Fault, Bytes::from_mib(1));
        assert_eq!(a.admit(now, Background, Bytes::from_kib(64)), Verdict::Wait(None));
        a.completed(now, Background, Bytes::from_kib(64), now);
        assert_eq!(
            a.admit(now, Background, Bytes::from_kib(64)),
            Verdict::Go,
            "no write in transit: one may go"
        );
    }
}
