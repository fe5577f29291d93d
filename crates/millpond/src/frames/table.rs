//! Which page is in which frame, and which threads may touch it: the engine's hit path.
//!
//! ```text
//!   pin ──► index: key to frame ──► its word: biased? ──► hazard slot of this thread ──► SharedPin
//!                                        └── not biased ──► counted in the word ───────► SharedPin
//!   lock ─► index ──► its word: exclusive ──► had hazards? look at every thread's ─────► ExclusivePin
//! ```
//!
//! A hit takes no lock and allocates nothing. A miss takes the core lock, whose holder alone changes
//! which page is where ([`LockedTable`]), and repeats the look-up there: without the lock a page may be
//! missed (X1) but never mistaken (X2).
//!
//! - T1. While a [`SharedPin`] lives its frame holds its page, and no thread changes it: a counted pin
//!   keeps the word from being claimed or leaving (S3), a hazard pin stops the thread that tried (H3).
//! - T2. While an [`ExclusivePin`] lives no other thread reads or changes the page: others' pins and
//!   claims are refused while EXCLUSIVE is set, no count and no hazard was there when it was granted
//!   (S3, H2), and the page was marked dirty before (S4).
//! - T3. While a [`Load`] lives its frame's bytes are its holder's: nothing pins, claims or evicts a
//!   loading frame.
//! - T4. [`Vacated`] frames were free when they were taken out, and a frame gets from free to anything
//!   else only through the holder of the core lock, which makes them vacated.
//! - T5. Every change that ends a thread's reason to wait looks for WAITERS and wakes.
//! - T6. `first_dirty` is true for exactly one owner between two moments at which the page is clean.
//! - T7. No thread waits for the users of another page: a frame that refuses is asked for its key before
//!   its refusal is believed. A refusal is read from the word with Acquire, so that the key is at least as
//!   new.
//! - T8. A page that a mapping has is claimed by no thread and does not leave: its mapping gives it back first
//!   (`table/mapped.rs`). No thread waits for a mapping here: it is told `Busy`, and asks the mapping.
//!
//! The bytes of frames are reached in `sys/arena.rs`: by dereferencing a pin, or by `Table::load_bytes`.
//!
//! A reader may pin a page that it has pinned already, even while a writer waits for it: writers have
//! precedence only for a bounded while (`wait.rs`). A thread that asks for a page exclusively while it
//! holds a pin of the same page would wait for itself for ever.

use crate::frames::hazard::{self, Hazard};
use crate::frames::index::Index;
use crate::frames::state::{self, Refusal, State, Step, Word};
use crate::frames::sync::{Ordering, fence};
use crate::frames::wait::{Slow, Stripes, stand_back};
use millpond_core::frame::ACCESSES_MAX;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageKey};
use std::io;

// The paths are explicit because tests compile this file from another folder.
#[path = "table/locked.rs"]
mod locked;
#[path = "table/mapped.rs"]
mod mapped;
#[path = "table/pins.rs"]
mod pins;
#[path = "table/unpinned.rs"]
mod unpinned;

pub(crate) use crate::frames::index::WriteToken;
pub(crate) use locked::{LockedTable, Memory, Vacated};
use pins::{Claim, Grip};
pub(crate) use pins::{ExclusivePin, Holder, Load, SharedPin};

/// The frames of a cache: what they hold, which threads use them, and their memory `M`.
pub(crate) struct Table<M> {
    index: Index,
    stripes: Stripes,
    memory: M,
}

/// The result of a look-up without the core lock.
#[must_use]
pub(crate) enum Lookup<P> {
    /// The page, as asked for.
    Found(P),
    /// The page is being loaded: [`Table::wait_loading`], then look again.
    Loading(FrameNo),
    /// Other threads hold the page in a way that excludes this one. Only calls that do not wait
    /// return it.
    Busy(FrameNo),
    /// Absent, as far as a look-up without the core lock can tell.
    Absent,
}

impl<M: Memory> Table<M> {
    /// A table without frames, for as many as `memory` may have, and the right to change it, which
    /// belongs under the core lock.
    ///
    /// # Errors
    /// If the kernel gives no addresses for the table's arrays (26 bytes a frame and 4 for 32 frames).
    pub(crate) fn new(memory: M) -> io::Result<(Table<M>, WriteToken)> {
        let (index, token) = Index::new(memory.frames_max())?;
        Ok((
            Table {
                index,
                stripes: Stripes::new(),
                memory,
            },
            token,
        ))
    }

    /// The view of the thread that holds the core lock; `token` proves that it does.
    pub(crate) fn locked<'a>(&'a self, token: &'a mut WriteToken) -> LockedTable<'a, M> {
        LockedTable::new(self, token)
    }
}

impl<M> Table<M> {
    /// The memory of the frames.
    #[inline]
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// The frame's word as it is now, to look at.
    pub(crate) fn word(&self, frame: FrameNo) -> Word {
        Word::load(self.index.word(frame), Ordering::Acquire)
    }

    /// Pins the page `key` for reading if that can be done at once, without the core lock. The hit path:
    /// small enough to be compiled into its caller.
    #[inline(always)]
    pub(crate) fn hit(&self, key: PageKey) -> Option<SharedPin<&Self>> {
        let frame = self.index.find(key)?;
        let grip = match self.grip_hazard(frame, key, true) {
            Some(grip) => grip,
            None => self.grip_counted(frame, key, true).ok()?,
        };
        Some(SharedPin::new(self, grip))
    }

    /// As [`Table::hit`], for a background task: not counted as a use. Only where a hazard is enough, so a caller that gets
    /// none tries [`Table::hit`].
    pub(crate) fn hit_unused(&self, key: PageKey) -> Option<SharedPin<&Self>> {
        let frame = self.index.find(key)?;
        let grip = self.grip_hazard(frame, key, false)?;
        Some(SharedPin::new(self, grip))
    }

    /// As [`Table::hit`], by a count in the page's word: for pins that are kept for longer, or elsewhere, than a thread's few
    /// hazards are for.
    pub(crate) fn hit_counted(&self, key: PageKey) -> Option<SharedPin<&Self>> {
        let frame = self.index.find(key)?;
        let grip = self.grip_counted(frame, key, true).ok()?;
        Some(SharedPin::new(self, grip))
    }

    /// Whether the page `key` is present at this moment, used or not. Does not count as a use.
    pub(crate) fn holds(&self, key: PageKey) -> bool {
        self.index.find(key).is_some_and(|frame| {
            // Pairs with the release at which the key was stored: the word is not that of the page that was
            // there before.
            fence(Ordering::Acquire);
            let word = self.word(frame);
            word.state() == State::Resident && self.index.key(frame) == key
        })
    }

    /// Whether no frame has the page `key`, or is loading it, at this moment. Does not count as a use.
    pub(crate) fn lacks(&self, key: PageKey) -> bool {
        self.index.find(key).is_none()
    }

    /// The page of the pinned frame whose [`Hazard`] says `address`, if it is one of this table.
    pub(crate) fn key_at(&self, address: usize) -> Option<PageKey> {
        let frame = self.index.frame_at(address)?;
        Some(self.index.key(frame))
    }

    /// Pins the page `key` for reading, without waiting and without the core lock. A `polite` caller lets a waiting writer go
    /// first.
    pub(crate) fn try_pin(&self, key: PageKey, polite: bool) -> Lookup<SharedPin<&Self>> {
        let Some(frame) = self.index.find(key) else {
            return Lookup::Absent;
        };
        self.found(
            frame,
            self.grip(frame, key, polite)
                .map(|grip| SharedPin::new(self, grip)),
        )
    }

    /// Pins the page `key` for reading; waits while another thread changes it, and calls `slow` if that takes
    /// long. `Busy` only if a mapping has the page alone.
    #[inline]
    pub(crate) fn pin(&self, key: PageKey, slow: Slow<'_>) -> Lookup<SharedPin<&Self>> {
        match self.hit(key) {
            Some(pin) => Lookup::Found(pin),
            None => self.pin_patiently(key, slow),
        }
    }

    /// Locks the page `key` for changing it, without waiting and without the core lock.
    pub(crate) fn try_lock(&self, key: PageKey) -> Lookup<ExclusivePin<&Self>> {
        let Some(frame) = self.index.find(key) else {
            return Lookup::Absent;
        };
        let claimed = self.claim(frame, key, true);
        self.found(frame, claimed.map(|claim| ExclusivePin::new(self, claim)))
    }

    /// Locks the page `key` for changing it; waits while others read or change it, and calls `slow` if that takes long. `Busy`
    /// only if a mapping has the page, or if the waiting for pins was [called off](Table::call_off), for a write may hold some.
    /// The page is dirty from here on, and [`ExclusivePin::first_dirty`] says whether it was clean.
    pub(crate) fn lock(&self, key: PageKey, slow: Slow<'_>) -> Lookup<ExclusivePin<&Self>> {
        let Some(frame) = self.index.find(key) else {
            return Lookup::Absent;
        };
        let claimed = self.claim_patiently(frame, key, true, slow);
        self.found(frame, claimed.map(|claim| ExclusivePin::new(self, claim)))
    }

    /// Waits until `frame` is no longer loading `key`: it is there, or its load has failed, or waiting is
    /// [called off](Table::call_off).
    pub(crate) fn wait_loading(&self, frame: FrameNo, key: PageKey) {
        let busy = |word: Word| {
            word.state() == State::Loading && self.index.key(frame) == key && !self.stripes.is_called_off()
        };
        self.stripes
            .wait(frame, self.index.word(frame), (false, None), busy);
    }

    /// Whether a thread holds `key` in `frame` to change it, at this moment.
    pub(crate) fn is_in_change(&self, frame: FrameNo, key: PageKey) -> bool {
        self.word(frame).is_exclusive() && self.index.key(frame) == key
    }

    /// Waits for a moment at which none has. Calls `slow` if it takes long.
    pub(crate) fn wait_changed(&self, frame: FrameNo, key: PageKey, slow: Slow<'_>) {
        let busy = |word: Word| word.is_exclusive() && self.index.key(frame) == key;
        self.stripes
            .wait(frame, self.index.word(frame), (false, slow), busy);
    }

    /// Waits until `key` in `frame` is not under writeback, or no longer there, or waiting is
    /// [called off](Table::call_off).
    pub(crate) fn wait_written(&self, frame: FrameNo, key: PageKey) {
        let busy =
            |word: Word| word.is_writeback() && self.index.key(frame) == key && !self.stripes.is_called_off();
        self.stripes
            .wait(frame, self.index.word(frame), (false, None), busy);
    }

    /// Waits for a moment at which no thread uses `key` in `frame`, or until it is no longer there.
    /// Then [`LockedTable::forget`] has a chance. Calls `slow` if it stays in use for long.
    pub(crate) fn wait_unused(&self, frame: FrameNo, key: PageKey, slow: Slow<'_>) {
        self.wait_loading(frame, key);
        self.wait_written(frame, key);
        if self.claim_patiently(frame, key, false, slow).is_ok() {
            self.release(frame);
        }
    }

    /// The device is broken: no thread waits for its work, now or later.
    pub(crate) fn call_off(&self) {
        self.stripes.call_off();
    }

    /// Ends a load: the bytes are there. Wakes the threads that wait for them.
    pub(crate) fn finish_load(&self, load: Load) {
        self.end_load(load, Step::Loaded);
    }

    /// Ends a load and pins the page for the caller.
    pub(crate) fn finish_load_pinned(&self, load: Load) -> SharedPin<&Self> {
        let frame = self.end_load(load, Step::LoadedPinned);
        SharedPin::new(self, Grip::counted(frame))
    }

    /// Ends a load with the caller as exclusive owner of a dirty page, whose `first_dirty` is true.
    pub(crate) fn finish_load_exclusive(&self, load: Load) -> ExclusivePin<&Self> {
        let frame = self.end_load(load, Step::LoadedExclusive);
        ExclusivePin::new(self, Claim::new(frame, true))
    }

    /// Ends a page's writeback: its content of [`LockedTable::begin_write`] is on the device.
    ///
    /// [`LockedTable::begin_write`]: millpond_core::frame::FrameTable::begin_write
    pub(crate) fn end_write(&self, frame: FrameNo) {
        let word = state::must(self.index.word(frame), Step::EndWrite).new;
        self.wake_waiters(frame, word);
    }

    /// Ends a page's writeback without success: it is dirty. Returns whether it was clean, so that no
    /// other thread has reported it dirty since.
    pub(crate) fn fail_write(&self, frame: FrameNo) -> bool {
        let stepped = state::must(self.index.word(frame), Step::FailWrite);
        self.wake_waiters(frame, stepped.new);
        !stepped.old.is_dirty()
    }

    /// The frame of a load of this table.
    #[inline]
    pub(crate) fn loading_frame(&self, load: &Load) -> FrameNo {
        assert_eq!(
            load.table,
            self.index.address(FrameNo(0)),
            "a load of another cache"
        );
        load.frame
    }

    /// The same frame.
    ///
    /// # Panics
    /// If it is not under writeback.
    #[inline]
    pub(crate) fn writing_frame(&self, frame: FrameNo) -> FrameNo {
        let word = Word::load(self.index.word(frame), Ordering::Relaxed);
        assert!(word.is_writeback(), "{frame:?} is not under writeback: {word:?}");
        frame
    }

    #[inline]
    fn found<P>(&self, frame: FrameNo, found: Result<P, Refusal>) -> Lookup<P> {
        match found {
            Ok(pin) => Lookup::Found(pin),
            Err(Refusal::Gone) => Lookup::Absent,
            Err(Refusal::Loading) => Lookup::Loading(frame),
            Err(_) => Lookup::Busy(frame),
        }
    }

    #[inline]
    fn grip(&self, frame: FrameNo, key: PageKey, polite: bool) -> Result<Grip, Refusal> {
        match self.grip_hazard(frame, key, true) {
            Some(grip) => Ok(grip),
            None => self.grip_counted(frame, key, polite),
        }
    }

    /// Pins `key` in `frame` by a hazard, if it is there and biased: H1.
    #[inline]
    fn grip_hazard(&self, frame: FrameNo, key: PageKey, is_use: bool) -> Option<Grip> {
        let word = self.index.word(frame);
        if !Word::load(word, Ordering::Relaxed).is_biased() {
            return None;
        }
        let hazard = Hazard::publish(self.index.address(frame))?;
        let grip = Grip::with_hazard(frame, hazard);
        let seen = Word::load(word, Ordering::SeqCst);
        if !seen.is_biased() || self.index.key(frame) != key {
            self.ungrip(grip);
            return None;
        }
        if is_use && seen.uses() < ACCESSES_MAX {
            state::note_use(word, seen);
        }
        Some(grip)
    }

    /// Pins `key` in `frame` by a count, if it is there.
    fn grip_counted(&self, frame: FrameNo, key: PageKey, polite: bool) -> Result<Grip, Refusal> {
        state::step(self.index.word(frame), Step::Pin { polite })
            .map_err(|why| self.refusal(frame, key, why))?;
        let grip = Grip::counted(frame);
        if self.index.key(frame) == key {
            return Ok(grip);
        }
        self.ungrip(grip);
        Err(Refusal::Gone)
    }

    /// Why `key` is refused, if its frame was refused because of `why`: T7.
    #[cold]
    fn refusal(&self, frame: FrameNo, key: PageKey, why: Refusal) -> Refusal {
        if self.index.key(frame) == key {
            why
        } else {
            Refusal::Gone
        }
    }

    #[inline]
    fn ungrip(&self, grip: Grip) {
        let frame = grip.frame();
        let word = self.index.word(frame);
        if let Some(hazard) = grip.hazard() {
            hazard.clear();
            self.wake_waiters(frame, Word::load(word, Ordering::Relaxed));
            return;
        }
        let now = state::unpin(word);
        if now.pins() == 0 {
            self.wake_waiters(frame, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn pin_patiently(&self, key: PageKey, slow: Slow<'_>) -> Lookup<SharedPin<&Self>> {
        let Some(frame) = self.index.find(key) else {
            return Lookup::Absent;
        };
        let word = self.index.word(frame);
        let gripped = loop {
            stand_back(word);
            match self.grip(frame, key, false) {
                Err(Refusal::Exclusive) => {
                    let busy = |word: Word| word.is_exclusive() && self.index.key(frame) == key;
                    self.stripes.wait(frame, word, (false, slow), busy);
                }
                gripped => break gripped,
            }
        };
        self.found(frame, gripped.map(|grip| SharedPin::new(self, grip)))
    }

    /// Makes the caller the only user of `key` in `frame`.
    #[inline]
    fn claim(&self, frame: FrameNo, key: PageKey, change: bool) -> Result<Claim, Refusal> {
        let word = self.index.word(frame);
        let claimed = state::step(word, Step::Claim)
            .map_err(|why| self.refusal(frame, key, why))?
            .new;
        if self.index.key(frame) != key {
            self.release(frame);
            return Err(Refusal::Gone);
        }
        if claimed.has_hazards() {
            // H2: we go ahead only if no slot names the frame.
            if hazard::names(self.index.address(frame)) {
                let word = state::must(word, Step::Unclaim).new;
                self.wake_waiters(frame, word);
                return Err(Refusal::Pinned);
            }
        } else if !change || claimed.is_dirty() {
            return Ok(Claim::new(frame, false));
        }
        let owned = state::must(word, Step::Own { change });
        Ok(Claim::new(frame, change && !owned.old.is_dirty()))
    }

    fn claim_patiently(
        &self,
        frame: FrameNo,
        key: PageKey,
        change: bool,
        slow: Slow<'_>,
    ) -> Result<Claim, Refusal> {
        let word = self.index.word(frame);
        let is_here = |word: Word| word.state() == State::Resident && self.index.key(frame) == key;
        // A write may hold pins, and a broken device never gives them back.
        let is_off = || self.stripes.is_called_off();
        let mut asked = false;
        loop {
            match self.claim(frame, key, change) {
                Err(Refusal::Pinned) if is_off() => return Err(Refusal::Pinned),
                Err(Refusal::Exclusive) => {
                    self.stripes.wait(frame, word, (false, slow), |word| {
                        is_here(word) && word.is_exclusive()
                    });
                }
                Err(Refusal::Pinned) if Word::load(word, Ordering::Relaxed).pins() > 0 => {
                    let busy =
                        |word: Word| is_here(word) && !word.is_exclusive() && word.pins() > 0 && !is_off();
                    asked = true;
                    self.stripes.wait(frame, word, (true, slow), busy);
                }
                Err(Refusal::Pinned) => {
                    let busy =
                        |word: Word| is_here(word) && !word.is_exclusive() && word.has_hazards() && !is_off();
                    let address = self.index.address(frame);
                    asked = true;
                    self.stripes
                        .wait_hazard(frame, word, slow, busy, || hazard::names(address));
                }
                Err(Refusal::Gone) if asked => {
                    // The page may have left between our last look and our asking: then we have asked for
                    // precedence at the next one, and its readers would stand back for no writer.
                    state::unwant(word);
                    return Err(Refusal::Gone);
                }
                claimed => return claimed,
            }
        }
    }

    /// Ends exclusive ownership.
    #[inline]
    fn release(&self, frame: FrameNo) {
        let word = state::release(self.index.word(frame));
        self.wake_waiters(frame, word);
    }

    fn end_load(&self, load: Load, step: Step) -> FrameNo {
        let frame = self.loading_frame(&load);
        let word = state::must(self.index.word(frame), step).new;
        self.wake_waiters(frame, word);
        frame
    }

    /// T5.
    #[inline]
    fn wake_waiters(&self, frame: FrameNo, now: Word) {
        if now.has_waiters() && !mutation::is(Mutation::LoseWakeup) {
            self.stripes.wake(frame, self.index.word(frame));
        }
    }
}
