//! Where in the arena the memory of each frame is, where frames are exchanged with regions.
//!
//! ```text
//!   frames    0    1    2    3          numbers, as the core gives them out
//!             │     ╲  ╱     ·          3: its page is in its region, so there is no place
//!   places    0    1    2    3    4 …   a page's worth of addresses each; some more than there are frames
//! ```
//!
//! One system call moves pages that follow one another if the places that they come from, or go to, do as
//! well, and after each call all processors that run the process are interrupted. Frames that pages get while
//! many threads read in turn are in no order. So a frame's number does not tell where it is:
//!
//! - Pages that leave their regions together get places side by side, whatever frames they have.
//! - Free frames that are granted together exchange places with other free ones, so that their places are
//!   side by side.
//!
//! A place changes only while no thread can have a right to the frame's bytes: while its page is in its
//! region, or while it is free, which takes the core lock.
//!
//! What came out of a region is *seen*: the program may have given it to a pipe or a socket, which keep it without a pin.
//! It never becomes another page's: once its frame is free it is [`Stale`], and is given back for fresh memory before the
//! frame is used again, 32 at a time.

use crate::sys::reserved::Reserved;
use millpond_core::memory::free::{FreeFrames, Purpose};
use millpond_core::units::{FrameNo, PageCount};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Frames are born this many in a row: 2 MiB of pages of 4 KiB.
const ROW: u32 = 512;

/// Places behind each row in which no frame is born. Without them few of the empty places would be side by
/// side while most of memory is in the arena.
const SPARE: u32 = 64;

/// Frames that there may be at most: 14 TiB in pages of 4 KiB, so that the places are less than 2^32.
pub(super) const FRAMES_MAX: u32 = u32::MAX / (ROW + SPARE) * ROW;

/// The place in which a frame is born.
pub(super) fn born_at(frame: u32) -> u32 {
    frame + frame / ROW * SPARE
}

/// The frames by rows.
pub(super) fn rows(frames: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let rows = frames.start / ROW..frames.end.div_ceil(ROW);
    rows.map(move |row| frames.start.max(row * ROW)..frames.end.min((row + 1) * ROW))
}

/// Bytes that the places take for each frame: two numbers, three bits with their summaries, and an eighth of
/// a place more.
pub(crate) const PLACE_BYTES: u64 = 9;

/// Places of free frames that get fresh memory with one system call. With a second thread running, a page
/// takes 13 us alone, and 2 to 4 us together with 31 others.
const STALE: usize = 32;

/// Places of free frames whose memory was seen.
#[derive(Clone, Copy, Default)]
pub(super) struct Stale {
    places: [u32; STALE],
    count: usize,
}

impl Stale {
    fn push(&mut self, place: u32) {
        self.places[self.count] = place;
        self.count += 1;
    }

    fn remove(&mut self, place: u32) {
        if let Some(at) = self.places[..self.count].iter().position(|&one| one == place) {
            self.count -= 1;
            self.places[at] = self.places[self.count];
        }
    }

    /// As runs of consecutive slots.
    pub(super) fn runs(&mut self) -> impl Iterator<Item = &[u32]> + Clone {
        let places = &mut self.places[..self.count];
        places.sort_unstable();
        places.chunk_by(|a, b| *b == a + 1)
    }
}

/// The places of an arena's frames.
pub(super) struct Places {
    /// For each frame: its slot plus one, or 0 if it has none.
    of: Reserved<AtomicU32>,
    /// For each slot in [`Maps::free`]: its frame.
    at: Reserved<AtomicU32>,
    maps: Mutex<Maps>,
}

#[derive(Default)]
struct Maps {
    /// Frames that were born.
    frames: u32,
    /// Places without memory.
    empty: FreeFrames,
    /// The slot after the one that the last page leaving its region got.
    next: u32,
    /// Places of free frames.
    free: FreeFrames,
    /// How many free frames have given their memory back, or never had any: they have places, which are not in `free`.
    given_back: usize,
    /// Places whose memory came out of a region.
    seen: FreeFrames,
    /// Those of them that belong to free frames: fewer than are refreshed at a time.
    stale: Stale,
}

impl Maps {
    /// The memory of a slot is gone, or ours alone.
    fn is_fresh(&mut self, place: u32) {
        if self.seen.take_this(FrameNo(place)) {
            self.stale.remove(place);
        }
    }

    /// The places that are to be refreshed now, and count as fresh from now on.
    fn take_stale(&mut self) -> Stale {
        let stale = std::mem::take(&mut self.stale);
        for &place in &stale.places[..stale.count] {
            self.seen.take_this(FrameNo(place));
        }
        stale
    }
}

impl Places {
    /// For at most this many frames; there are none yet.
    pub(super) fn new(frames_max: u32) -> io::Result<Places> {
        Ok(Places {
            of: Reserved::new(frames_max as usize)?,
            at: Reserved::new(born_at(frames_max) as usize)?,
            maps: Mutex::default(),
        })
    }

    /// Bytes that this holds.
    pub(super) fn metadata_bytes(&self) -> u64 {
        let maps = self.maps.lock();
        let numbers = u64::from(maps.frames) + u64::from(born_at(maps.frames));
        let bits = [&maps.empty, &maps.free, &maps.seen].map(FreeFrames::metadata_bytes);
        numbers * size_of::<u32>() as u64 + bits.iter().sum::<u64>()
    }

    /// The number of frames born.
    pub(super) fn frames(&self) -> u32 {
        self.maps.lock().frames
    }

    /// Sets the number of frames. The new ones are free. They have memory where they are born; if not, they get it when
    /// they are granted, like those that were given back.
    pub(super) fn born(&self, frames: u32, with_memory: bool) {
        let maps = &mut *self.maps.lock();
        let places = PageCount(born_at(frames).into());
        maps.empty.widen(places);
        maps.free.widen(places);
        maps.seen.widen(places);
        for frame in std::mem::replace(&mut maps.frames, frames)..frames {
            let place = born_at(frame);
            self.set(FrameNo(frame), place);
            match with_memory {
                true => self.free_is_at(&mut maps.free, place, FrameNo(frame)),
                false => maps.given_back += 1,
            }
            (place + 1..born_at(frame + 1)).for_each(|spare| maps.empty.give(FrameNo(spare)));
        }
    }

    /// The frame's place, if it has one.
    #[inline]
    pub(super) fn of(&self, frame: FrameNo) -> Option<u32> {
        self.of[frame.index()].load(Ordering::Relaxed).checked_sub(1)
    }

    fn set(&self, frame: FrameNo, place: u32) {
        self.of[frame.index()].store(place + 1, Ordering::Relaxed);
    }

    /// The memory of these frames has come out of a region.
    pub(super) fn seen(&self, frames: impl Iterator<Item = FrameNo>) {
        let seen = &mut self.maps.lock().seen;
        for place in frames.filter_map(|frame| self.of(frame)).map(FrameNo) {
            if !seen.contains(place) {
                seen.give(place);
            }
        }
    }

    /// The frame is free, or will be before the core lock is released. Returns what is to be refreshed before
    /// that, as soon as there is a batch.
    #[must_use]
    pub(super) fn freed(&self, frame: FrameNo) -> Option<Stale> {
        let place = self.of(frame)?;
        let maps = &mut *self.maps.lock();
        if maps.free.contains(FrameNo(place)) {
            return None;
        }
        self.free_is_at(&mut maps.free, place, frame);
        if maps.seen.contains(FrameNo(place)) {
            maps.stale.push(place);
        }
        (maps.stale.count == STALE).then(|| maps.take_stale())
    }

    fn free_is_at(&self, free: &mut FreeFrames, place: u32, frame: FrameNo) {
        free.give(FrameNo(place));
        self.at[place as usize].store(frame.0, Ordering::Relaxed);
    }

    /// A free frame whose memory is given back: no other frame exchanges places with it.
    pub(super) fn given_back(&self, frame: FrameNo) {
        if let Some(place) = self.of(frame) {
            let maps = &mut *self.maps.lock();
            maps.free.take_this(FrameNo(place));
            maps.is_fresh(place);
            maps.given_back += 1;
        }
    }

    /// The places of those free frames that are given back: they are to get memory now.
    pub(super) fn take_given_back(&self, frames: &[FrameNo]) -> Vec<u32> {
        let maps = &mut *self.maps.lock();
        if maps.given_back == 0 {
            return Vec::new();
        }
        let places = frames.iter().filter_map(|&frame| self.of(frame));
        let places: Vec<_> = places
            .filter(|&place| !maps.free.contains(FrameNo(place)))
            .collect();
        maps.given_back -= places.len();
        places
    }

    /// Free frames are granted to pages that follow one another: from now on their places do as well if
    /// possible, behind the place of the frame `behind`. Returns what is to be refreshed before they are
    /// used.
    #[must_use]
    pub(super) fn granted(&self, frames: &[FrameNo], behind: Option<FrameNo>) -> Option<Stale> {
        let maps = &mut *self.maps.lock();
        self.place(&mut maps.free, frames, behind);
        let places = || frames.iter().filter_map(|&frame| self.of(frame)).map(FrameNo);
        let is_due = maps.stale.count > 0 && places().any(|place| maps.seen.contains(place));
        is_due.then(|| maps.take_stale())
    }

    fn place(&self, free: &mut FreeFrames, frames: &[FrameNo], behind: Option<FrameNo>) {
        let mut last = behind.and_then(|frame| self.of(frame));
        for &frame in frames {
            let Some(own) = self.of(frame) else { continue };
            // A frame that was given back, and is used again.
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
            let other = FrameNo(self.at[place as usize].load(Ordering::Relaxed));
            if other != frame {
                self.set(frame, place);
                self.set(other, own);
                self.at[own as usize].store(other.0, Ordering::Relaxed);
            }
            last = Some(place);
        }
    }

    /// Gives consecutive slots to frames that have none. Returns for how many of them, from the
    /// first on, the slots are consecutive, including those that had one before.
    pub(super) fn put_together(&self, frames: impl Iterator<Item = FrameNo>) -> usize {
        let mut frames = frames;
        let Some(first) = frames.next() else { return 0 };
        if let Some(at) = self.of(first) {
            let follows = |(frame, place): &(FrameNo, u32)| self.of(*frame) == Some(*place);
            return 1 + frames.zip(at + 1..).take_while(follows).count();
        }
        let Maps { empty, next, .. } = &mut *self.maps.lock();
        let at = match empty.take_this(FrameNo(*next)) {
            true => *next,
            false => {
                let place = empty.take(Purpose::Run);
                place.expect("there are at least as many places as frames").0
            }
        };
        let mut put = |frame, place| {
            self.set(frame, place);
            *next = place + 1;
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

    /// The memory of these frames is no longer where it was: it is in their pages' regions, or given
    /// back.
    pub(super) fn vacate(&self, frames: impl Iterator<Item = FrameNo>) {
        let maps = &mut *self.maps.lock();
        for frame in frames {
            if let Some(place) = self.of(frame) {
                self.of[frame.index()].store(0, Ordering::Relaxed);
                maps.is_fresh(place);
                maps.empty.give(FrameNo(place));
            }
        }
    }
}

#[cfg(test)]
mod tests;
