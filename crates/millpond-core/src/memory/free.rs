//! The free frames, as a bitmap, so that neighboring pages of a file get neighboring frames.
//!
//! ```text
//!   blocks   1111…1  0000…0  0110…1  1111…1     64 frames a word; a set bit is a free frame
//!   some        1       0       1       1       blocks with a free frame
//!   whole       1       0       0       1       blocks that are free as a whole
//! ```
//!
//! A page that follows the last one of its file gets the next frame if that is free, so a write of 1 MiB is one range
//! of memory. A device takes a limited number of ranges per request (254 on many) and splits a request that has 256.
//! Other runs start in whole blocks, and single pages fill broken ones, so that blocks stay whole (like FreeBSD's
//! reservations, `vm_reserv.c`). Where pages are exchanged with regions, an engine may keep a frame's memory anywhere,
//! and the same map says which of those locations are free.
//!
//! Both searches start where they last ended and wrap around. They look at one bit in 64 frames: 64 words for 1 GiB.

use crate::mutation::{self, Mutation};
use crate::units::{FrameNo, PageCount};
use alloc::vec::Vec;

/// Frames of a block.
const BLOCK: u64 = 64;

/// What a frame is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A single page.
    Single,
    /// The first of several consecutive pages.
    Run,
    /// The page after the one in this frame.
    Behind(FrameNo),
}

/// Frames that hold nothing, and frames withdrawn when the pool shrank.
#[derive(Clone, Debug, Default)]
pub struct FreeFrames {
    /// Frames that have a bit in the map.
    frames: u64,
    blocks: Vec<u64>,
    some: Vec<u64>,
    whole: Vec<u64>,
    free: u64,
    /// The blocks where the next searches start: for a whole one, and for any.
    run_from: usize,
    single_from: usize,
    withdrawn: Vec<u32>,
}

impl FreeFrames {
    /// Frames `0..frames`, all free.
    pub fn new(frames: PageCount) -> FreeFrames {
        let mut free = FreeFrames::default();
        free.extend(frames);
        free
    }

    /// Adds the frames from the current end up to `frames`, all free.
    pub fn extend(&mut self, frames: PageCount) {
        let first = self.frames;
        self.widen(frames);
        (first..frames.0).for_each(|frame| self.set(frame as u32));
    }

    /// Adds the frames from the current end up to `frames`, none free.
    pub fn widen(&mut self, frames: PageCount) {
        self.frames = self.frames.max(frames.0);
        let blocks = self.frames.div_ceil(BLOCK) as usize;
        self.blocks.resize(blocks, 0);
        self.some.resize(blocks.div_ceil(64), 0);
        self.whole.resize(blocks.div_ceil(64), 0);
    }

    /// The number of free frames.
    #[inline]
    pub fn len(&self) -> PageCount {
        PageCount(self.free)
    }

    /// Whether none is free.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.free == 0
    }

    fn set(&mut self, frame: u32) {
        let (block, bit) = ((frame / 64) as usize, 1 << (frame % 64));
        debug_assert_eq!(self.blocks[block] & bit, 0, "frame {frame} is free already");
        self.blocks[block] |= bit;
        self.free += 1;
        self.summarize(block);
    }

    fn clear(&mut self, frame: u32) {
        let (block, bit) = ((frame / 64) as usize, 1 << (frame % 64));
        self.blocks[block] &= !bit;
        self.free -= 1;
        self.summarize(block);
    }

    fn summarize(&mut self, block: usize) {
        let (word, bit) = (block / 64, 1 << (block % 64));
        match self.blocks[block] {
            0 => self.some[word] &= !bit,
            _ => self.some[word] |= bit,
        }
        match self.blocks[block] {
            u64::MAX => self.whole[word] |= bit,
            _ => self.whole[word] &= !bit,
        }
    }

    /// Whether the frame is free.
    #[inline]
    pub fn contains(&self, frame: FrameNo) -> bool {
        self.is_free(frame.0)
    }

    /// Takes this frame. Returns whether it was free.
    #[inline]
    pub fn take_this(&mut self, frame: FrameNo) -> bool {
        let is_free = self.is_free(frame.0);
        if is_free {
            self.clear(frame.0);
        }
        is_free
    }

    fn is_free(&self, frame: u32) -> bool {
        let block = self.blocks.get((frame / 64) as usize);
        block.is_some_and(|block| block & 1 << (frame % 64) != 0)
    }

    /// Takes a free frame.
    #[inline]
    pub fn take(&mut self, purpose: Purpose) -> Option<FrameNo> {
        let frame = match purpose {
            Purpose::Behind(frame) if self.is_free(frame.0 + 1) => frame.0 + 1,
            Purpose::Single => self.find_single()?,
            Purpose::Run | Purpose::Behind(_) => self.find_run()?,
        };
        if !mutation::is(Mutation::FrameTwice) {
            self.clear(frame);
        }
        Some(FrameNo(frame))
    }

    /// The first frame of a whole block; any free frame if there is none.
    fn find_run(&mut self) -> Option<u32> {
        match next_set(|word| self.whole[word], self.whole.len(), self.run_from) {
            Some(block) => {
                self.run_from = block + 1;
                Some(block as u32 * 64)
            }
            None => self.find_single(),
        }
    }

    /// A frame of a broken block; any free frame if there is none.
    fn find_single(&mut self) -> Option<u32> {
        let broken = |word: usize| self.some[word] & !self.whole[word];
        let block = next_set(broken, self.some.len(), self.single_from)
            .or_else(|| next_set(|word| self.some[word], self.some.len(), self.single_from))?;
        self.single_from = block;
        Some(block as u32 * 64 + self.blocks[block].trailing_zeros())
    }

    /// Gives a frame back.
    ///
    /// # Panics
    /// With debug assertions, if it is already free.
    #[inline]
    pub fn give(&mut self, frame: FrameNo) {
        self.set(frame.0);
    }

    /// Withdraws a frame because the pool shrinks.
    pub fn withdraw(&mut self) -> Option<FrameNo> {
        let frame = self.take(Purpose::Single)?;
        self.withdrawn.push(frame.0);
        Some(frame)
    }

    /// Puts a withdrawn frame back into use, if there is one.
    pub fn restore(&mut self) -> Option<FrameNo> {
        let frame = self.withdrawn.pop()?;
        self.set(frame);
        Some(FrameNo(frame))
    }

    /// The free frames in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = FrameNo> + '_ {
        (0..self.frames as u32).filter(|&n| self.is_free(n)).map(FrameNo)
    }

    /// The number of withdrawn frames.
    pub fn withdrawn(&self) -> PageCount {
        PageCount(self.withdrawn.len() as u64)
    }

    /// Bytes used by the map.
    pub fn metadata_bytes(&self) -> u64 {
        let words = self.blocks.capacity() + self.some.capacity() + self.whole.capacity();
        (words * size_of::<u64>() + self.withdrawn.capacity() * size_of::<u32>()) as u64
    }

    /// Recomputes the summaries and the count.
    ///
    /// # Panics
    /// If one is wrong.
    pub fn validate(&self) {
        let mut free = 0;
        for (n, &block) in self.blocks.iter().enumerate() {
            free += u64::from(block.count_ones());
            let of = |summary: &[u64]| summary[n / 64] & 1 << (n % 64) != 0;
            assert_eq!(of(&self.some), block != 0, "some of block {n}");
            assert_eq!(of(&self.whole), block == u64::MAX, "whole block {n}");
        }
        assert_eq!(free, self.free, "free frames in all");
    }
}

/// The next set bit among `words` words from bit `from` on, wrapping around.
fn next_set(word: impl Fn(usize) -> u64, words: usize, from: usize) -> Option<usize> {
    if words == 0 {
        return None;
    }
    let (start, bit) = (from / 64 % words, from % 64);
    let ahead = word(start) & u64::MAX << bit;
    if ahead != 0 {
        return Some(start * 64 + ahead.trailing_zeros() as usize);
    }
    (1..=words)
        .map(|n| (start + n) % words)
        .find(|&n| word(n) != 0)
        .map(|n| n * 64 + word(n).trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(free: &mut FreeFrames, purpose: Purpose) -> u32 {
        let frame = free.take(purpose).expect("a frame is free");
        free.validate();
        frame.0
    }

    #[test]
    fn pages_that_follow_one_another_get_frames_that_do() {
        let mut free = FreeFrames::new(PageCount(256));
        let mut at = free.take(Purpose::Run).unwrap();
        for _ in 1..256 {
            let next = free.take(Purpose::Behind(at)).unwrap();
            assert_eq!(next.0, at.0 + 1);
            at = next;
        }
        assert_eq!(free.take(Purpose::Behind(at)), None);
        // Given back in any order, they are a run again.
        (0..256).rev().for_each(|n| free.give(FrameNo(n)));
        let first = taken(&mut free, Purpose::Run);
        assert_eq!(taken(&mut free, Purpose::Behind(FrameNo(first))), first + 1);
    }

    #[test]
    fn single_pages_fill_up_broken_blocks_and_runs_begin_in_whole_ones() {
        let mut free = FreeFrames::new(PageCount(192));
        assert_eq!(taken(&mut free, Purpose::Single), 0);
        assert_eq!(taken(&mut free, Purpose::Run), 64);
        assert_eq!(taken(&mut free, Purpose::Single), 1);
        assert_eq!(taken(&mut free, Purpose::Single), 2);
        assert_eq!(taken(&mut free, Purpose::Run), 128);
        // No whole block is left: what there is.
        let rest = taken(&mut free, Purpose::Run);
        assert!(rest < 192, "{rest}");
    }

    #[test]
    fn every_frame_goes_out_once_and_comes_back() {
        let mut free = FreeFrames::new(PageCount(100));
        let mut all: Vec<u32> = (0..100)
            .map(|n| {
                let purpose = [Purpose::Single, Purpose::Run, Purpose::Behind(FrameNo(n))];
                taken(&mut free, purpose[n as usize % 3])
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert!(free.is_empty() && free.take(Purpose::Run).is_none());
        all.iter().for_each(|&n| free.give(FrameNo(n)));
        assert_eq!(free.len(), PageCount(100));
        free.extend(PageCount(130));
        assert_eq!(free.iter().count(), 130);
    }

    #[test]
    fn a_frame_that_is_named_is_taken_if_it_is_free() {
        let mut free = FreeFrames::default();
        free.widen(PageCount(130));
        assert!(free.is_empty() && free.take(Purpose::Run).is_none());
        (64..130).for_each(|n| free.give(FrameNo(n)));
        assert!(free.contains(FrameNo(70)) && free.take_this(FrameNo(70)));
        assert!(!free.contains(FrameNo(70)) && !free.take_this(FrameNo(70)));
        assert!(!free.take_this(FrameNo(63)) && !free.take_this(FrameNo(1 << 20)));
        free.validate();
        assert_eq!(free.len(), PageCount(65));
    }

    #[test]
    fn withdrawn_frames_come_back_when_the_pool_grows() {
        let mut free = FreeFrames::new(PageCount(2));
        let gone = free.withdraw().unwrap();
        assert_eq!((free.len(), free.withdrawn()), (PageCount(1), PageCount(1)));
        assert_eq!(free.restore(), Some(gone));
        assert_eq!(free.restore(), None);
        assert_eq!(free.len(), PageCount(2));
    }
}
