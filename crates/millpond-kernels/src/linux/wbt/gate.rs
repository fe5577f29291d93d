//! How `blk-wbt` makes a writer wait: it queues once refused, and continues only when woken.
//!
//! What it decides: whether a write that asks goes, by a limit on requests in flight and by wakes. Both versions wake later
//! than they could let one go, so that writes go in batches (v3's `__wb_done`; `wbt_done` of Linux 4.10): between a
//! completion and the next write there is a gap. Of Millpond's writers only the flusher queues; once woken it asks for the
//! limit anew.
//!
//! ```text
//!   passing ── no room below the limit ──► waiting ── a wake, or its timer, and room ──► passing
//! ```

use millpond_core::units::Instant;

/// The queue of one writer, and what wakes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    waiting: bool,
    woken: bool,
    timer: Option<Instant>,
}

impl Gate {
    /// Whether the writer waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether a timer runs.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Lets a write go if there is room, by `limit`, beside `in_flight` requests. A writer that was refused is not asked
    /// again before a wake; with nothing in flight there is none to come, so then it goes.
    pub(super) fn admit(&mut self, now: Instant, in_flight: u32, limit: u32) -> bool {
        if self.timer.is_some_and(|at| now >= at) {
            self.timer = None;
            self.wake();
        }
        let asks = if self.waiting {
            let lost = in_flight == 0 && self.timer.is_none();
            core::mem::take(&mut self.woken) || lost
        } else {
            self.timer.is_none()
        };
        let goes = asks && in_flight < limit;
        self.waiting = !goes;
        goes
    }

    /// Wakes the writer, if it waits.
    pub(super) fn wake(&mut self) {
        self.woken = self.waiting;
    }

    /// Wakes the writer at `at`, if it waits then.
    pub(super) fn wake_at(&mut self, at: Instant) {
        self.timer = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_is_refused_goes_only_when_woken() {
        let mut gate = Gate::default();
        assert!(gate.admit(Instant(0), 0, 1));
        assert!(!gate.admit(Instant(1), 1, 1));
        assert!(!gate.admit(Instant(2), 1, 2), "room alone does not let it go");
        gate.wake();
        assert!(gate.admit(Instant(3), 1, 2));
        assert!(!gate.is_waiting());
    }

    #[test]
    fn a_wake_that_finds_no_room_is_spent() {
        let mut gate = Gate::default();
        assert!(!gate.admit(Instant(0), 2, 2));
        gate.wake();
        assert!(!gate.admit(Instant(1), 2, 2));
        assert!(!gate.admit(Instant(2), 1, 2));
    }

    #[test]
    fn no_writer_waits_for_nothing() {
        let mut gate = Gate::default();
        assert!(!gate.admit(Instant(0), 1, 1));
        assert!(
            gate.admit(Instant(1), 0, 1),
            "the last one ended, and there was no wake"
        );
    }

    #[test]
    fn a_timer_holds_all_writes_until_it_has_run() {
        let mut gate = Gate::default();
        gate.wake_at(Instant(10));
        assert!(!gate.admit(Instant(9), 0, 1));
        assert!(gate.admit(Instant(10), 0, 1));
    }
}
