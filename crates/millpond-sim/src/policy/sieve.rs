//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024): CLOCK whose pages stay where they are.
//!
//! ```text
//!   newest ◄── … ◄── hand ◄── … ◄── oldest      new pages come in at the newest end
//! ```
//!
//! The hand moves from the oldest page to the newest. A used page keeps its position and loses its bit. The first
//! unused page is evicted, and the hand stays there. After the newest page the hand starts again at the oldest.

use super::Policy;
use super::lists::Lists;

pub(super) struct Sieve {
    frames: u32,
    lists: Lists<1>,
    used: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    pub(super) fn new(pages: u32, frames: u32) -> Sieve {
        Sieve {
            frames,
            lists: Lists::new(pages),
            used: vec![false; pages as usize],
            hand: None,
        }
    }

    fn evict(&mut self) {
        while let Some(page) = self.hand.or(self.lists.oldest(0)) {
            self.hand = self.lists.newer(page);
            if !std::mem::take(&mut self.used[page as usize]) {
                self.lists.remove(page);
                return;
            }
        }
    }
}

impl Policy for Sieve {
    fn access(&mut self, page: u32) -> bool {
        if self.lists.has(0, page) {
            self.used[page as usize] = true;
            return true;
        }
        if self.lists.len(0) == self.frames {
            self.evict();
        }
        self.lists.push(0, page);
        false
    }
}
