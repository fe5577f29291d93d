//! Sleeping until a frame's word changes.
//!
//! Sixty-four pairs of a lock and a condition variable serve all frames.
//!
//! - W1. A sleeper sets WAITERS in the word while it holds its pair's lock, and then looks once more whether
//!   the word says "wait". Changes of one word have one order, on every machine: a change before WAITERS is
//!   seen by that look, one after it sees WAITERS and must take the lock to wake, which it gets only when the
//!   sleeper sleeps. So no wake-up is lost. What else the sleeper looks at was changed before a release of the
//!   word, or before the lock was taken.
//! - W2. One release cannot keep this bargain: a reader that clears its hazard slot and then looks for
//!   WAITERS may read the word before its clear is seen by others (to forbid that would cost every pin a
//!   second exchange). So a thread that waits for a hazard sleeps with a bound and looks again.
//! - W3. What a device was to do may never be done, if it is broken. A thread that waits for it looks
//!   whether the waiting was called off, under the lock that is taken to wake the threads afterwards.

use crate::frames::state::{self, Step, Word};
use crate::frames::sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, SPINS, YIELDS, spin_loop, yield_now,
};
use core::time::Duration;
use millpond_core::units::FrameNo;
use std::sync::PoisonError;

const STRIPES: usize = 64;

/// How long a sleeper that waits for a hazard may sleep before it looks again: long against a wake-up
/// (some tens of microseconds), so that looking costs little, and short enough that a missed wake-up is
/// no stall.
const HAZARD_SLEEP_MAX: Duration = Duration::from_millis(1);

/// The same for a thread that has waited for long: a guard that is never dropped costs ten looks a
/// second.
const HAZARD_SLEEP_MOST: Duration = Duration::from_millis(100);

/// Reports a long wait, once: see [`SLOW_AFTER`]. `None`: nothing does.
pub(crate) type Slow<'a> = Option<&'a dyn Fn()>;

/// A wait is slow after this: far longer than a thread uses a page that it does not keep.
pub(crate) const SLOW_AFTER: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Stripe {
    lock: Mutex<()>,
    changed: Condvar,
}

/// The places where threads sleep.
pub(crate) struct Stripes {
    stripes: Box<[Stripe]>,
    /// No thread may wait for a device from now on.
    called_off: AtomicBool,
}

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes {
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            called_off: AtomicBool::new(false),
        }
    }

    fn of(&self, frame: FrameNo) -> &Stripe {
        &self.stripes[frame.index() % STRIPES]
    }

    /// Whether the device is broken, so that no thread should wait for it.
    pub(crate) fn is_called_off(&self) -> bool {
        self.called_off.load(Ordering::Acquire)
    }

    /// From now on [`Stripes::is_called_off`]; wakes all sleepers.
    pub(crate) fn call_off(&self) {
        self.called_off.store(true, Ordering::Release);
        for stripe in &self.stripes {
            let _guard = stripe.lock.lock().unwrap_or_else(PoisonError::into_inner);
            stripe.changed.notify_all();
        }
    }

    /// Waits while `busy` is true of the frame's word. May return early or late by one change; the caller
    /// looks again. `wanted`: readers shall let this waiter go first.
    pub(crate) fn wait(
        &self,
        frame: FrameNo,
        word: &AtomicU64,
        (wanted, slow): (bool, Slow<'_>),
        busy: impl Fn(Word) -> bool,
    ) {
        self.wait_also(frame, word, (wanted, slow), busy, None::<fn() -> bool>);
    }

    /// Waits while `busy` is true of the frame's word and `hazard` is true, too.
    pub(crate) fn wait_hazard(
        &self,
        frame: FrameNo,
        word: &AtomicU64,
        slow: Slow<'_>,
        busy: impl Fn(Word) -> bool,
        hazard: impl Fn() -> bool,
    ) {
        self.wait_also(frame, word, (true, slow), busy, Some(hazard));
    }

    fn wait_also(
        &self,
        frame: FrameNo,
        word: &AtomicU64,
        (wanted, mut slow): (bool, Slow<'_>),
        busy: impl Fn(Word) -> bool,
        hazard: Option<impl Fn() -> bool>,
    ) {
        let is_over = || {
            !busy(Word::load(word, Ordering::Acquire)) || hazard.as_ref().is_some_and(|is_named| !is_named())
        };
        for _ in 0..SPINS {
            if is_over() {
                return;
            }
            spin_loop();
        }
        let stripe = self.of(frame);
        let mut guard = stripe.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // As far as time-outs show.
        let mut slept = Duration::ZERO;
        loop {
            if slept >= SLOW_AFTER
                && let Some(slow) = slow.take()
            {
                drop(guard);
                slow();
                guard = stripe.lock.lock().unwrap_or_else(PoisonError::into_inner);
            }
            // A refusal means that the page is gone, and with it the reason to wait.
            if !busy(Word::load(word, Ordering::Acquire)) || state::step(word, Step::Wait { wanted }).is_err()
            {
                return;
            }
            // WAITERS is set; whatever ends the wait after this look will see it.
            if is_over() {
                return;
            }
            let at_most = match (&hazard, slow.is_some()) {
                // A missed wake-up costs no more than a part of the time waited so far.
                (Some(_), _) => Some((slept / 4).clamp(HAZARD_SLEEP_MAX, HAZARD_SLEEP_MOST)),
                (None, true) => Some(SLOW_AFTER),
                (None, false) => None,
            };
            guard = match at_most {
                Some(at_most) => {
                    let woken = stripe.changed.wait_timeout(guard, at_most);
                    let (guard, timed) = woken.unwrap_or_else(PoisonError::into_inner);
                    if timed.timed_out() {
                        slept += at_most;
                    }
                    guard
                }
                None => stripe.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Wakes all threads that sleep until the frame's word changes.
    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&self, frame: FrameNo, word: &AtomicU64) {
        let stripe = self.of(frame);
        let _guard = stripe.lock.lock().unwrap_or_else(PoisonError::into_inner);
        state::wake(word);
        stripe.changed.notify_all();
    }
}

/// Lets a waiting writer go first, for a bounded while.
#[cold]
pub(crate) fn stand_back(word: &AtomicU64) {
    for _ in 0..YIELDS {
        if !Word::load(word, Ordering::Relaxed).is_wanted() {
            return;
        }
        yield_now();
    }
}
