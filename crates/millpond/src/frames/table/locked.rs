//! Operations of the core lock's holder: putting pages in, taking them out, adding and withdrawing frames.

use super::pins::Grip;
use super::{Holder, Load, SharedPin, Table};
use crate::frames::hazard;
use crate::frames::index::WriteToken;
use crate::frames::state::{self, State, Step, Word};
use crate::frames::sync::Ordering;
use millpond_core::frame::{BeginWrite, FrameTable};
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};
use std::io;
use std::ops::Range;

/// Memory for frames, numbered from 0.
pub(crate) trait Memory {
    /// The maximum number of frames: 1 to 2^32 - 2.
    fn frames_max(&self) -> u32;

    /// Puts memory behind `frames`.
    ///
    /// # Errors
    /// If there is none.
    fn commit(&self, frames: Range<u32>) -> io::Result<()>;

    /// Free frames are about to hold pages that follow one another, and the page that `behind` holds, if one does.
    fn granted(&self, _frames: &[FrameNo], _behind: impl FnOnce() -> Option<FrameNo>) {}

    /// Frames become empty.
    fn freed(&self, _frames: &Vacated) {}

    /// Gives back the memory behind frames to which no thread can have a right; they stay usable.
    fn discard(&self, frames: Vacated);

    /// Takes away the memory behind frames to which no thread can have a right.
    #[allow(
        dead_code,
        reason = "memory is given back frame by frame until frames are withdrawn by the chunk"
    )]
    fn withdraw(&self, frames: Vacated);
}

/// Frames that hold no page, and will not before their memory has been told (T4).
#[derive(Debug)]
pub(crate) struct Vacated(Range<u32>);

impl Vacated {
    fn one(frame: FrameNo) -> Vacated {
        Vacated(frame.0..frame.0 + 1)
    }

    /// Their numbers.
    pub(crate) fn frames(&self) -> &Range<u32> {
        &self.0
    }
}

/// A [`Table`] as the holder of the core lock sees it. Hits run concurrently.
pub(crate) struct LockedTable<'a, M> {
    table: &'a Table<M>,
    token: &'a mut WriteToken,
}

impl<'a, M: Memory> LockedTable<'a, M> {
    pub(super) fn new(table: &'a Table<M>, token: &'a mut WriteToken) -> LockedTable<'a, M> {
        // Panics if the token is another table's.
        table.index.frames(token);
        LockedTable { table, token }
    }

    /// The number of frames: those below this number exist.
    pub(crate) fn frames(&self) -> u32 {
        self.table.index.frames(self.token)
    }

    /// Bytes that the table uses for its frames, not counting 64 locks.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        self.table.index.metadata_bytes(self.token)
    }

    /// Starts to load pages that follow one another from `first` on and are not there, into `frames`, which
    /// are free. A thread that asks for one of the pages from now on waits for its load, which is put behind
    /// those in `loads`.
    ///
    /// # Panics
    /// If one of the frames is not free.
    pub(crate) fn insert_run(&mut self, first: PageKey, frames: &[FrameNo], loads: &mut Vec<Load>) {
        let page = |index| PageKey::new(first.file(), index);
        self.table.memory.granted(frames, || {
            let before = first.index().0.checked_sub(1)?;
            self.table.index.find_exact(self.token, page(PageIndex(before)))
        });
        let pages = (0..).map(|n| page(first.index().after(n)));
        loads.extend(pages.zip(frames).map(|(key, &frame)| self.insert_one(key, frame)));
    }

    /// The same for one page.
    #[cfg(test)]
    pub(crate) fn insert(&mut self, key: PageKey, frame: FrameNo) -> Load {
        let mut loads = Vec::new();
        self.insert_run(key, &[frame], &mut loads);
        loads.remove(0)
    }

    fn insert_one(&mut self, key: PageKey, frame: FrameNo) -> Load {
        let index = &self.table.index;
        let word = Word::load(index.word(frame), Ordering::Acquire);
        assert!(word.state() == State::Free, "{frame:?} for {key:?} is {word:?}");
        index.insert(self.token, frame, key);
        state::must(index.word(frame), Step::Load);
        Load {
            frame,
            table: index.address(FrameNo(0)),
        }
    }

    /// Ends a load whose bytes did not come: the frame is free, and the threads that wait for the page
    /// look again and miss.
    pub(crate) fn fail_load(&mut self, load: Load) -> FrameNo {
        let frame = self.table.loading_frame(&load);
        self.table.index.remove(self.token, frame);
        let word = state::must(self.table.index.word(frame), Step::Failed).new;
        self.table.memory.freed(&Vacated::one(frame));
        self.table.wake_waiters(frame, word);
        frame
    }

    /// Takes pages out of the table whether they are dirty or not, except those that are pinned, locked,
    /// loading or under writeback, which it removes from `frames`. For pages whose content is given up.
    pub(crate) fn forget(&mut self, frames: &mut Vec<FrameNo>) {
        self.take_out(frames, true);
    }

    /// Takes a page out of the table that its mapping has alone, and with it the content.
    ///
    /// # Panics
    /// If that is not so.
    pub(crate) fn vacate(&mut self, frame: FrameNo) {
        let index = &self.table.index;
        state::must(index.word(frame), Step::Vacate);
        index.remove(self.token, frame);
        let word = state::must(index.word(frame), Step::Leave).new;
        self.table.memory.freed(&Vacated::one(frame));
        self.table.wake_waiters(frame, word);
    }

    fn take_out(&mut self, frames: &mut Vec<FrameNo>, dirty_too: bool) {
        let index = &self.table.index;
        let mut hazards = false;
        frames.retain(
            |&frame| match state::step(index.word(frame), Step::Evict { dirty_too }) {
                Ok(stepped) => {
                    hazards |= stepped.new.has_hazards();
                    true
                }
                Err(_) => false,
            },
        );
        if hazards && !mutation::is(Mutation::EvictPinned) {
            // H2, once for all of them. Only this call makes frames leave, so a leaving frame is
            // one of ours.
            hazard::scan(|address| {
                if let Some(frame) = index.frame_at(address)
                    && Word::load(index.word(frame), Ordering::Relaxed).state() == State::Leaving
                {
                    let word = state::must(index.word(frame), Step::Stay).new;
                    self.table.wake_waiters(frame, word);
                }
            });
        }
        frames.retain(|&frame| {
            let leaves = Word::load(index.word(frame), Ordering::Relaxed).state() == State::Leaving;
            if leaves {
                index.remove(self.token, frame);
                let word = state::must(index.word(frame), Step::Leave).new;
                self.table.memory.freed(&Vacated::one(frame));
                self.table.wake_waiters(frame, word);
            }
            leaves
        });
    }

    /// As `begin_write`, with the page pinned: no thread changes it until the pin is dropped. `None`: a
    /// thread is changing it at this moment; leave it.
    ///
    /// # Panics
    /// If `holder` is another table's.
    pub(crate) fn begin_write_pinned<H: Holder<Memory = M>>(
        &mut self,
        frame: FrameNo,
        holder: H,
    ) -> Option<SharedPin<H>> {
        assert!(
            std::ptr::eq(self.table, holder.table()),
            "the holder of another cache"
        );
        state::step(self.table.index.word(frame), Step::BeginWritePinned).ok()?;
        Some(SharedPin::new(holder, Grip::counted(frame)))
    }

    /// Re-derives what can be re-derived.
    ///
    /// # Panics
    /// If a page is not where its key says, a frame without one is in a chain, or one is leaving outside
    /// a call.
    #[cfg(test)]
    pub(crate) fn validate(&self) {
        self.table.index.validate(self.token);
        for frame in (0..self.frames()).map(FrameNo) {
            let word = Word::load(self.table.index.word(frame), Ordering::Acquire);
            assert!(
                !matches!(word.state(), State::Leaving | State::Absent),
                "{frame:?} is {word:?}"
            );
        }
    }
}

impl<M: Memory> LockedTable<'_, M> {
    /// Sets the number of frames to `frames`; the new ones are free. Nothing changes if it fails.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn grow(&mut self, frames: u32) -> io::Result<()> {
        let now = self.frames();
        assert!(
            now <= frames && frames <= self.table.memory.frames_max(),
            "from {now} to {frames} frames"
        );
        self.table.memory.commit(now..frames)?;
        // First, because it says what kind of memory the words shall be in.
        self.table.index.set_frames(self.token, frames);
        for frame in (now..frames).map(FrameNo) {
            state::must(self.table.index.word(frame), Step::Add);
        }
        Ok(())
    }

    /// Gives the memory of a free frame back to the system; it comes again when the frame is used.
    ///
    /// # Panics
    /// If the frame is not free.
    pub(crate) fn give_back(&mut self, frame: FrameNo) {
        let word = Word::load(self.table.index.word(frame), Ordering::Acquire);
        assert!(
            word.state() == State::Free,
            "{frame:?} is given back, but it is {word:?}"
        );
        self.table.memory.discard(Vacated::one(frame));
    }

    /// Withdraws frames from the last one down to `frames` frames, or down to the last one that is not
    /// free, and gives their memory back. Returns how many are left.
    #[allow(
        dead_code,
        reason = "memory is given back frame by frame until frames are withdrawn by the chunk"
    )]
    pub(crate) fn shrink(&mut self, frames: u32) -> u32 {
        let index = &self.table.index;
        let now = self.frames();
        let is_free =
            |frame: &u32| Word::load(index.word(FrameNo(*frame)), Ordering::Acquire).state() == State::Free;
        let free = (frames..now).rev().take_while(is_free).count();
        let left = now - free as u32;
        for frame in (left..now).map(FrameNo) {
            state::must(index.word(frame), Step::Withdraw);
        }
        index.set_frames(self.token, left);
        self.table.memory.withdraw(Vacated(left..now));
        left
    }
}

impl<M: Memory> FrameTable for LockedTable<'_, M> {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.table.index.key(frame)
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.table.index.find_exact(self.token, key)
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        let word = self.table.index.word(frame);
        // A frame that was granted a moment ago is not in the table yet.
        if Word::load(word, Ordering::Acquire).state() == State::Free {
            0
        } else {
            state::test_and_clear_accessed(word)
        }
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        self.take_out(frames, mutation::is(Mutation::EvictDirty));
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        match state::step(self.table.index.word(frame), Step::BeginWrite) {
            Ok(_) => BeginWrite::Begun,
            Err(_) => BeginWrite::Busy,
        }
    }
}
