//! Slots of the swap file with what they remember of their pages.
//!
//! ```text
//!   free ─► page in memory and in the slot ─► page only in the slot: a shadow stands where the page stood
//! ```
//!
//! 64 slots are a node of the kernel's index. Nodes with nothing but shadows are bounded
//! (`lru::anon::shadow::shadow_nodes_max`); of too many, the one that is so for longest loses its shadows.

use super::memory::NONE;
use crate::linux::anon::shadow::NODE_SLOTS;
use crate::linux::vm_swap_full;
use millpond_core::swap::{SlotNo, SwapSlots};
use millpond_core::units::PageCount;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u32,
    shadow: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Node {
    in_memory: u8,
    shadows: u8,
    is_queued: bool,
}

impl Node {
    fn has_only_shadows(&self) -> bool {
        self.in_memory == 0 && self.shadows > 0
    }
}

#[derive(Debug)]
pub(super) struct Slots {
    free: SwapSlots,
    slots: Vec<Slot>,
    nodes: Vec<Node>,
    /// Nodes that had only shadows when they were put here.
    only_shadows: VecDeque<u32>,
    only_shadows_len: u64,
}

impl Slots {
    pub(super) fn new(pages: PageCount) -> Slots {
        let empty = Slot {
            page: NONE,
            shadow: 0,
        };
        Slots {
            free: SwapSlots::new(pages),
            slots: vec![empty; pages.0 as usize],
            nodes: vec![Node::default(); pages.0.div_ceil(NODE_SLOTS) as usize],
            only_shadows: VecDeque::new(),
            only_shadows_len: 0,
        }
    }

    pub(super) fn is_half_full(&self) -> bool {
        vm_swap_full(&self.free)
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_full()
    }

    pub(super) fn page(&self, slot: u32) -> u32 {
        self.slots[slot as usize].page
    }

    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Node)) {
        let number = slot / NODE_SLOTS as u32;
        let node = &mut self.nodes[number as usize];
        let before = node.has_only_shadows();
        change(node);
        let after = node.has_only_shadows();
        self.only_shadows_len = self.only_shadows_len + u64::from(after) - u64::from(before);
        if after && !node.is_queued {
            node.is_queued = true;
            self.only_shadows.push_back(number);
        }
    }

    /// A slot for a page that is in memory.
    pub(super) fn take(&mut self, page: u32) -> Option<u32> {
        let slot = self.free.take()?.0;
        self.slots[slot as usize] = Slot { page, shadow: 0 };
        self.change(slot, |node| node.in_memory += 1);
        Some(slot)
    }

    /// The slot's page is in memory again, or never left it: the slot is now empty.
    pub(super) fn give(&mut self, slot: u32, is_in_memory: bool) {
        let had_shadow = std::mem::take(&mut self.slots[slot as usize].shadow) != 0;
        self.slots[slot as usize].page = NONE;
        self.free.give(SlotNo(slot));
        self.change(slot, |node| {
            node.in_memory -= u8::from(is_in_memory);
            node.shadows -= u8::from(had_shadow);
        });
    }

    /// Its page leaves memory.
    pub(super) fn left(&mut self, slot: u32, shadow: u64) {
        self.slots[slot as usize].shadow = shadow;
        self.change(slot, |node| {
            node.in_memory -= 1;
            node.shadows += u8::from(shadow != 0);
        });
    }

    /// Its page comes into memory and stays here too. The shadow, 0 for none.
    pub(super) fn came(&mut self, slot: u32) -> u64 {
        let shadow = std::mem::take(&mut self.slots[slot as usize].shadow);
        self.change(slot, |node| {
            node.in_memory += 1;
            node.shadows -= u8::from(shadow != 0);
        });
        shadow
    }

    /// Drops shadows until at most this many nodes have nothing else; returns how many it dropped.
    pub(super) fn shrink(&mut self, nodes_max: u64) -> u64 {
        let mut dropped = 0;
        while self.only_shadows_len > nodes_max {
            let Some(number) = self.only_shadows.pop_front() else {
                break;
            };
            self.nodes[number as usize].is_queued = false;
            if !self.nodes[number as usize].has_only_shadows() {
                continue;
            }
            let from = number as usize * NODE_SLOTS as usize;
            let to = (from + NODE_SLOTS as usize).min(self.slots.len());
            self.slots[from..to].iter_mut().for_each(|slot| slot.shadow = 0);
            dropped += u64::from(self.nodes[number as usize].shadows);
            self.change(number * NODE_SLOTS as u32, |node| node.shadows = 0);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_nodes_the_oldest_loses_its_shadows() {
        let mut slots = Slots::new(PageCount(192));
        for page in 0..192 {
            let slot = slots.take(page).unwrap();
            slots.left(slot, 7);
        }
        assert_eq!(slots.shrink(3), 0);
        assert_eq!(slots.shrink(2), 64);
        assert_eq!((slots.came(0), slots.came(64)), (0, 7));
        assert_eq!(slots.shrink(1), 0, "the second holds a page again");
        assert_eq!(slots.shrink(0), 64);
        slots.give(64, true);
        assert_eq!(slots.shrink(0), 63, "and now nothing but shadows once more");
    }
}
