//! The pool: what each frame holds, and which hold nothing.

use crate::event::{Effect, Effects};
use crate::memory::free::FreeFrames;
use crate::mutation::{self, Mutation};
use crate::page::{PageEvent, Phase};
use crate::units::{FrameNo, PageCount};
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// What the manager knows of a frame, in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameState {
    phase: Phase,
    /// How often reclaim has marked a lap of it: it was dirty, and went round.
    pub(super) laps: u8,
    /// To be freed when its write ends.
    pub(super) free_on_clean: bool,
    /// A page of a region that is to be written to swap, whether it is to be freed then or not.
    pub(super) queued: bool,
}

const FREE: FrameState = FrameState {
    phase: Phase::Free,
    laps: 0,
    free_on_clean: false,
    queued: false,
};

impl FrameState {
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }
}

/// All frames.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    states: Vec<FrameState>,
    /// Pages that are as the device has them.
    clean: PageCount,
    pub(super) free: FreeFrames,
    /// The number of frames there are to be.
    wanted: PageCount,
}

impl Index<FrameNo> for Pool {
    type Output = FrameState;

    fn index(&self, frame: FrameNo) -> &FrameState {
        &self.states[frame.index()]
    }
}

impl IndexMut<FrameNo> for Pool {
    fn index_mut(&mut self, frame: FrameNo) -> &mut FrameState {
        &mut self.states[frame.index()]
    }
}

impl Pool {
    pub(super) fn new(frames: PageCount) -> Pool {
        Pool {
            states: alloc::vec![FREE; frames.0 as usize],
            clean: PageCount(0),
            free: FreeFrames::new(frames),
            wanted: frames,
        }
    }

    /// Applies `event` to the page in `frame`.
    #[inline]
    pub(super) fn transition(&mut self, frame: FrameNo, event: PageEvent) -> Phase {
        let state = &mut self.states[frame.index()];
        let before = state.phase;
        match before.after(event) {
            Some(phase) => state.phase = phase,
            None => panic!("{frame:?}, {before:?}, can't be {event:?}"),
        }
        let now_clean = u64::from(state.phase == Phase::Clean);
        self.clean.0 = self.clean.0 + now_clean - u64::from(before == Phase::Clean);
        state.phase
    }

    /// A page gets the frame, which was taken from the free ones.
    pub(super) fn granted(&mut self, frame: FrameNo) {
        self[frame] = FREE;
        self.transition(frame, PageEvent::Granted);
    }

    /// A frame holds nothing any more: it is free, or leaves the pool if that is to shrink.
    pub(super) fn release(&mut self, frame: FrameNo, effects: &mut Effects) {
        self[frame] = FREE;
        self.free.give(frame);
        self.shrink(effects);
    }

    /// Pages that are as the device has them.
    pub(super) fn clean(&self) -> PageCount {
        self.clean
    }

    /// The number of frames: those of the pool, and those it has not given back yet.
    pub(super) fn known(&self) -> PageCount {
        PageCount(self.states.len() as u64)
    }

    /// Those of them that are not withdrawn.
    fn present(&self) -> PageCount {
        self.known() - self.free.withdrawn()
    }

    /// How many frames are still to leave the pool since it was made smaller.
    pub(super) fn leaving(&self) -> PageCount {
        match mutation::is(Mutation::ShrinkForgotten) {
            true => PageCount(0),
            false => self.present().saturating_sub(self.wanted),
        }
    }

    /// Whether frames are still to leave the pool.
    pub(super) fn is_shrinking(&self) -> bool {
        self.leaving() > PageCount(0)
    }

    /// There are to be so many frames. New ones are free at once; others leave as they come free, those that are first.
    pub(super) fn resize(&mut self, count: PageCount, effects: &mut Effects) {
        self.wanted = count;
        while self.present() < count && self.free.restore().is_some() {}
        if count > self.known() {
            self.states.resize(count.0 as usize, FREE);
            self.free.extend(count);
        }
        self.shrink(effects);
    }

    /// Withdraws free frames while the pool is larger than it shall be.
    fn shrink(&mut self, effects: &mut Effects) {
        while self.is_shrinking() {
            let Some(frame) = self.free.withdraw() else { break };
            effects.list.push(Effect::Withdraw { frame });
        }
    }

    pub(super) fn metadata_bytes(&self) -> u64 {
        (self.states.capacity() * size_of::<FrameState>()) as u64 + self.free.metadata_bytes()
    }

    /// The frames that hold a page, with what is known of it. Checks the others.
    ///
    /// # Panics
    /// If a free frame holds something, or a frame is in no list.
    pub(super) fn validate(&self) -> impl Iterator<Item = (FrameNo, &FrameState)> {
        self.free.validate();
        let mut free = alloc::vec![false; self.states.len()];
        for frame in self.free.iter() {
            let was = core::mem::replace(&mut free[frame.index()], true);
            assert!(!was, "{frame:?} is free twice");
            assert_eq!(self[frame], FREE, "{frame:?} is free");
        }
        let held = || {
            let all = (0..).map(FrameNo).zip(&self.states);
            all.filter(|(_, state)| state.phase != Phase::Free)
        };
        let clean = held().filter(|(_, state)| state.phase == Phase::Clean).count();
        assert_eq!(clean as u64, self.clean.0, "clean pages");
        let of_all = held().count() as u64 + self.free.len().0;
        assert_eq!(of_all, self.present().0, "every frame is held, free or withdrawn");
        held()
    }
}
