//! Slots of a swap file: where an anonymous page is when it has no frame.
//!
//! ```text
//!   no slot ──take──► taken, page dirty ──written──► taken, page clean ──evicted──► taken, no frame
//!      ▲                                                  │     ▲                        │ swapped in
//!      └────────────── give (changed, or unmapped) ◄──────┘     └────────────────────────┘
//! ```
//!
//! A page that was swapped in keeps its slot while it does not change: taking it again then costs no write. Slots are
//! given out one behind the other in free runs, so victims of a time leave in appends and come back together.

use crate::memory::free::{FreeFrames, Purpose};
use crate::units::{FrameNo, PageCount};

/// The number of a slot, from 0: a page's place in the swap file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotNo(pub u32);

/// Which slots are free. A bit a slot and some summaries; every operation takes constant time but for looking through
/// summaries.
#[derive(Clone, Debug)]
pub struct SwapSlots {
    free: FreeFrames,
    slots: PageCount,
    last: Option<SlotNo>,
}

impl SwapSlots {
    /// A swap file of `slots` pages, empty.
    pub fn new(slots: PageCount) -> SwapSlots {
        SwapSlots {
            free: FreeFrames::new(slots),
            slots,
            last: None,
        }
    }

    /// Takes a slot, behind the one taken last if that is free. `None`: swap is full.
    pub fn take(&mut self) -> Option<SlotNo> {
        let purpose = match self.last {
            Some(SlotNo(last)) => Purpose::Behind(FrameNo(last)),
            None => Purpose::Run,
        };
        let slot = SlotNo(self.free.take(purpose)?.0);
        self.last = Some(slot);
        Some(slot)
    }

    /// Gives one back: its content is of no use any more.
    pub fn give(&mut self, slot: SlotNo) {
        self.free.give(FrameNo(slot.0));
    }

    /// How many there are.
    pub fn len(&self) -> PageCount {
        self.slots
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots == PageCount(0)
    }

    /// Bytes that this holds.
    pub fn metadata_bytes(&self) -> u64 {
        self.free.metadata_bytes()
    }

    /// Slots taken.
    pub fn taken(&self) -> PageCount {
        self.slots - self.free.len()
    }

    /// Whether a page that was swapped in should give its slot back at once: more than half are taken
    /// (`vm_swap_full` of Linux).
    pub fn is_half_full(&self) -> bool {
        self.taken().0 * 2 > self.slots.0
    }

    /// Whether none is left.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
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
        assert!(swap.is_half_full());
        taken.iter().for_each(|&slot| swap.give(SlotNo(slot)));
        assert_eq!(swap.taken(), PageCount(0));
    }

    #[test]
    fn a_full_swap_says_so() {
        let mut swap = SwapSlots::new(PageCount(3));
        (0..3).for_each(|_| assert!(swap.take().is_some()));
        assert!(swap.is_full() && swap.take().is_none());
    }
}
