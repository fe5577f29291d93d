//! Callers that wait for the device, and since when.
//!
//! They wait for reads (including a read ahead that a reader has caught up with), for the writes of small fsyncs, and
//! for the device's part of these. A device that serves some waits again and again may starve one, so the start of the
//! oldest wait is tracked in addition to the time since any wait ended.

use crate::units::{Instant, Nanos};
use alloc::collections::VecDeque;

/// The waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// When each transfer was issued, in that order.
    transfers: VecDeque<Instant>,
    /// When each sync of the device began. They end in any order, and can't be distinguished.
    syncs: VecDeque<Instant>,
    /// Since when callers have waited without any of the waits ending.
    since_ended: Instant,
    /// When one last began or ended.
    last: Option<Instant>,
    last_ended: Instant,
}

impl Waits {
    fn begun(&mut self, now: Instant) {
        if self.count() == 0 {
            self.since_ended = now;
        }
        self.last = Some(now);
    }

    fn ended(&mut self, now: Instant) {
        self.since_ended = now;
        self.last = Some(now);
        self.last_ended = now;
    }

    pub(super) fn transfer_begun(&mut self, now: Instant) {
        self.begun(now);
        self.transfers.push_back(now);
    }

    pub(super) fn transfer_ended(&mut self, now: Instant, begun: Instant) {
        // Time goes on, so they are in order; transfers end in any.
        let at = self.transfers.partition_point(|&other| other < begun);
        self.transfers
            .remove(at.min(self.transfers.len().saturating_sub(1)));
        self.ended(now);
    }

    pub(super) fn sync_begun(&mut self, now: Instant) {
        self.begun(now);
        self.syncs.push_back(now);
    }

    pub(super) fn sync_ended(&mut self, now: Instant) {
        self.syncs.pop_front();
        self.ended(now);
    }

    /// Whether a caller waits for a transfer.
    pub(super) fn has_transfers(&self) -> bool {
        !self.transfers.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.transfers.len() + self.syncs.len()
    }

    /// Since when the oldest of them lasts.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let fronts = [self.transfers.front(), self.syncs.front()];
        fronts.into_iter().flatten().min().copied()
    }

    /// For how long callers have waited without any of the waits ending.
    pub(super) fn since_one_ended(&self, now: Instant) -> Nanos {
        if self.count() == 0 {
            Nanos::ZERO
        } else {
            now.since(self.since_ended)
        }
    }

    /// Whether a caller waits, or one has begun or ended to within `span`.
    pub(super) fn within(&self, now: Instant, span: Nanos) -> bool {
        self.count() > 0 || self.last.is_some_and(|t| now.since(t) < span)
    }

    pub(super) fn last_ended(&self) -> Instant {
        self.last_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_known_in_whatever_order_they_end() {
        let mut waits = Waits::default();
        waits.transfer_begun(Instant(10));
        waits.transfer_begun(Instant(20));
        waits.sync_begun(Instant(5));
        waits.transfer_begun(Instant(20));
        assert_eq!(waits.oldest(), Some(Instant(5)));
        waits.sync_ended(Instant(30));
        waits.transfer_ended(Instant(31), Instant(20));
        assert_eq!((waits.oldest(), waits.count()), (Some(Instant(10)), 2));
        waits.transfer_ended(Instant(40), Instant(10));
        assert_eq!(waits.oldest(), Some(Instant(20)));
        assert_eq!(waits.since_one_ended(Instant(47)), Nanos(7));
        waits.transfer_ended(Instant(50), Instant(20));
        assert_eq!((waits.oldest(), waits.count()), (None, 0));
        assert_eq!(waits.since_one_ended(Instant(60)), Nanos::ZERO);
        assert!(waits.within(Instant(60), Nanos(11)) && !waits.within(Instant(60), Nanos(10)));
    }
}
