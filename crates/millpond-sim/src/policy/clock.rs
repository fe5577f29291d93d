//! CLOCK: a list in order of arrival. The hand skips a page used since it last passed, and clears its bit; it evicts
//! the first unused page. A page enters with its bit clear.

use super::Policy;
use super::lists::Lists;

pub(super) struct Clock {
    frames: u32,
    lists: Lists<1>,
    used: Vec<bool>,
}

impl Clock {
    pub(super) fn new(pages: u32, frames: u32) -> Clock {
        Clock {
            frames,
            lists: Lists::new(pages),
            used: vec![false; pages as usize],
        }
    }
}

impl Policy for Clock {
    fn access(&mut self, page: u32) -> bool {
        if self.lists.has(0, page) {
            self.used[page as usize] = true;
            return true;
        }
        if self.lists.len(0) == self.frames {
            while let Some(old) = self.lists.pop(0)
                && std::mem::take(&mut self.used[old as usize])
            {
                self.lists.push(0, old);
            }
        }
        self.lists.push(0, page);
        false
    }
}
