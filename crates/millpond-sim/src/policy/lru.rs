//! LRU: one list in order of last use.

use super::Policy;
use super::lists::Lists;

pub(super) struct Lru {
    frames: u32,
    lists: Lists<1>,
}

impl Lru {
    pub(super) fn new(pages: u32, frames: u32) -> Lru {
        Lru {
            frames,
            lists: Lists::new(pages),
        }
    }
}

impl Policy for Lru {
    fn access(&mut self, page: u32) -> bool {
        let is_hit = self.lists.has(0, page);
        if !is_hit && self.lists.len(0) == self.frames {
            self.lists.pop(0);
        }
        self.lists.push(0, page);
        is_hit
    }
}
