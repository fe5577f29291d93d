//! Reclaim: frees frames from the cold end, without writing.

use super::step::StepContext;
use super::{FRAMES_MIN, Manager};
use crate::admission::Form;
use crate::frame::FrameTable;
use crate::lru::PutBack;
use crate::page::{PageEvent, PageKind, Phase};
use crate::reclaim::launder::{Decision, PRIORITY_DEFAULT, at_cold_end, is_clean_scarce, is_in_trouble};
use crate::reclaim::trace::{Caller, Outcome, Trace};
use crate::units::{FrameNo, PageCount, PageKey};
use alloc::vec::Vec;

/// What one batch came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scanned {
    /// Pages at the cold end of the inactive list.
    pub(super) scanned: u64,
    /// Pages looked at on any list.
    pub(super) looked: u64,
    pub(super) freed: u64,
}

/// What holds for the pages of one batch.
struct Scan {
    caller: Caller,
    priority: u32,
    in_trouble: bool,
    is_clean_scarce: bool,
}

impl Scan {
    /// What can't be taken goes round on its list. In trouble it goes to the active list: else a list that holds nothing
    /// else would be scanned again and again while the other has clean pages. Linux (5.5 and later) comes to those by
    /// shrinking the active list by force in the end (`force_deactivate`).
    fn round(&self) -> PutBack {
        if self.in_trouble {
            PutBack::Active
        } else {
            PutBack::WarmInactive
        }
    }
}

/// What becomes of a page that was isolated.
enum Fate {
    /// It is offered for eviction.
    Victim(PageKey),
    /// It stays at the cold end: a dirty page of a region, while enough others are on their way to swap.
    Kept,
    /// It is where it belongs by now.
    Done,
}

/// The lists of a batch, kept for the next one, which then allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct ScanLists {
    isolated: Vec<FrameNo>,
    victims: Vec<(FrameNo, PageKey)>,
    kept: Vec<FrameNo>,
}

impl ScanLists {
    fn clear(&mut self) {
        self.isolated.clear();
        self.victims.clear();
        self.kept.clear();
    }
}

impl<A: Form> Manager<A> {
    /// What reclaim met at the cold end and did with it. Pages that were in use and moved before they were offered for
    /// eviction are not in it; [`Lru::statistics`](crate::lru::Lru::statistics) counts those.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// One batch at `priority`.
    pub(super) fn scan<F: FrameTable>(
        &mut self,
        caller: Caller,
        priority: u32,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> Scanned {
        let writes_before = self.stats.write_bytes_issued();
        let in_trouble = is_in_trouble(priority, self.lru.quota(priority), self.lru.quota(0));
        let scan = Scan {
            caller,
            priority,
            in_trouble,
            is_clean_scarce: is_clean_scarce(priority, self.pool.clean(), self.derived.watermarks.high),
        };
        let mut lists = core::mem::take(&mut self.scan_lists);
        lists.clear();
        let batch = self.options.scan_batch as usize;
        let scanned = self.lru.isolate(priority, batch, frames, &mut lists.isolated);
        for &frame in &lists.isolated {
            match self.decide(frame, &scan, frames, cx) {
                Fate::Victim(key) => lists.victims.push((frame, key)),
                Fate::Kept => lists.kept.push(frame),
                Fate::Done => {}
            }
        }
        for frame in lists.kept.drain(..).rev() {
            self.lru.put_back(frame, PutBack::ColdInactive);
        }
        let freed = self.evict(&scan, &mut lists, frames, cx);
        self.scan_lists = lists;
        let written = self.stats.write_bytes_issued() - writes_before;
        self.stats.nr_vmscan_write += written / self.options.page_size.bytes();
        if freed > 0 {
            self.wake_memory(cx);
        }
        Scanned {
            scanned: scanned.scanned,
            looked: scanned.scanned + scanned.refilled,
            freed,
        }
    }

    /// What becomes of a page that the scan has isolated.
    fn decide<F: FrameTable>(
        &mut self,
        frame: FrameNo,
        scan: &Scan,
        frames: &F,
        cx: &StepContext<'_>,
    ) -> Fate {
        let state = self.pool[frame];
        if state.phase() == Phase::Dirty && self.files.is_region(frames.key(frame).file()) {
            return self.decide_for_dirty_of_region(frame, scan, frames, cx);
        }
        let decision = at_cold_end(state.phase(), state.laps, scan.in_trouble, scan.is_clean_scarce);
        if decision != Decision::Take {
            // The table knows nothing yet of a page that was granted in this very step.
            let details = || match state.phase() {
                Phase::Loading => (cx.now, PageKey::NONE, scan.priority),
                _ => (cx.now, frames.key(frame), scan.priority),
            };
            let outcome = outcome(decision, state.phase());
            self.trace.note(scan.caller, PageKind::File, outcome, details);
        }
        match decision {
            Decision::Take => Fate::Victim(frames.key(frame)),
            // Off the lists until its read has ended.
            Decision::KeepOff => Fate::Done,
            Decision::MarkLap => {
                self.pool[frame].laps += 1;
                self.lru.put_back(frame, scan.round());
                Fate::Done
            }
            Decision::FreeOnClean { flag } => {
                // Active, so that it isn't met again at once: the end of its write makes it the next victim.
                self.lru.put_back(frame, PutBack::Active);
                let was_tagged = core::mem::replace(&mut self.pool[frame].free_on_clean, true);
                self.stats.nr_vmscan_immediate_reclaim += 1;
                let key = frames.key(frame);
                if !was_tagged && self.files.is_region(key.file()) {
                    // On its way to swap as another page's neighbor.
                    self.swap.leaves();
                }
                if flag && self.flusher.flag(key.file(), key.index()) {
                    self.stats.flusher_flagged_pages += 1;
                }
                Fate::Done
            }
        }
    }

    fn decide_for_dirty_of_region<F: FrameTable>(
        &mut self,
        frame: FrameNo,
        scan: &Scan,
        frames: &F,
        cx: &StepContext<'_>,
    ) -> Fate {
        let (outcome, fate) = if self.tag_for_swap(frame, frames) {
            self.lru.put_back(frame, PutBack::Active);
            (Outcome::Tagged, Fate::Done)
        } else {
            // Enough is on its way: it is the next victim when that has left.
            (Outcome::KeptInUse, Fate::Kept)
        };
        self.trace.note(scan.caller, PageKind::Anonymous, outcome, || {
            (cx.now, frames.key(frame), scan.priority)
        });
        fate
    }

    /// Offers the victims to the world. How many frames are free by that.
    fn evict<F: FrameTable>(
        &mut self,
        scan: &Scan,
        lists: &mut ScanLists,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) -> u64 {
        let evicted = &mut lists.isolated;
        evicted.clear();
        evicted.extend(lists.victims.iter().map(|&(frame, _)| frame));
        frames.evict(evicted);
        self.lru.fetch(lists.victims.iter().map(|&(_, key)| key));
        let mut evicted = evicted.iter().copied().peekable();
        let mut freed = 0;
        for &(frame, key) in &lists.victims {
            let is_evicted = evicted.next_if_eq(&frame).is_some();
            // Pinned, or changed a moment ago, if not.
            let outcome = if is_evicted {
                Outcome::Freed
            } else {
                Outcome::KeptInUse
            };
            self.trace.note(scan.caller, PageKind::File, outcome, || {
                (cx.now, key, scan.priority)
            });
            if is_evicted {
                self.pool.transition(frame, PageEvent::Evicted);
                self.lru.evicted(frame, key);
                self.reuse.evicted(&mut self.files, key.file(), frame, cx.now);
                self.release(frame, cx);
                freed += 1;
            } else {
                self.lru.put_back(frame, scan.round());
            }
        }
        debug_assert!(
            evicted.next().is_none(),
            "the table evicted a frame that was not offered"
        );
        freed
    }

    /// A frame holds nothing any more: it is free, or leaves the pool if that is to shrink.
    pub(super) fn release(&mut self, frame: FrameNo, cx: &mut StepContext<'_>) {
        self.stats.pgfree += 1;
        self.pool.release(frame, cx.effects);
    }

    /// Whether an allocation of this step may reclaim for itself: once if that frees nothing like a batch, unless
    /// nothing is left for it to take.
    pub(super) fn may_reclaim(&self, cx: &StepContext<'_>) -> bool {
        !cx.reclaimed_in_vain || self.pool.free.len() <= self.derived.reserve
    }

    /// A caller that needs a frame frees a batch for itself.
    pub(super) fn direct_reclaim<F: FrameTable>(&mut self, frames: &mut F, cx: &mut StepContext<'_>) {
        self.stats.allocstall += 1;
        let goal = u64::from(self.options.scan_batch);
        let freed = self.free_batch(goal, frames, cx);
        cx.reclaimed_in_vain = freed < goal;
        if freed >= goal {
            // There was enough to be had: the background reclaimer should have been here before.
            self.reclaimer
                .boost
                .late(cx.now, self.derived.watermarks, self.derived.frames);
        }
    }

    /// Room above `min` for `count` frames that no caller waits for, if it is to be had.
    pub(super) fn reclaim_for_readahead<F: FrameTable>(
        &mut self,
        count: PageCount,
        frames: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        let missing = (self.derived.watermarks.min.0 + count.0).saturating_sub(self.pool.free.len().0);
        if missing > 0 {
            self.free_batch(missing, frames, cx);
        }
    }

    /// Frees `goal` frames or more with rising effort, or as many as there are. How many.
    fn free_batch<F: FrameTable>(&mut self, goal: u64, frames: &mut F, cx: &mut StepContext<'_>) -> u64 {
        let mut freed = 0;
        for priority in (0..=PRIORITY_DEFAULT).rev() {
            let mut left = self.lru.quota(priority).0;
            loop {
                let batch = self.scan(Caller::Direct, priority, frames, cx);
                self.stats.pgscan_direct += batch.scanned;
                self.stats.pgsteal_direct += batch.freed;
                freed += batch.freed;
                left = left.saturating_sub(batch.looked);
                if freed >= goal || left == 0 || batch.looked == 0 || self.is_swapping_enough() {
                    break;
                }
            }
            // What is being swapped out comes free soon: more of it does not help.
            if freed >= goal || self.is_swapping_enough() {
                break;
            }
        }
        freed
    }

    /// How many frames are still to leave the pool since it was made smaller.
    pub fn leaving(&self) -> PageCount {
        self.pool.leaving()
    }

    pub(super) fn memory_changed<F: FrameTable>(
        &mut self,
        count: PageCount,
        _: &mut F,
        cx: &mut StepContext<'_>,
    ) {
        assert!(
            count >= FRAMES_MIN,
            "{count:?} is less than {FRAMES_MIN:?}: the caller checks that first"
        );
        self.derived.frames = count;
        self.pool.resize(count, cx.effects);
        self.lru.resize(count);
        self.reuse
            .resized(&mut self.files, count, self.pool.known(), cx.now);
        self.derive(cx);
    }
}

/// What a decision comes to in the trace.
fn outcome(decision: Decision, phase: Phase) -> Outcome {
    match decision {
        Decision::Take => Outcome::Freed,
        Decision::KeepOff => Outcome::KeptInUse,
        Decision::MarkLap => Outcome::MarkedLap,
        Decision::FreeOnClean { .. } if phase == Phase::Dirty => Outcome::Tagged,
        Decision::FreeOnClean { .. } => Outcome::KeptWriting,
    }
}
