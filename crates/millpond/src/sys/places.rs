//! Where in the arena the memory of each frame is, where frames are exchanged with regions.
//!
//! ```text
//!   frames    0    1    2    3          numbers, as the core gives them out
//!             │     ╲  ╱     ·          3: its page is in its region, so there is no place
//!   places    0    1    2    3    4 …   a page's worth of addresses each; some more than there are frames
//! ```
//!
//! One system call moves pages that follow one another if the places that they come from, or go to, do as well, and after
//! each call all processors that run the process are interrupted. Frames that pages get when many threads read by turns are
//! in no order. So a frame's number says nothing of where it is:
//!
//! - Pages that leave their regions together get places side by side, whatever frames they have.
//! - Free frames that are granted together exchange places among all free ones, so that theirs are side by side.
//!
//! A place changes only while nobody can have a right to the frame's bytes: while its page is in its region, or while it
//! is free, which takes the core lock.

use crate::sys::reserved::Reserved;
use millpond_core::memory::free::{FreeFrames, Purpose};
use millpond_core::units::{FrameNo, PageCount};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// There is one more place for so many frames, so that there are places side by side.
const SPARE_SHARE: u32 = 8;

/// Frames that there may be at most.
pub(super) const FRAMES_MAX: u32 = 1 << 30;

/// Bytes that this takes for a frame: two numbers and two bits, and those of the places that are more.
pub(crate) const PLACE_BYTES: u64 = 9;

/// No place.
const NONE: u32 = u32::MAX;

/// The places of an arena's frames.
pub(super) struct Places {
    /// Of a frame: its place, exclusive-or its number, so that fresh memory says that it is where it was born.
    of: Reserved<AtomicU32>,
    /// Of a place in [`Maps::free`]: its frame, exclusive-or its own number.
    at: Reserved<AtomicU32>,
    frames_max: u32,
    maps: Mutex<Maps>,
}

struct Maps {
    /// Places without memory.
    empty: FreeFrames,
    /// Where the last page was put that left its region.
    last: u32,
    /// Places of free frames.
    free: FreeFrames,
}

impl Places {
    /// For so many frames at most.
    pub(super) fn new(frames_max: u32) -> io::Result<Places> {
        let spare = spare(frames_max);
        let all = spare.end;
        let mut empty = FreeFrames::none_of(PageCount(u64::from(all)));
        spare.for_each(|place| empty.give(FrameNo(place)));
        let maps = Maps {
            empty,
            last: all,
            free: FreeFrames::none_of(PageCount(u64::from(all))),
        };
        Ok(Places {
            of: Reserved::new(frames_max as usize)?,
            at: Reserved::new(all as usize)?,
            frames_max,
            maps: Mutex::new(maps),
        })
    }

    /// The places that are no frame's at first.
    pub(super) fn spare(&self) -> Range<u32> {
        spare(self.frames_max)
    }

    /// The frame's place, if it has one.
    #[inline]
    pub(super) fn of(&self, frame: FrameNo) -> Option<u32> {
        match self.of[frame.index()].load(Ordering::Relaxed) {
            NONE => None,
            place => Some(place ^ frame.0),
        }
    }

    fn set(&self, frame: FrameNo, place: u32) {
        self.of[frame.index()].store(place ^ frame.0, Ordering::Relaxed);
    }

    /// Frames that are new: they are free, where they were born.
    pub(super) fn born(&self, frames: Range<u32>) {
        frames.for_each(|frame| self.freed(FrameNo(frame)));
    }

    /// The frame is free, or will be before the core lock is let go.
    pub(super) fn freed(&self, frame: FrameNo) {
        let Some(place) = self.of(frame) else { return };
        let free = &mut self.maps.lock().free;
        if !free.contains(FrameNo(place)) {
            free.give(FrameNo(place));
            self.at[place as usize].store(frame.0 ^ place, Ordering::Relaxed);
        }
    }

    /// A free frame whose memory is given back: no other one exchanges places with it.
    pub(super) fn given_back(&self, frame: FrameNo) {
        if let Some(place) = self.of(frame) {
            self.maps.lock().free.take_this(FrameNo(place));
        }
    }

    /// Free frames are granted to pages that follow one another: their places do as well from now on if that can be had,
    /// behind that of the frame `behind`.
    pub(super) fn granted(&self, frames: &[FrameNo], behind: Option<FrameNo>) {
        let mut last = behind.and_then(|frame| self.of(frame));
        let free = &mut self.maps.lock().free;
        for &frame in frames {
            let Some(own) = self.of(frame) else { continue };
            // One that was given back, and is used again.
            if !free.contains(FrameNo(own)) {
                last = Some(own);
                continue;
            }
            let purpose = match last {
                Some(last) => Purpose::Behind(FrameNo(last)),
                None if frames.len() > 1 => Purpose::Run,
                None => Purpose::Single,
            };
            let Some(FrameNo(place)) = free.take(purpose) else {
                return;
            };
            let other = FrameNo(self.at[place as usize].load(Ordering::Relaxed) ^ place);
            if other != frame {
                self.set(frame, place);
                self.set(other, own);
                self.at[own as usize].store(other.0 ^ own, Ordering::Relaxed);
            }
            last = Some(place);
        }
    }

    /// Gives places that follow one another to frames that have none. Of how many of them, from the first on, the places
    /// do, those that had one before included.
    pub(super) fn put_together(&self, frames: impl Iterator<Item = FrameNo>) -> usize {
        let mut frames = frames;
        let Some(first) = frames.next() else { return 0 };
        if let Some(at) = self.of(first) {
            let follows = |(frame, place): &(FrameNo, u32)| self.of(*frame) == Some(*place);
            return 1 + frames.zip(at + 1..).take_while(follows).count();
        }
        let Maps { empty, last, .. } = &mut *self.maps.lock();
        let at = match empty.take_this(FrameNo(*last + 1)) {
            true => *last + 1,
            false => {
                let place = empty.take(Purpose::Run);
                place.expect("there are more places than frames").0
            }
        };
        let mut put = |frame, place| {
            self.set(frame, place);
            *last = place;
        };
        put(first, at);
        let others = frames.zip(at + 1..).take_while(|&(frame, place)| {
            let goes = self.of(frame).is_none() && empty.take_this(FrameNo(place));
            if goes {
                put(frame, place);
            }
            goes
        });
        1 + others.count()
    }

    /// The memory of these frames is no more where it was: it is in their pages' regions, or given back.
    pub(super) fn vacate(&self, frames: impl Iterator<Item = FrameNo>) {
        let empty = &mut self.maps.lock().empty;
        for frame in frames {
            if let Some(place) = self.of(frame) {
                self.of[frame.index()].store(NONE, Ordering::Relaxed);
                empty.give(FrameNo(place));
            }
        }
    }
}

/// Whole blocks of the maps.
fn spare(frames_max: u32) -> Range<u32> {
    let start = frames_max.next_multiple_of(64);
    start..start + (frames_max / SPARE_SHARE).next_multiple_of(64).max(64)
}

#[cfg(test)]
mod tests;
