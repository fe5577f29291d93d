//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024): CLOCK whose pages stay where they are.
//!
//! ```text
//!   newest ◄── … ◄── hand ◄── … ◄── oldest      new pages come in at the newest end
//! ```
//!
//! The hand goes from the oldest page to the newest. A page that was used keeps its place and loses its bit; the first one
//! that was not used goes, and the hand stays there. Beyond the newest page the hand begins again at the oldest.

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
