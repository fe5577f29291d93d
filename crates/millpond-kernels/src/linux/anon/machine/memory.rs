//! Frames and the four lists of a node: what happens to one page at a time.
//!
//! ```text
//!   enter ─► inactive ◄── deactivate_coldest ── active     of files, and of anonymous pages
//!               │ meet: reclaim::reference                 whether a shadow makes it active: lru::anon::shadow
//!               ▼
//!   put_back · activate · leave
//! ```
//!
//! The toys drive this page by page; the machine in batches.

use super::counters::Counters;
use crate::linux::anon::shadow::{Ages, Lengths, Refault, Shadow};
use crate::linux::anon::split::Costs;
use crate::linux::anon::{AnonRules, Balance, Entry};
use crate::linux::reference::{self, Bits, Reference};
use millpond_core::list::Lists;
use millpond_core::page::PageKind;
use millpond_core::units::FrameNo;

/// Nothing: of a frame, a slot or a page.
pub(super) const NONE: u32 = u32::MAX;

pub(super) const ANONYMOUS: u16 = 1;
/// The processor has used a mapping of it.
pub(super) const YOUNG: u16 = 1 << 1;
pub(super) const REFERENCED: u16 = 1 << 2;
/// Its slot, if any, holds something else.
pub(super) const DIRTY: u16 = 1 << 3;
pub(super) const WRITING: u16 = 1 << 4;
/// It was active once.
pub(super) const WORKINGSET: u16 = 1 << 5;
/// Being read.
pub(super) const LOADING: u16 = 1 << 6;
/// In the swap cache only: the next use is a minor fault.
pub(super) const UNMAPPED: u16 = 1 << 7;
/// Read ahead, and not used since.
pub(super) const AHEAD: u16 = 1 << 8;
/// The next victim when its write ends.
pub(super) const TAGGED: u16 = 1 << 9;
/// Its owner has given it up while it was under way; free when that ends.
pub(super) const DEAD: u16 = 1 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) page: u32,
    pub(super) flags: u16,
}

pub(super) const fn list_of(kind: PageKind, is_active: bool) -> usize {
    2 * kind as usize + is_active as usize
}

/// The state of a page that came back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Comes {
    pub(super) activate: bool,
    pub(super) workingset: bool,
}

/// The frames of a node.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) rules: AnonRules,
    pub(super) ages: Ages,
    pub(super) costs: Costs,
    pub(super) counters: Counters,
    frames: Vec<Frame>,
    free: Vec<u32>,
    lists: Lists<4>,
    /// The list of a frame, or [`OFF`].
    on: Vec<u8>,
}

const OFF: u8 = u8::MAX;

impl Memory {
    pub(super) fn new(rules: AnonRules, frames: u32) -> Memory {
        Memory {
            rules,
            ages: Ages::default(),
            costs: Costs::default(),
            counters: Counters::default(),
            frames: vec![Frame { page: NONE, flags: 0 }; frames as usize],
            free: (0..frames).rev().collect(),
            lists: Lists::new(frames as usize),
            on: vec![OFF; frames as usize],
        }
    }

    pub(super) fn free(&self) -> u64 {
        self.free.len() as u64
    }

    pub(super) fn frame(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    pub(super) fn kind(&self, frame: u32) -> PageKind {
        match self.frames[frame as usize].flags & ANONYMOUS {
            0 => PageKind::File,
            _ => PageKind::Anonymous,
        }
    }

    pub(super) fn lengths(&self) -> Lengths {
        let len = |kind, is_active| self.lists.len(list_of(kind, is_active));
        Lengths {
            inactive: PageKind::ALL.map(|kind| len(kind, false)),
            active: PageKind::ALL.map(|kind| len(kind, true)),
        }
    }

    /// The pages of a list, the next victim first.
    pub(super) fn pages(&self, kind: PageKind, is_active: bool) -> impl Iterator<Item = u32> + '_ {
        let list = self.lists.iter_from_cold(list_of(kind, is_active));
        list.map(|frame| self.frames[frame.index()].page)
    }

    /// A frame for `page`, on no list yet.
    pub(super) fn take(&mut self, page: u32, flags: u16) -> Option<u32> {
        let frame = self.free.pop()?;
        self.frames[frame as usize] = Frame { page, flags };
        Some(frame)
    }

    /// A frame that is on no list is free.
    pub(super) fn give(&mut self, frame: u32) {
        debug_assert_eq!(self.on[frame as usize], OFF, "frame {frame} is on a list");
        self.frames[frame as usize] = Frame { page: NONE, flags: 0 };
        self.free.push(frame);
    }

    pub(super) fn is_on_list(&self, frame: u32) -> bool {
        self.on[frame as usize] != OFF
    }

    pub(super) fn is_active(&self, frame: u32) -> bool {
        self.on[frame as usize] != OFF && self.on[frame as usize] & 1 == 1
    }

    pub(super) fn push_warm(&mut self, frame: u32, kind: PageKind, is_active: bool) {
        let list = list_of(kind, is_active);
        self.on[frame as usize] = list as u8;
        self.lists.push_warm(list, FrameNo(frame));
    }

    /// The next victim whatever list it is on (`rotate_reclaimable_page`).
    pub(super) fn rotate_to_cold(&mut self, frame: u32) {
        self.take_off(frame);
        let list = list_of(self.kind(frame), false);
        self.on[frame as usize] = list as u8;
        self.lists.push_cold(list, FrameNo(frame));
    }

    pub(super) fn take_off(&mut self, frame: u32) {
        let on = std::mem::replace(&mut self.on[frame as usize], OFF);
        if on != OFF {
            self.lists.remove(usize::from(on), FrameNo(frame));
        }
    }

    pub(super) fn pop_cold(&mut self, kind: PageKind, is_active: bool) -> Option<u32> {
        let frame = self.lists.pop_cold(list_of(kind, is_active))?.0;
        self.on[frame as usize] = OFF;
        Some(frame)
    }

    /// `lru_cache_add`: a page enters a list, and is counted by the rule of rotations.
    pub(super) fn enter(&mut self, frame: u32, comes: Comes, is_new: bool) {
        let kind = self.kind(frame);
        let starts_active = is_new && kind == PageKind::Anonymous && self.rules.entry == Entry::Active;
        if comes.workingset {
            self.frame(frame).flags |= WORKINGSET;
        }
        let is_active = starts_active || comes.activate;
        self.push_warm(frame, kind, is_active);
        self.costs.stat.scanned(kind, 1);
        let rotates = is_new && kind == PageKind::Anonymous && self.rules.new_counts_as_rotated;
        if is_active || rotates {
            self.costs.stat.rotated(kind, 1);
        }
    }

    /// A page on an inactive list becomes active outside of a scan (`activate_page`).
    pub(super) fn activate(&mut self, frame: u32) {
        if !self.is_on_list(frame) || self.is_active(frame) {
            return;
        }
        let kind = self.kind(frame);
        self.take_off(frame);
        self.push_warm(frame, kind, true);
        self.counters.pgactivate += 1;
        self.costs.stat.scanned(kind, 1);
        self.costs.stat.rotated(kind, 1);
    }

    /// The verdict of a returning page's shadow.
    pub(super) fn refault(&mut self, kind: PageKind, shadow: u64, swap_has_room: bool) -> Comes {
        let Some(shadow) = Shadow::from_bits(shadow) else {
            return Comes::default();
        };
        let (rules, lengths) = (self.rules, self.lengths());
        let said: Refault = self.ages.refault(&rules, kind, shadow, &lengths, swap_has_room);
        self.counters.workingset_refault[kind as usize] += 1;
        self.counters.workingset_activate[kind as usize] += u64::from(said.activate);
        self.counters.workingset_restore[kind as usize] += u64::from(said.restore);
        if said.restore {
            self.costs.note(&rules, kind, 1, 0, lengths.all());
        }
        Comes {
            activate: said.activate,
            workingset: said.restore,
        }
    }

    /// One page at the cold end of the active list goes to the inactive one (`shrink_active_list`). `false`: there is none.
    pub(super) fn deactivate_coldest(&mut self, kind: PageKind) -> bool {
        let Some(frame) = self.pop_cold(kind, true) else {
            return false;
        };
        self.counters.pgdeactivate += 1;
        self.costs.stat.scanned(kind, 1);
        let keeps_use = kind == PageKind::Anonymous && self.rules.use_survives_deactivation;
        let page = &mut self.frames[frame as usize];
        if keeps_use {
            page.flags &= !REFERENCED;
        } else if page.flags & YOUNG != 0 {
            page.flags &= !YOUNG;
            self.costs.stat.rotated(kind, 1);
            if self.rules.balance == Balance::CostOfIo {
                let (rules, lru_pages) = (self.rules, self.lengths().all());
                self.costs.note(&rules, kind, 0, 1, lru_pages);
            }
        }
        self.frames[frame as usize].flags |= WORKINGSET;
        self.push_warm(frame, kind, false);
        true
    }

    /// Whether a page that no thread holds is in use; its marks are read and set anew.
    pub(super) fn meet(&mut self, frame: u32) -> Reference {
        let kind = self.kind(frame);
        let rescues = self.rules.any_use_rescues;
        let page = self.frame(frame);
        let bits = Bits {
            young: u8::from(page.flags & YOUNG != 0),
            referenced: page.flags & REFERENCED != 0,
            executable: false,
        };
        let (answer, referenced) = reference::check(kind, bits, rescues);
        page.flags &= !(YOUNG | REFERENCED);
        if referenced {
            page.flags |= REFERENCED;
        }
        answer
    }

    /// A page found in use at the cold end becomes active.
    pub(super) fn promote(&mut self, frame: u32) {
        let kind = self.kind(frame);
        self.push_warm(frame, kind, true);
        self.counters.pgactivate += 1;
        self.costs.stat.rotated(kind, 1);
        let rules = self.rules;
        self.ages.activated(&rules, kind, 1);
        if rules.balance == Balance::CostOfIo {
            let lru_pages = self.lengths().all();
            self.costs.note(&rules, kind, 0, 1, lru_pages);
        }
    }

    /// A page that is on no list leaves memory: its shadow's bits, 0 for none.
    pub(super) fn leave(&mut self, frame: u32) -> u64 {
        let kind = self.kind(frame);
        let flags = self.frame(frame).flags;
        self.give(frame);
        if flags & AHEAD != 0 && kind == PageKind::Anonymous && self.rules.groupless_is_forgotten {
            return 0;
        }
        let rules = self.rules;
        let shadow = self.ages.evicted(&rules, kind, flags & WORKINGSET != 0);
        shadow.map_or(0, Shadow::to_bits)
    }

    /// Checks lists and lengths.
    ///
    /// # Panics
    /// If something does not agree.
    pub(super) fn validate(&self) {
        self.lists.validate();
        let on = self.on.iter().filter(|&&on| on != OFF).count() as u64;
        assert_eq!(on, self.lengths().all(), "frames on lists");
        for &frame in &self.free {
            assert_eq!(self.on[frame as usize], OFF, "free frame {frame} is on a list");
        }
    }
}
