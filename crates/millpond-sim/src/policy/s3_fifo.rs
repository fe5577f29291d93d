//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023): three queues in order of arrival.
//!
//! ```text
//!   new ──► small, 10 % ──used twice──► main, 90 %     used: another round, its count less one
//!             │ else                      ▲ │ else gone
//!             ▼                           │
//!           ghosts, as many as main ──────┘ comes back
//! ```
//!
//! As in its authors' simulator, new pages go to main while memory fills and small is full, and main evicts only when
//! it is above its share or small is empty.

use super::Policy;
use super::lists::Lists;

/// Uses are counted up to this.
const USES_MAX: u8 = 3;
/// This many uses in small move a page to main.
const USES_TO_MAIN: u8 = 2;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

pub(super) struct S3Fifo {
    frames: u32,
    small_max: u32,
    ghosts_max: u32,
    has_evicted: bool,
    lists: Lists<3>,
    uses: Vec<u8>,
}

impl S3Fifo {
    pub(super) fn new(pages: u32, frames: u32) -> S3Fifo {
        S3Fifo {
            frames,
            small_max: (frames / 10).max(1),
            ghosts_max: (u64::from(frames) * 9 / 10) as u32,
            has_evicted: false,
            lists: Lists::new(pages),
            uses: vec![0; pages as usize],
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
            if std::mem::take(&mut self.uses[page as usize]) >= USES_TO_MAIN {
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
        while let Some(page) = self.lists.pop(MAIN) {
            let uses = &mut self.uses[page as usize];
            if *uses == 0 {
                return;
            }
            *uses -= 1;
            self.lists.push(MAIN, page);
        }
    }
}

impl Policy for S3Fifo {
    fn access(&mut self, page: u32) -> bool {
        let list = self.lists.list_of(page);
        if let Some(SMALL | MAIN) = list {
            let uses = &mut self.uses[page as usize];
            *uses = (*uses + 1).min(USES_MAX);
            return true;
        }
        // The ghost is gone before room is made, which may need its place.
        self.lists.remove(page);
        while self.lists.len(SMALL) + self.lists.len(MAIN) == self.frames {
            self.evict();
        }
        let is_small_full = self.lists.len(SMALL) >= self.small_max;
        let to_main = list.is_some() || (!self.has_evicted && is_small_full);
        self.lists.push(if to_main { MAIN } else { SMALL }, page);
        self.uses[page as usize] = 0;
        false
    }
}
