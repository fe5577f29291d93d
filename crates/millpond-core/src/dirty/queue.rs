//! Dirtiers that wait: first come, first served, a quantum at a time.
//!
//! ```text
//!   over the limit ──► back of the queue ──► front ──► headroom ──► a quantum of `burst` pages ──► back of the queue
//!                                             ▲                          │
//!                                             └── over the limit again, with some of it left
//! ```
//!
//! Waking all dirtiers for any headroom would let the first to come take it, again and again: of four writers under a
//! limit of 1 MiB, one took three times as long as another. The quantum is long enough for a rotating disk, which moves
//! to another file for each one, to spend at least half of its time writing.
//!
//! A quantum is not a reservation: a dirtier that dirties nothing for [`IDLE_MAX`] loses it. As many dirtiers have one
//! at a time as there is headroom for when the first is woken: one under a low limit, up to four under a high one, so
//! that writers of a fast device copy in parallel.
//!
//! A light dirtier does not queue: it is below its own limit ([`dirtier_limit`](super::limits::dirtier_limit)) and may
//! continue.

use super::throttle::Throttle;
use crate::dirty::DirtierId;
use crate::units::{Instant, Nanos, PageCount, Ratio};
use alloc::collections::{BTreeMap, VecDeque};

/// Longer than it takes to wake a thread on a busy machine, short against the pause of the others meanwhile. Two writes
/// that end were tried instead: small ones end within the time that one write call takes, and one of four writers got half.
pub const IDLE_MAX: Nanos = Nanos::from_millis(4);

/// A dirtier that waits asks every 200 ms at least (`PAUSE_MAX`); one that has not for longer than this has gone: a guard
/// that was dropped and did not wait, a call that ended with an error, a thread that is no more. It would be before those
/// that do wait.
pub const GONE_AFTER: Nanos = Nanos::from_millis(300);

/// The dirtiers that wait, and those that have a quantum.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Those with a quantum are first.
    waiting: VecDeque<Waiting>,
    quanta: BTreeMap<DirtierId, Quantum>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    dirtier: DirtierId,
    /// Until how many unclean pages.
    until: PageCount,
    asked: Instant,
}

/// What a dirtier would get on its own, and what is known besides that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The answer if it were the only one.
    pub own: Throttle,
    /// Its share of the recent dirtying.
    pub share: Ratio,
    /// The number of unclean pages that it waits for if it must.
    pub until: PageCount,
    /// No more is unclean than the free-run limit.
    pub is_free: bool,
    /// Nothing is being written: there may be nothing to wait for, as all that is dirty is in use or log-blocked.
    pub is_still: bool,
    /// When it asks.
    pub now: Instant,
}

/// Why a dirtier below its own limit does not queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    /// No other waits, and none runs, or no more is unclean than the free-run limit.
    Alone,
    /// It has some of its quantum left.
    Quantum,
    /// It dirties less than half of what each of those that compete would have. Not one that waits: to go on now would put
    /// it behind the others for its quantum.
    Light,
    /// Nothing is being written: else two that are below their limits could wait for one another.
    Still,
}

#[derive(Clone, Copy, Debug)]
struct Quantum {
    /// Pages of it that may still be dirtied.
    left: u64,
    /// When the dirtier was woken, or has dirtied something last.
    since: Instant,
}

/// The state when dirtiers may be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headroom {
    /// Pages dirty or being written.
    pub unclean: PageCount,
    /// At this number all are woken.
    pub wake_all_at: PageCount,
    /// The pages of a quantum.
    pub burst: PageCount,
    /// How many may have a quantum at a time.
    pub quanta: usize,
    /// The time.
    pub now: Instant,
}

impl Queue {
    /// Whether no dirtier waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// `pages` more are dirty because of `dirtier`.
    pub fn dirtied(&mut self, now: Instant, dirtier: DirtierId, pages: u64) {
        if let Some(quantum) = self.quanta.get_mut(&dirtier) {
            quantum.left = quantum.left.saturating_sub(pages);
            quantum.since = now;
        }
    }

    /// Whether it waits.
    pub fn waits(&self, dirtier: DirtierId) -> bool {
        self.waiting.iter().any(|other| other.dirtier == dirtier)
    }

    fn has_quantum(&self, dirtier: DirtierId) -> bool {
        self.quanta.get(&dirtier).is_some_and(|quantum| quantum.left > 0)
    }

    /// What becomes of `dirtier`: it goes on if there is a `Pass` for it and no limit of its own, else it waits in its place.
    pub fn ask(&mut self, dirtier: DirtierId, ask: &Ask) -> Throttle {
        let at = self.waiting.iter().position(|other| other.dirtier == dirtier);
        if ask.own == Throttle::Run && self.pass(dirtier, at, ask).is_some() {
            if let Some(at) = at {
                self.waiting.remove(at);
            }
            return Throttle::Run;
        }
        let waiting = Waiting {
            dirtier,
            until: ask.until,
            asked: ask.now,
        };
        match at {
            Some(at) => self.waiting[at] = waiting,
            None if self.has_quantum(dirtier) => self.waiting.push_front(waiting),
            None => self.waiting.push_back(waiting),
        }
        Throttle::Until(ask.until)
    }

    /// Why `dirtier`, which waits at place `at` if it does, goes before the others, if it does.
    fn pass(&self, dirtier: DirtierId, at: Option<usize>, ask: &Ask) -> Option<Pass> {
        let others = self.waiting.len() - usize::from(at.is_some());
        let runs = |(&other, quantum): (&DirtierId, &Quantum)| {
            quantum.left > 0 && other != dirtier && !self.waits(other)
        };
        let running = self.quanta.iter().filter(|&quantum| runs(quantum)).count();
        let competing = (others + running) as u64;
        if others == 0 && (ask.is_free || running == 0) {
            Some(Pass::Alone)
        } else if self.has_quantum(dirtier) {
            Some(Pass::Quantum)
        } else if at.is_none() && u64::from(ask.share.num) * 2 * (competing + 1) <= u64::from(ask.share.den) {
            Some(Pass::Light)
        } else {
            ask.is_still.then_some(Pass::Still)
        }
    }

    /// Wakes the first if there is headroom, and those behind it while there are quanta. Returns whether one was woken.
    pub fn wake(&mut self, headroom: &Headroom) -> bool {
        self.waiting
            .retain(|waiting| headroom.now.since(waiting.asked) < GONE_AFTER);
        let waiting = &self.waiting;
        self.quanta.retain(|&dirtier, quantum| {
            let waits = waiting.iter().any(|other| other.dirtier == dirtier);
            quantum.left > 0 && (waits || headroom.now.since(quantum.since) < IDLE_MAX)
        });
        if self.waiting.is_empty() {
            return false;
        }
        if headroom.unclean <= headroom.wake_all_at {
            self.clear();
            return true;
        }
        let mut woken = false;
        while let Some(&Waiting {
            dirtier: first,
            until,
            ..
        }) = self.waiting.front()
        {
            if headroom.unclean > until || (!self.has_quantum(first) && self.quanta.len() >= headroom.quanta)
            {
                break;
            }
            self.waiting.pop_front();
            let (left, since) = (headroom.burst.0.max(1), headroom.now);
            self.quanta.entry(first).or_insert(Quantum { left, since }).since = since;
            woken = true;
        }
        woken
    }

    /// Forgets all: each asks again.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.quanta.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DirtierId = DirtierId(1);
    const B: DirtierId = DirtierId(2);
    const C: DirtierId = DirtierId(3);
    const THIRD: Ratio = Ratio { num: 1, den: 3 };
    const WAIT: Throttle = Throttle::Until(PageCount(90));
    const RUN: Ask = Ask {
        own: Throttle::Run,
        share: THIRD,
        until: PageCount(90),
        is_free: false,
        is_still: false,
        now: Instant(0),
    };

    fn ask(queue: &mut Queue, dirtier: DirtierId, own: Throttle) -> Throttle {
        queue.ask(dirtier, &Ask { own, ..RUN })
    }

    fn wake_with(queue: &mut Queue, unclean: u64, quanta: usize, ms: u64) -> bool {
        queue.wake(&Headroom {
            unclean: PageCount(unclean),
            wake_all_at: PageCount(50),
            burst: PageCount(64),
            quanta,
            now: Instant(0) + Nanos::from_millis(ms),
        })
    }

    fn wake(queue: &mut Queue, unclean: u64) -> bool {
        wake_with(queue, unclean, 1, 0)
    }

    #[test]
    fn quanta_go_round_in_the_order_of_coming() {
        let mut queue = Queue::default();
        for dirtier in [A, B, C] {
            assert_eq!(ask(&mut queue, dirtier, WAIT), WAIT);
        }
        for dirtier in [A, B, C, A] {
            assert!(!wake(&mut queue, 91), "no headroom");
            assert!(wake(&mut queue, 90));
            assert!(!wake(&mut queue, 60), "it is {dirtier:?}'s quantum");
            for other in [A, B, C].into_iter().filter(|&other| other != dirtier) {
                assert_eq!(ask(&mut queue, other, Throttle::Run), WAIT, "{other:?}");
            }
            assert_eq!(ask(&mut queue, dirtier, Throttle::Run), Throttle::Run);
            // Over the limit in between: it is the first again.
            queue.dirtied(Instant(0), dirtier, 32);
            assert_eq!(ask(&mut queue, dirtier, WAIT), WAIT);
            assert!(wake(&mut queue, 90));
            assert_eq!(ask(&mut queue, dirtier, Throttle::Run), Throttle::Run);
            // Its quantum is used up: though there is headroom, others come first.
            queue.dirtied(Instant(0), dirtier, 32);
            assert_eq!(ask(&mut queue, dirtier, Throttle::Run), WAIT);
        }
    }

    #[test]
    fn lone_and_light_dirtiers_do_not_queue() {
        let mut queue = Queue::default();
        assert_eq!(ask(&mut queue, A, Throttle::Run), Throttle::Run);
        assert_eq!(ask(&mut queue, A, WAIT), WAIT);
        assert_eq!(
            ask(&mut queue, A, Throttle::Run),
            Throttle::Run,
            "no other dirtier waits"
        );
        assert_eq!(ask(&mut queue, A, WAIT), WAIT);
        let light = Ratio::percent(25);
        assert_eq!(queue.ask(B, &Ask { share: light, ..RUN }), Throttle::Run);
        assert_eq!(
            ask(&mut queue, C, Throttle::Run),
            WAIT,
            "a third of the dirtying is not little"
        );
    }

    /// It went on, and was behind all others when it was nearly first: one of four writers got half.
    #[test]
    fn a_waiter_does_not_leave_the_queue_for_having_dirtied_little() {
        let mut queue = Queue::default();
        let _ = [A, B, C].map(|dirtier| ask(&mut queue, dirtier, WAIT));
        let little = Ratio::percent(1);
        assert_eq!(queue.ask(B, &Ask { share: little, ..RUN }), WAIT);
        assert!(wake(&mut queue, 90));
        queue.dirtied(Instant(0), A, 64);
        assert!(wake(&mut queue, 90), "it is B's quantum");
        assert_eq!(ask(&mut queue, B, Throttle::Run), Throttle::Run);
    }

    #[test]
    fn all_dirtiers_go_while_little_is_dirty() {
        let mut queue = Queue::default();
        let _ = [A, B, C].map(|dirtier| ask(&mut queue, dirtier, WAIT));
        assert!(wake(&mut queue, 50));
        assert!(queue.is_empty());
        assert_eq!(ask(&mut queue, C, Throttle::Run), Throttle::Run);
    }

    #[test]
    fn as_many_have_a_quantum_as_there_is_headroom_for() {
        let mut queue = Queue::default();
        let _ = [A, B, C].map(|dirtier| ask(&mut queue, dirtier, WAIT));
        assert!(wake_with(&mut queue, 90, 2, 0));
        let goes = [A, B, C].map(|dirtier| ask(&mut queue, dirtier, Throttle::Run) == Throttle::Run);
        assert_eq!(goes, [true, true, false]);
        let free = queue.ask(C, &Ask { is_free: true, ..RUN });
        assert_eq!(free, Throttle::Run, "no other waits, and none has to");
    }

    #[test]
    fn a_dirtier_that_was_woken_and_does_not_come_loses_its_quantum() {
        let mut queue = Queue::default();
        let _ = [A, B].map(|dirtier| ask(&mut queue, dirtier, WAIT));
        assert!(wake_with(&mut queue, 90, 1, 0));
        assert!(!wake_with(&mut queue, 90, 1, 3));
        assert!(wake_with(&mut queue, 90, 1, 4));
        assert_eq!(ask(&mut queue, B, Throttle::Run), Throttle::Run);
    }

    /// Each of them was below its own limit, and nothing was being written that could have let the first go.
    #[test]
    fn without_writes_in_transit_no_dirtier_waits_for_waiting_ones() {
        let mut queue = Queue::default();
        let _ = [A, B].map(|dirtier| ask(&mut queue, dirtier, WAIT));
        assert!(!wake(&mut queue, 91));
        assert_eq!(ask(&mut queue, B, Throttle::Run), WAIT);
        let still = Ask {
            is_still: true,
            ..RUN
        };
        assert_eq!(queue.ask(B, &still), Throttle::Run);
        let over = Ask { own: WAIT, ..still };
        assert_eq!(queue.ask(A, &over), WAIT, "above its own limit");
    }

    #[test]
    fn a_dirtier_that_left_is_ahead_of_no_other() {
        let mut queue = Queue::default();
        let _ = [A, B].map(|dirtier| ask(&mut queue, dirtier, WAIT));
        let later = Instant(0) + GONE_AFTER;
        assert_eq!(queue.ask(B, &Ask { now: later, ..RUN }), WAIT);
        assert!(wake_with(&mut queue, 90, 1, 300));
        assert_eq!(queue.ask(B, &RUN), Throttle::Run);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_quantum_that_is_used_up_keeps_no_dirtier_waiting() {
        let mut queue = Queue::default();
        assert_eq!(ask(&mut queue, A, WAIT), WAIT);
        assert!(wake(&mut queue, 90));
        queue.dirtied(Instant(0), A, 64);
        assert_eq!(ask(&mut queue, B, Throttle::Run), Throttle::Run);
    }
}
