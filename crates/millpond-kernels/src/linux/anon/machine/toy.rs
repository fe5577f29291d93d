//! The machine of the post's examples: a number of pages of memory, one page out for one page in, and no time.
//!
//! ```text
//!   full?   age: while the inactive list is short, the coldest active page goes there
//!   page missing: is there a frame? · else: once more as above, then the cold end of the inactive list goes to swap
//! ```
//!
//! The use that brings a page counts as its first: a second one makes it active. The kernel's batches, water marks and
//! buffers are what the post leaves out, so they are left out here; the order of steps is chosen so that the lists are the
//! post's after each of its steps.

use super::memory::{ANONYMOUS, Memory, NONE, REFERENCED, YOUNG};
use crate::linux::anon::AnonRules;
use crate::linux::reference::Reference;
use millpond_core::page::PageKind;

const ANON: PageKind = PageKind::Anonymous;

/// A toy.
pub struct Toy {
    memory: Memory,
    /// For each page: its frame, and the shadow that it left.
    pages: Vec<(u32, u64)>,
    was_here: Vec<bool>,
    challenges: bool,
    activations_seen: u64,
}

/// The pages of both lists, from the warm end to the cold one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lists {
    /// The active one.
    pub active: Vec<u32>,
    /// The inactive one.
    pub inactive: Vec<u32>,
}

impl Toy {
    /// Memory of this many pages, all free. `challenges`: a page that comes back active lets the active list shrink, as
    /// in patch 3; the arithmetic of the post's example does without.
    pub fn new(rules: AnonRules, frames: u32, challenges: bool) -> Toy {
        Toy {
            memory: Memory::new(rules, frames),
            pages: Vec::new(),
            was_here: Vec::new(),
            challenges,
            activations_seen: 0,
        }
    }

    /// A page that has proved to be needed: it is on the active list.
    pub fn make_active(&mut self, page: u32) {
        self.use_page(page);
        let (frame, _) = self.pages[page as usize];
        self.memory.activate(frame);
    }

    /// Uses a page. Whether it had to be swapped in.
    pub fn use_page(&mut self, page: u32) -> bool {
        let number = page as usize;
        if self.pages.len() <= number {
            self.pages.resize(number + 1, (NONE, 0));
            self.was_here.resize(number + 1, false);
        }
        if self.pages[number].0 != NONE {
            self.memory.frame(self.pages[number].0).flags |= YOUNG;
            return false;
        }
        if self.memory.free() == 0 {
            self.make_room();
        }
        let shadow = std::mem::take(&mut self.pages[number].1);
        let comes = self.memory.refault(ANON, shadow, true);
        let Some(frame) = self.memory.take(page, ANONYMOUS | REFERENCED) else {
            return false;
        };
        self.pages[number].0 = frame;
        self.memory.enter(frame, comes, true);
        if self.memory.free() == 0 {
            while self.is_short() && self.memory.deactivate_coldest(ANON) {}
        }
        std::mem::replace(&mut self.was_here[number], true)
    }

    /// The lists.
    pub fn lists(&self) -> Lists {
        let list = |is_active| {
            let mut pages: Vec<u32> = self.memory.pages(ANON, is_active).collect();
            pages.reverse();
            pages
        };
        Lists {
            active: list(true),
            inactive: list(false),
        }
    }

    fn is_short(&self) -> bool {
        let lengths = self.memory.lengths();
        let (inactive, active) = (lengths.inactive[ANON as usize], lengths.active[ANON as usize]);
        self.memory.rules.may_deactivate(ANON, inactive, active, false)
    }

    fn make_room(&mut self) {
        let activations = self.memory.counters.workingset_activate[ANON as usize];
        let challenged = self.challenges && activations != self.activations_seen;
        self.activations_seen = activations;
        if self.is_short() || challenged {
            self.memory.deactivate_coldest(ANON);
        }
        while let Some(frame) = self.memory.pop_cold(ANON, false) {
            match self.memory.meet(frame) {
                Reference::Activate => self.memory.promote(frame),
                Reference::Keep => self.memory.push_warm(frame, ANON, false),
                Reference::Reclaim | Reference::ReclaimClean => {
                    let page = self.memory.frame(frame).page as usize;
                    self.pages[page] = (NONE, self.memory.leave(frame));
                    return;
                }
            }
            if self.memory.lengths().inactive[ANON as usize] == 0 {
                self.memory.deactivate_coldest(ANON);
            }
        }
    }
}
