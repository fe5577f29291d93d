//! The engine's clock: the core's time is nanoseconds since the cache was made.

use millpond_core::units::Instant;

/// Counts from its making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            epoch: std::time::Instant::now(),
        }
    }

    /// About 25 ns.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        // The first nanosecond is 1, so that 0 stays "before anything happened".
        Instant(self.epoch.elapsed().as_nanos() as u64 + 1)
    }
}
