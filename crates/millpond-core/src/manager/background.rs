//! The background reclaimer (kswapd): when it wakes, how hard it tries, when it sleeps.
//!
//! ```text
//!              free < low                       quota of the priority looked at
//!   asleep ──────────────────► PRIORITY_DEFAULT ───────────────┬── freed something: PRIORITY_DEFAULT again
//!     ▲                                                        ├── freed nothing: one priority lower
//!     └── free >= high, or enough is on its way to swap        └── nothing at priority 0: asleep
//! ```
//!
//! A driver calls it batch by batch ([`Event::Reclaim`](crate::event::Event::Reclaim)), so that no step takes long.

use super::Manager;
use super::step::StepContext;
use crate::admission::Form;
use crate::event::Effect;
use crate::frame::FrameTable;
use crate::memory::boost::Boost;
use crate::memory::watermark::Watermarks;
use crate::reclaim::launder::PRIORITY_DEFAULT;
use crate::reclaim::trace::Caller;
use crate::units::{Instant, Nanos, PageCount};

/// Whether it is at work, and how hard it tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reclaimer {
    /// It has been woken and has not gone back to sleep.
    is_awake: bool,
    pub(super) woken_at: Instant,
    priority: u32,
    /// Pages that it still looks at before it changes its priority.
    quota_left: u64,
    /// It has freed a page at this priority.
    has_freed: bool,
    /// How much earlier than by its watermarks it wakes, because it came too late.
    pub(super) boost: Boost,
}

impl Default for Reclaimer {
    fn default() -> Reclaimer {
        Reclaimer {
            is_awake: false,
            woken_at: Instant(0),
            priority: PRIORITY_DEFAULT,
            quota_left: 0,
            has_freed: true,
            boost: Boost::default(),
        }
    }
}

impl Reclaimer {
    pub(super) fn is_awake(&self) -> bool {
        self.is_awake
    }

    fn wake(&mut self, now: Instant) {
        (self.is_awake, self.woken_at) = (true, now);
    }

    /// How long it was awake.
    fn sleep(&mut self, now: Instant) -> Nanos {
        let awake = if self.is_awake {
            now.since(self.woken_at)
        } else {
            Nanos::ZERO
        };
        self.boost.slept(now);
        *self = Reclaimer {
            woken_at: self.woken_at,
            boost: self.boost,
            ..Reclaimer::default()
        };
        awake
    }

    /// The priority of the next batch; `None` if the last pass was one at the highest effort and found nothing.
    /// `quota`: how many pages a pass at a priority looks at.
    fn next_priority(&mut self, quota: impl Fn(u32) -> PageCount) -> Option<u32> {
        if self.quota_left == 0 {
            self.priority = if self.has_freed {
                PRIORITY_DEFAULT
            } else {
                self.priority.checked_sub(1)?
            };
            self.quota_left = quota(self.priority).0;
            self.has_freed = false;
        }
        Some(self.priority)
    }

    /// A batch has looked at so many pages, and freed so many.
    fn batch_done(&mut self, looked: u64, freed: u64) {
        self.has_freed |= freed > 0;
        self.quota_left = match looked {
            0 => 0,
            _ => self.quota_left.saturating_sub(looked),
        };
    }
}

impl<A: Form> Manager<A> {
    /// One batch of the background reclaimer, and whether it is to come back at once.
    pub(super) fn background_reclaim<F: FrameTable>(&mut self, frames: &mut F, cx: &mut StepContext<'_>) {
        let is_enough = self.pool.free.len() >= self.watermarks().high && !self.pool.is_shrinking();
        if is_enough || self.is_swapping_enough() {
            return self.reclaimer_sleeps(cx);
        }
        let lru = &self.lru;
        let Some(priority) = self.reclaimer.next_priority(|priority| lru.quota(priority)) else {
            // Nothing that can be had: a write that ends, or the next allocation, wakes it again.
            return self.reclaimer_sleeps(cx);
        };
        let batch = self.scan(Caller::Kswapd, priority, frames, cx);
        self.stats.pageoutrun += 1;
        self.stats.pgscan_kswapd += batch.scanned;
        self.stats.pgsteal_kswapd += batch.freed;
        self.reclaimer.batch_done(batch.looked, batch.freed);
        cx.effects.list.push(Effect::ReclaimMore);
    }

    fn reclaimer_sleeps(&mut self, cx: &StepContext<'_>) {
        self.stats.kswapd_awake_ns += self.reclaimer.sleep(cx.now).0;
    }

    /// Wakes the background reclaimer if free memory is below the low watermark, or the pool is to shrink.
    pub(super) fn wake_reclaimer(&mut self, cx: &mut StepContext<'_>) {
        if !self.reclaimer.is_awake
            && (self.pool.free.len() < self.watermarks().low || self.pool.is_shrinking())
        {
            self.reclaimer.wake(cx.now);
            self.stats.kswapd_wakeups += 1;
            cx.effects.list.push(Effect::WakeReclaimer);
        }
    }

    /// The watermarks as the background reclaimer sees them at present.
    pub(super) fn watermarks(&self) -> Watermarks {
        self.reclaimer
            .boost
            .over(self.derived.watermarks, self.derived.frames)
    }

    /// A frame was taken: notes if the background reclaimer, which should be at work by now, is late.
    pub(super) fn note_late_reclaimer(&mut self, cx: &StepContext<'_>) {
        let marks = self.derived.watermarks;
        let half_used = self.pool.free.len().0 * 2 < marks.min.0 + marks.low.0;
        // With nothing to be had it can't help it. What can be swapped out can be had.
        let at_hand = self.pool.clean().max(self.swap.dirty() + self.swap.writing());
        if half_used && at_hand > marks.high {
            self.reclaimer.boost.late(cx.now, marks, self.derived.frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_rises_while_nothing_is_freed_and_begins_anew_after_a_page() {
        let mut reclaimer = Reclaimer::default();
        let mut next = |freed| {
            let priority = reclaimer.next_priority(|_| PageCount(64));
            reclaimer.batch_done(64, freed);
            priority
        };
        assert_eq!([0, 0, 1].map(&mut next), [Some(12), Some(11), Some(10)]);
        assert_eq!([0, 0].map(&mut next), [Some(12), Some(11)], "it had freed a page");
        for priority in (0..=10).rev() {
            assert_eq!(next(0), Some(priority));
        }
        assert_eq!(next(0), None, "there is nothing to be had");
    }

    #[test]
    fn a_pass_ends_with_its_quota_or_when_there_is_nothing_to_look_at() {
        let mut reclaimer = Reclaimer::default();
        let mut next = |looked| {
            let priority = reclaimer.next_priority(|_| PageCount(64));
            reclaimer.batch_done(looked, 0);
            priority
        };
        assert_eq!(
            [32, 32, 1, 0].map(&mut next),
            [Some(12), Some(12), Some(11), Some(11)]
        );
        assert_eq!(next(64), Some(10));
    }
}
