//! Clock2Q+ (Zhai and others, VLDB 2026): a small queue before a clock, with a correlation window.
//!
//! ```text
//!   new ──► small queue, 10 %: [ window: the newer half | older ] ──used while older──► main clock, 90 %, one bit
//!             │ else                                                                      ▲ │ not used: gone
//!             ▼                                                                           │
//!           ghosts, as many as main ──────────────────────────────────────────────────────┘ comes back
//! ```
//!
//! The window is half the length of the small queue, in insertions since the page's own. Uses of a page in it count as
//! the one that brought the page in. New pages go to main while memory fills and the small queue is full.

use super::Policy;
use super::lists::Lists;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

pub(super) struct Clock2QPlus {
    frames: u32,
    small_max: u32,
    ghosts_max: u32,
    has_evicted: bool,
    lists: Lists<3>,
    used: Vec<bool>,
    /// Insertions into the small queue, and at which of them each page came.
    inserted: u32,
    inserted_at: Vec<u32>,
}

impl Clock2QPlus {
    pub(super) fn new(pages: u32, frames: u32) -> Clock2QPlus {
        Clock2QPlus {
            frames,
            small_max: (frames / 10).max(1),
            ghosts_max: (u64::from(frames) * 9 / 10) as u32,
            has_evicted: false,
            lists: Lists::new(pages),
            used: vec![false; pages as usize],
            inserted: 0,
            inserted_at: vec![0; pages as usize],
        }
    }

    fn evict(&mut self) {
        self.has_evicted = true;
        if self.lists.len(MAIN) > self.frames - self.small_max || self.lists.len(SMALL) == 0 {
            self.evict_main();
        } else {
            self.evict_small();
        }
    }

    /// Moves pages that were used to main until one goes; none may be left.
    fn evict_small(&mut self) {
        while let Some(page) = self.lists.pop(SMALL) {
            if std::mem::take(&mut self.used[page as usize]) {
                self.lists.push(MAIN, page);
                continue;
            }
            if self.lists.len(GHOSTS) == self.ghosts_max {
                self.lists.pop(GHOSTS);
            }
            if self.ghosts_max > 0 {
                self.lists.push(GHOSTS, page);
            }
            return;
        }
    }

    fn evict_main(&mut self) {
        while let Some(page) = self.lists.pop(MAIN)
            && std::mem::take(&mut self.used[page as usize])
        {
            self.lists.push(MAIN, page);
        }
    }

    fn is_in_window(&self, page: u32) -> bool {
        let age = self.inserted.wrapping_sub(self.inserted_at[page as usize]);
        self.lists.has(SMALL, page) && age < self.small_max.div_ceil(2)
    }
}

impl Policy for Clock2QPlus {
    fn access(&mut self, page: u32) -> bool {
        let list = self.lists.list_of(page);
        if let Some(SMALL | MAIN) = list {
            self.used[page as usize] |= !self.is_in_window(page);
            return true;
        }
        self.lists.remove(page);
        while self.lists.len(SMALL) + self.lists.len(MAIN) == self.frames {
            self.evict();
        }
        let is_small_full = self.lists.len(SMALL) >= self.small_max;
        let to_main = list.is_some() || (!self.has_evicted && is_small_full);
        if !to_main {
            self.inserted = self.inserted.wrapping_add(1);
            self.inserted_at[page as usize] = self.inserted;
        }
        self.lists.push(if to_main { MAIN } else { SMALL }, page);
        self.used[page as usize] = false;
        false
    }
}
