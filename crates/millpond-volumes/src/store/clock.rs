//! Clocks: the store's time, and how long a caller has waited.
//!
//! A grace protects others, who continue while this process sleeps. Its clock counts all time, including time while the
//! machine is suspended ([`now`]). A timeout is different: a process that was stopped (by SIGSTOP, a freezer, a
//! laptop's lid) could not see the answers it waits for, and checking the clock first would expire the timeout before
//! any answer was read. So some thread reads the clock at least every [`EVERY`]. Time between two readings beyond
//! [`COUNTED_MAX`] counts as a stop, which [`awake`] leaves out.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often someone looks, at least, while anything is waited for.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// So much between two looks counts: that, and what a busy machine may take longer.
const COUNTED_MAX: Duration = Duration::from_secs(3);

/// The last look.
struct Seen {
    at: Duration,
    /// All stops until then.
    stopped: Duration,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    at: Duration::MAX,
    stopped: Duration::ZERO,
});

impl Seen {
    fn look(&mut self, now: Duration) -> Look {
        let between = now.saturating_sub(self.at);
        self.stopped += between.saturating_sub(COUNTED_MAX);
        self.at = now;
        Look {
            awake: now.saturating_sub(self.stopped),
            stopped: self.stopped,
        }
    }
}

/// What a look has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// Time without the stops.
    pub(super) awake: Duration,
    /// The stops, all together.
    pub(super) stopped: Duration,
}

/// Looks.
pub(super) fn look() -> Look {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.look(now())
}

/// Time without the stops of this process.
pub(super) fn awake() -> Duration {
    look().awake
}

/// Time since the machine was started, also while it is suspended.
pub(super) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// What time it was, in milliseconds since 1970, when [`now`] was zero.
pub(super) fn unix_ms_at_zero() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    unix.saturating_sub(now()).as_millis() as u64
}

/// What comes of a future in so much time, of which a stop is no part. The future is given up then.
pub(super) async fn within<T>(limit: Duration, of: impl Future<Output = T>) -> Option<T> {
    let mut of = std::pin::pin!(of);
    let end = awake().saturating_add(limit);
    loop {
        let left = end.saturating_sub(awake());
        if left.is_zero() {
            return None;
        }
        if let Ok(result) = tokio::time::timeout(left.min(EVERY), of.as_mut()).await {
            return Some(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_left_out_and_a_busy_day_is_not() {
        let second = Duration::from_secs(1);
        let mut seen = Seen {
            at: Duration::MAX,
            stopped: Duration::ZERO,
        };
        let mut now = 100 * second;
        assert_eq!(seen.look(now).awake, now);
        for late in [1, 2, 3] {
            now += late * second;
            assert_eq!(seen.look(now).awake, now);
        }
        now += 3600 * second;
        let look = seen.look(now);
        assert_eq!((look.awake, look.stopped), (109 * second, 3597 * second));
        now += second;
        assert_eq!(seen.look(now).awake, 110 * second);
    }
}
