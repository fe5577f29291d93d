//! Slots of a swap file: where an anonymous page is while it has no frame.
//!
//! ```text
//!   no slot ──take──► taken, page dirty ──written──► taken, page clean ──evicted──► taken, no frame
//!      ▲                                                  │     ▲                        │ swapped in
//!      └────────────── give (changed, or unmapped) ◄──────┘     └────────────────────────┘
//! ```
//!
//! A page that was swapped in keeps its slot until it changes, so evicting it again costs no write. Slots are given out
//! in order within free runs, so pages evicted together are written as appends and come back together.
//!
//! There may be several areas, each a file or a device. As with `swapon -p`, the area with the highest priority is
//! filled first, and areas of equal priority take turns, a block of 64 slots each (Linux: a cluster of 256). The
//! numbers of two areas have an unused one between them, so that no run crosses from one area to another.

use crate::memory::free::{FreeFrames, Purpose};
use crate::units::{DeviceNo, FrameNo, PageCount};
use alloc::vec::Vec;

/// Slots of one area taken in a row before the next area gets its turn.
const TURN: u32 = 64;

/// The number of a slot, from 0: a page's position in the swap file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotNo(pub u32);

#[derive(Clone, Debug)]
struct Area {
    first: u32,
    slots: PageCount,
    priority: i16,
    device: DeviceNo,
    free: FreeFrames,
}

/// Which slots are free: one bit per slot, and some summaries. Every operation takes constant time, apart from
/// searching the summaries.
#[derive(Clone, Debug, Default)]
pub struct SwapSlots {
    /// Sorted by first slot.
    areas: Vec<Area>,
    /// The area that had the last turn, and the last slot taken.
    last: Option<(usize, SlotNo)>,
}

impl SwapSlots {
    /// An empty swap file of `slots` pages.
    pub fn new(slots: PageCount) -> SwapSlots {
        let mut swap = SwapSlots::default();
        swap.add(slots, 0, DeviceNo(0));
        swap
    }

    /// Adds an area and returns its first slot, after the previous area's slots and one unused number.
    pub fn add(&mut self, slots: PageCount, priority: i16, device: DeviceNo) -> SlotNo {
        let first = self
            .areas
            .last()
            .map_or(0, |area| area.first + area.slots.0 as u32 + 1);
        self.areas.push(Area {
            first,
            slots,
            priority,
            device,
            free: FreeFrames::new(slots),
        });
        SlotNo(first)
    }

    /// Takes a slot: the one after the last taken, if that is free and it is still its area's turn. `None`: swap is
    /// full.
    pub fn take(&mut self) -> Option<SlotNo> {
        let at = self.turn()?;
        let area = &mut self.areas[at];
        let purpose = match self.last {
            Some((last, SlotNo(slot))) if last == at => Purpose::Behind(FrameNo(slot - area.first)),
            _ => Purpose::Run,
        };
        let slot = SlotNo(area.free.take(purpose)?.0 + area.first);
        self.last = Some((at, slot));
        Some(slot)
    }

    /// The area whose turn it is, among those of the highest priority with a free slot.
    fn turn(&self) -> Option<usize> {
        let with_room = || (0..self.areas.len()).filter(|&n| !self.areas[n].free.is_empty());
        let priority = with_room().map(|n| self.areas[n].priority).max()?;
        let mut candidates = with_room().filter(|&n| self.areas[n].priority == priority);
        let Some((last, SlotNo(slot))) = self.last else {
            return candidates.next();
        };
        let is_over = (slot - self.areas[last].first) % TURN == TURN - 1;
        let behind = |n: usize| if is_over { n > last } else { n >= last };
        with_room()
            .filter(|&n| self.areas[n].priority == priority)
            .find(|&n| behind(n))
            .or_else(|| candidates.next())
    }

    /// Gives a slot back: its content is no longer needed.
    pub fn give(&mut self, slot: SlotNo) {
        let at = self.areas.partition_point(|area| area.first <= slot.0) - 1;
        let area = &mut self.areas[at];
        area.free.give(FrameNo(slot.0 - area.first));
    }

    /// The device of the slot that is taken next; that of the first slot when all are taken.
    pub fn next_device(&self) -> DeviceNo {
        let area = self.areas.get(self.turn().unwrap_or(0));
        area.map_or(DeviceNo(0), |area| area.device)
    }

    /// The device of a slot.
    pub fn device_of(&self, slot: SlotNo) -> DeviceNo {
        let at = self.areas.partition_point(|area| area.first <= slot.0) - 1;
        self.areas[at].device
    }

    /// The number of slots.
    pub fn len(&self) -> PageCount {
        self.areas
            .iter()
            .map(|area| area.slots)
            .fold(PageCount(0), |a, b| a + b)
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len() == PageCount(0)
    }

    /// Bytes used by the map.
    pub fn metadata_bytes(&self) -> u64 {
        self.areas.iter().map(|area| area.free.metadata_bytes()).sum()
    }

    fn free(&self) -> PageCount {
        self.areas
            .iter()
            .map(|area| area.free.len())
            .fold(PageCount(0), |a, b| a + b)
    }

    /// Slots taken.
    pub fn taken(&self) -> PageCount {
        self.len() - self.free()
    }

    /// Whether no slot is free.
    pub fn is_full(&self) -> bool {
        self.free() == PageCount(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_one_another_and_come_back() {
        let mut swap = SwapSlots::new(PageCount(128));
        let taken: alloc::vec::Vec<_> = (0..100).map(|_| swap.take().unwrap().0).collect();
        assert!(taken.windows(2).all(|pair| pair[1] == pair[0] + 1), "{taken:?}");
        assert_eq!(swap.taken(), PageCount(100));
        taken.iter().for_each(|&slot| swap.give(SlotNo(slot)));
        assert_eq!(swap.taken(), PageCount(0));
    }

    #[test]
    fn a_full_swap_says_so() {
        let mut swap = SwapSlots::new(PageCount(3));
        (0..3).for_each(|_| assert!(swap.take().is_some()));
        assert!(swap.is_full() && swap.take().is_none());
    }

    #[test]
    fn the_highest_priority_is_filled_first_and_equals_take_turns_in_blocks() {
        let mut swap = SwapSlots::new(PageCount(256));
        let second = swap.add(PageCount(128), 5, DeviceNo(0));
        let third = swap.add(PageCount(128), 5, DeviceNo(0));
        assert_eq!((second, third), (SlotNo(257), SlotNo(257 + 129)));
        let taken: alloc::vec::Vec<_> = (0..512).map(|_| swap.take().unwrap()).collect();
        let of = |slot: &SlotNo| [SlotNo(0), second, third].partition_point(|first| first <= slot) - 1;
        let turns: alloc::vec::Vec<_> = taken
            .chunks(64)
            .map(|chunk| (of(&chunk[0]), of(&chunk[63])))
            .collect();
        assert_eq!(
            turns,
            [(1, 1), (2, 2), (1, 1), (2, 2), (0, 0), (0, 0), (0, 0), (0, 0)]
        );
        assert!(swap.is_full() && swap.take().is_none());
        swap.give(SlotNo(third.0 + 7));
        swap.give(SlotNo(9));
        assert_eq!(swap.take(), Some(SlotNo(third.0 + 7)));
        assert_eq!(swap.take(), Some(SlotNo(9)));
        assert_eq!((swap.len(), swap.taken()), (PageCount(512), PageCount(512)));
    }
}
