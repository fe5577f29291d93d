//! ARC (Megiddo and Modha, FAST 2003): two LRU lists whose lengths adapt to ghost hits.
//!
//! ```text
//!   T1 used once     ──► B1 its ghosts        p: the aim for T1. A hit in B1 raises it, one in B2 lowers it, by the
//!   T2 used again    ──► B2 its ghosts           other ghosts' length over its own, 1 at least
//! ```
//!
//! T1 and B1 together have at most `frames` pages, all four at most twice as many.

use super::Policy;
use super::lists::Lists;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

pub(super) struct Arc {
    frames: u32,
    lists: Lists<4>,
    /// Pages, not rounded.
    p: f64,
}

impl Arc {
    pub(super) fn new(pages: u32, frames: u32) -> Arc {
        Arc {
            frames,
            lists: Lists::new(pages),
            p: 0.0,
        }
    }

    /// `REPLACE` of the paper: the oldest page of T1 or T2 becomes a ghost.
    fn replace(&mut self, is_in_b2: bool) {
        let t1 = f64::from(self.lists.len(T1));
        let takes_t1 = t1 >= 1.0 && (t1 > self.p || (is_in_b2 && t1 == self.p));
        // Were T2 empty the page would have to come from T1.
        let (from, to) = match takes_t1 || self.lists.len(T2) == 0 {
            true => (T1, B1),
            false => (T2, B2),
        };
        if let Some(page) = self.lists.oldest(from) {
            self.lists.push(to, page);
        }
    }

    fn ratio(&self, other: usize, own: usize) -> f64 {
        (f64::from(self.lists.len(other)) / f64::from(self.lists.len(own))).max(1.0)
    }

    /// Case IV of the paper: the page is on none of the lists.
    fn make_room(&mut self) {
        let len = |list| self.lists.len(list);
        let (first, all) = (len(T1) + len(B1), len(T1) + len(T2) + len(B1) + len(B2));
        if first == self.frames {
            if self.lists.len(T1) < self.frames {
                self.lists.pop(B1);
                self.replace(false);
            } else {
                self.lists.pop(T1);
            }
        } else if all >= self.frames {
            if all == 2 * self.frames {
                self.lists.pop(B2);
            }
            self.replace(false);
        }
    }
}

impl Policy for Arc {
    fn access(&mut self, page: u32) -> bool {
        let to = match self.lists.list_of(page) {
            Some(T1 | T2) => {
                self.lists.push(T2, page);
                return true;
            }
            Some(B1) => {
                self.p = (self.p + self.ratio(B2, B1)).min(self.frames.into());
                self.replace(false);
                T2
            }
            Some(_) => {
                self.p = (self.p - self.ratio(B1, B2)).max(0.0);
                self.replace(true);
                T2
            }
            None => {
                self.make_room();
                T1
            }
        };
        self.lists.push(to, page);
        false
    }
}
