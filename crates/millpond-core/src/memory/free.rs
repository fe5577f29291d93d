//! The free frames, as a stack: what was freed last is warm in the processor's caches and goes first.

use crate::units::{FrameNo, PageCount};
use alloc::vec::Vec;

/// Frames that hold nothing, and frames that were given back when the pool shrank.
#[derive(Clone, Debug, Default)]
pub struct FreeFrames {
    free: Vec<u32>,
    withdrawn: Vec<u32>,
}

impl FreeFrames {
    /// Frames `0..frames`, all free; the lowest number goes out first.
    pub fn new(frames: PageCount) -> FreeFrames {
        FreeFrames {
            free: (0..frames.0 as u32).rev().collect(),
            withdrawn: Vec::new(),
        }
    }

    /// How many are free.
    #[inline]
    pub fn len(&self) -> PageCount {
        PageCount(self.free.len() as u64)
    }

    /// Whether none is free.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes one.
    #[inline]
    pub fn take(&mut self) -> Option<FrameNo> {
        self.free.pop().map(FrameNo)
    }

    /// Gives one back.
    #[inline]
    pub fn give(&mut self, frame: FrameNo) {
        self.free.push(frame.0);
    }

    /// Takes one out of use: the pool shrinks.
    pub fn withdraw(&mut self) -> Option<FrameNo> {
        let frame = self.free.pop()?;
        self.withdrawn.push(frame);
        Some(FrameNo(frame))
    }

    /// Puts one that was withdrawn back into use, if there is any.
    pub fn restore(&mut self) -> Option<FrameNo> {
        let frame = self.withdrawn.pop()?;
        self.free.push(frame);
        Some(FrameNo(frame))
    }

    /// The free frames, in no order.
    pub fn iter(&self) -> impl Iterator<Item = FrameNo> + '_ {
        self.free.iter().map(|&n| FrameNo(n))
    }

    /// How many are withdrawn.
    pub fn withdrawn(&self) -> PageCount {
        PageCount(self.withdrawn.len() as u64)
    }

    /// Bytes that this holds.
    pub fn metadata_bytes(&self) -> u64 {
        ((self.free.capacity() + self.withdrawn.capacity()) * size_of::<u32>()) as u64
    }
}
