//! Reclaim: frames for those who need them, from the cold end, without writing.

use super::{FRAMES_MIN, FREE, Manager};
use crate::event::{Effect, Effects, Waiters};
use crate::frame::FrameTable;
use crate::lru::PutBack;
use crate::mutation::{self, Mutation};
use crate::page::PageEvent;
use crate::reclaim::launder::{Decision, PRIORITY_DEFAULT, PRIORITY_TROUBLE, at_cold_end};
use crate::units::{FrameNo, PageCount};

/// What one batch came to.
#[derive(Clone, Copy, Debug, Default)]
struct Scanned {
    /// Pages at the cold end of the inactive list.
    scanned: u64,
    /// Pages looked at on any list.
    looked: u64,
    freed: u64,
}

impl Manager {
    /// One batch at `priority`.
    fn scan<F: FrameTable>(&mut self, priority: u32, frames: &mut F, effects: &mut Effects) -> Scanned {
        // What can't be taken goes round on its list. In trouble it goes to the active list: else a list that holds
        // nothing else would be scanned again and again while the other has clean pages. Linux (5.5 and later) comes to
        // those by shrinking the active list by force in the end (`force_deactivate`).
        let round = if priority < PRIORITY_TROUBLE {
            PutBack::Active
        } else {
            PutBack::WarmInactive
        };
        let mut victims = core::mem::take(&mut self.victims);
        let mut taken = core::mem::take(&mut self.taken);
        victims.clear();
        taken.clear();
        let scanned = self
            .lru
            .isolate(priority, self.options.scan_batch as usize, frames, &mut victims);
        victims.retain(|&frame| {
            let state = self.states[frame.index()];
            match at_cold_end(state.phase, state.lap, priority) {
                Decision::Take => {
                    taken.push((frame, frames.key(frame)));
                    return true;
                }
                Decision::SendRound => {}
                Decision::MarkLap => self.states[frame.index()].lap = true,
                Decision::FreeOnClean { flag } => {
                    // Active, so that it isn't met again at once: the end of its write makes it the next victim.
                    self.lru.put_back(frame, PutBack::Active);
                    self.states[frame.index()].free_on_clean = true;
                    self.stats.nr_vmscan_immediate_reclaim += 1;
                    if flag && self.flusher.flag(frames.key(frame).file()) {
                        self.stats.flusher_flagged_files += 1;
                    }
                    return false;
                }
            }
            self.lru.put_back(frame, round);
            false
        });
        frames.evict(&mut victims);
        self.lru.fetch(taken.iter().map(|&(_, key)| key));
        let mut evicted = victims.iter().copied().peekable();
        let mut freed = 0;
        for &(frame, key) in &taken {
            if evicted.next_if_eq(&frame).is_some() {
                self.transition(frame, PageEvent::Evicted);
                self.lru.evicted(frame, key);
                self.release(frame, effects);
                freed += 1;
            } else {
                // Pinned, or changed a moment ago.
                self.lru.put_back(frame, round);
            }
        }
        debug_assert!(
            evicted.next().is_none(),
            "the table evicted a frame that was not offered"
        );
        (self.victims, self.taken) = (victims, taken);
        if freed > 0 && self.memory_waiters {
            self.memory_waiters = false;
            effects.list.push(Effect::Wake(Waiters::Memory));
        }
        Scanned {
            scanned: scanned.scanned,
            looked: scanned.scanned + scanned.refilled,
            freed,
        }
    }

    /// A frame holds nothing any more: it is free, or leaves the pool if that is to shrink.
    pub(super) fn release(&mut self, frame: FrameNo, effects: &mut Effects) {
        self.states[frame.index()] = FREE;
        self.stats.pgfree += 1;
        self.free.give(frame);
        self.shrink(effects);
    }

    /// Whether an allocation of this step may reclaim for itself: once if that frees nothing like a batch, unless
    /// nothing is left for it to take.
    pub(super) fn may_reclaim(&self) -> bool {
        !self.reclaimed_in_vain || self.free.len() <= self.derived.reserve
    }

    /// Whoever needs a frame frees a batch for itself, with rising effort.
    pub(super) fn direct_reclaim<F: FrameTable>(&mut self, frames: &mut F, effects: &mut Effects) {
        self.stats.allocstall += 1;
        let goal = u64::from(self.options.scan_batch);
        let mut freed = 0;
        for priority in (0..=PRIORITY_DEFAULT).rev() {
            let mut left = self.lru.quota(priority).0;
            loop {
                let batch = self.scan(priority, frames, effects);
                self.stats.pgscan_direct += batch.scanned;
                self.stats.pgsteal_direct += batch.freed;
                freed += batch.freed;
                left = left.saturating_sub(batch.looked);
                if freed >= goal || left == 0 || batch.looked == 0 {
                    break;
                }
            }
            if freed >= goal {
                break;
            }
        }
        self.reclaimed_in_vain = freed < goal;
    }

    /// One batch of the background reclaimer, and whether it is to come back at once.
    pub(super) fn background_reclaim<F: FrameTable>(&mut self, frames: &mut F, effects: &mut Effects) {
        if self.free.len() >= self.derived.watermarks.high && !self.shrinking() {
            self.reclaimer_sleeps();
            return;
        }
        if self.reclaimer_left == 0 {
            if self.reclaimer_freed {
                self.reclaimer_priority = PRIORITY_DEFAULT;
            } else if self.reclaimer_priority == 0 {
                // Nothing that can be had: a write that ends, or the next allocation, wakes it again.
                self.reclaimer_sleeps();
                return;
            } else {
                self.reclaimer_priority -= 1;
            }
            self.reclaimer_left = self.lru.quota(self.reclaimer_priority).0;
            self.reclaimer_freed = false;
        }
        let batch = self.scan(self.reclaimer_priority, frames, effects);
        self.stats.pageoutrun += 1;
        self.stats.pgscan_kswapd += batch.scanned;
        self.stats.pgsteal_kswapd += batch.freed;
        self.reclaimer_freed |= batch.freed > 0;
        self.reclaimer_left = if batch.looked == 0 {
            0
        } else {
            self.reclaimer_left.saturating_sub(batch.looked)
        };
        effects.list.push(Effect::ReclaimMore);
    }

    fn reclaimer_sleeps(&mut self) {
        self.reclaimer_awake = false;
        self.reclaimer_priority = PRIORITY_DEFAULT;
        (self.reclaimer_left, self.reclaimer_freed) = (0, true);
    }

    /// Wakes the background reclaimer if free memory is below the low watermark, or the pool is to shrink.
    pub(super) fn wake_reclaimer(&mut self, effects: &mut Effects) {
        if !self.reclaimer_awake && (self.free.len() < self.derived.watermarks.low || self.shrinking()) {
            self.reclaimer_awake = true;
            effects.list.push(Effect::WakeReclaimer);
        }
    }

    /// Whether frames are still to leave the pool.
    pub(super) fn shrinking(&self) -> bool {
        let frames = self.states.len() as u64 - self.free.withdrawn().0;
        frames > self.derived.frames.0 && !mutation::is(Mutation::ShrinkForgotten)
    }

    /// Withdraws free frames while the pool is larger than it shall be.
    fn shrink(&mut self, effects: &mut Effects) {
        while self.shrinking() {
            let Some(frame) = self.free.withdraw() else { break };
            effects.list.push(Effect::Withdraw { frame });
        }
    }

    pub(super) fn memory_changed<F: FrameTable>(
        &mut self,
        count: PageCount,
        _: &mut F,
        effects: &mut Effects,
    ) {
        assert!(
            count >= FRAMES_MIN,
            "{count:?} is less than {FRAMES_MIN:?}: whoever asks checks that first"
        );
        self.derived.frames = count;
        while self.states.len() as u64 - self.free.withdrawn().0 < count.0 {
            if self.free.restore().is_none() {
                break;
            }
        }
        let (old, new) = (self.states.len() as u64, count.0.max(self.states.len() as u64));
        let grown = new - old;
        if grown > 0 {
            self.states.resize(new as usize, FREE);
            self.free.extend(PageCount(new));
        }
        self.lru.resize(count);
        self.shrink(effects);
        self.derive(effects);
    }
}
