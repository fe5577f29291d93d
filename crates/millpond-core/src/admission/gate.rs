//! How a form that counts requests makes a writer wait: it queues once refused, and goes on only when it is woken.
//!
//! Both kernels' forms wake later than they could let one go, so that writes go in batches (Axboe 2016's v3,
//! `__wb_done`; Linux 4.10, `wbt_done`): between a completion and the next write there is a gap. The flusher is the one
//! who queues; whoever is woken asks for the limit anew.

use crate::units::Instant;

/// The queue of one who waits, and what wakes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    waiting: bool,
    woken: bool,
    timer: Option<Instant>,
}

impl Gate {
    /// Whether somebody waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether a timer runs.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Lets a write go if there is room, by `limit`, beside `in_flight` requests. Who has been refused before is not
    /// asked again before a wake; with nothing in flight nobody would wake it, so then it goes.
    pub(super) fn pass(&mut self, now: Instant, in_flight: u32, limit: u32) -> bool {
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

    /// Wakes who waits, if anybody does.
    pub(super) fn wake(&mut self) {
        self.woken = self.waiting;
    }

    /// Wakes who waits, or will wait, at `at`.
    pub(super) fn wake_at(&mut self, at: Instant) {
        self.timer = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_goes_only_when_woken() {
        let mut gate = Gate::default();
        assert!(gate.pass(Instant(0), 0, 1));
        assert!(!gate.pass(Instant(1), 1, 1));
        assert!(!gate.pass(Instant(2), 1, 2), "room alone does not let it go");
        gate.wake();
        assert!(gate.pass(Instant(3), 1, 2));
        assert!(!gate.is_waiting());
    }

    #[test]
    fn a_wake_that_finds_no_room_is_spent() {
        let mut gate = Gate::default();
        assert!(!gate.pass(Instant(0), 2, 2));
        gate.wake();
        assert!(!gate.pass(Instant(1), 2, 2));
        assert!(!gate.pass(Instant(2), 1, 2));
    }

    #[test]
    fn nobody_waits_for_nothing() {
        let mut gate = Gate::default();
        assert!(!gate.pass(Instant(0), 1, 1));
        assert!(
            gate.pass(Instant(1), 0, 1),
            "the last one ended, and nobody woke it"
        );
    }

    #[test]
    fn a_timer_holds_everybody_up_until_it_has_run() {
        let mut gate = Gate::default();
        gate.wake_at(Instant(10));
        assert!(!gate.pass(Instant(9), 0, 1));
        assert!(gate.pass(Instant(10), 0, 1));
    }
}
