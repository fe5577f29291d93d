//! How long an upload may take.
//!
//! The speed of a link is not known in advance. An upload gets the time of a request, plus the time that all bytes in
//! transit would take at a quarter of the last observed rate. An upload that did not finish in time gets four times as
//! long next time, if a small request shows that the link is slow and not the store.

use super::clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Nothing was seen: 1 MiB in a second.
const NANOS_PER_BYTE: u64 = 1_000_000_000 >> 20;

/// 16 KiB in a second.
const NANOS_PER_BYTE_MAX: u64 = NANOS_PER_BYTE << 6;

/// So much longer than what was seen, or what was not enough.
const SLACK: u64 = 4;

/// Of all uploads of a store.
#[derive(Debug)]
pub(super) struct Pace {
    nanos_per_byte: AtomicU64,
    bytes: AtomicU64,
}

/// An upload under way.
pub(super) struct Upload<'a> {
    pace: &'a Pace,
    bytes: u64,
    began: Duration,
    /// Those that were on their way with it.
    all: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            nanos_per_byte: AtomicU64::new(NANOS_PER_BYTE),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Pace {
    pub(super) fn begins(&self, bytes: u64) -> Upload<'_> {
        let all = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        Upload {
            pace: self,
            bytes,
            began: clock::awake(),
            all,
        }
    }

    /// One was not there in time, and the store answers.
    pub(super) fn is_slow(&self) {
        let slower = self.nanos_per_byte.load(Relaxed).saturating_mul(SLACK);
        self.nanos_per_byte.store(slower.min(NANOS_PER_BYTE_MAX), Relaxed);
    }
}

impl Upload<'_> {
    /// How long it may take, where a request without bytes takes `least` at most.
    pub(super) fn limit(&self, least: Duration) -> Duration {
        let nanos = self.pace.nanos_per_byte.load(Relaxed);
        least + Duration::from_nanos(self.all.saturating_mul(nanos))
    }

    /// It is there.
    pub(super) fn is_there(&self) {
        let seen = clock::awake().saturating_sub(self.began).as_nanos() as u64 / self.all.max(1);
        let next = seen
            .saturating_mul(SLACK)
            .clamp(NANOS_PER_BYTE, NANOS_PER_BYTE_MAX);
        self.pace.nanos_per_byte.store(next, Relaxed);
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        self.pace.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_has_the_time_that_the_link_needs_and_a_small_one_that_of_a_request() {
        let (pace, least, chunk) = (Pace::default(), Duration::from_secs(10), 4 << 20);
        let first = pace.begins(chunk);
        assert_eq!(first.limit(least).as_secs(), 13);
        // Both share the link.
        let second = pace.begins(chunk);
        assert_eq!(second.limit(least).as_secs(), 17);
        drop((first, second));
        // 4 MiB at 32 KiB in a second are 128 s.
        pace.is_slow();
        pace.is_slow();
        assert!(pace.begins(chunk).limit(least) < Duration::from_secs(128));
        pace.is_slow();
        assert!(pace.begins(chunk).limit(least) > Duration::from_secs(128));
        let limit = pace.begins(200).limit(least);
        assert!(limit < least + Duration::from_millis(20), "{limit:?}");
        // One that was there at once says that the link is not slow.
        let upload = pace.begins(chunk);
        upload.is_there();
        assert_eq!(upload.limit(least).as_secs(), 13);
    }
}
