//! OPT: evicts the page whose next use is furthest away (Belady 1966). It needs all uses beforehand.
//!
//! It does not consider which uses need a page's content, so its misses are minimal only for read-only loads.

use super::{Policy, Use};
use std::collections::BinaryHeap;

/// Not used again.
const NEVER: u32 = u32::MAX;

pub(super) struct Opt {
    frames: u32,
    /// When each use's page is used next.
    next: Vec<u32>,
    /// The next use.
    at: usize,
    /// For each page in memory, its next use.
    resident: Vec<Option<u32>>,
    count: u32,
    /// The same in that order, with entries of earlier uses, which no longer hold.
    by_next: BinaryHeap<(u32, u32)>,
}

impl Opt {
    /// # Panics
    /// If there are 2^32 uses.
    pub(super) fn new(uses: &[Use], pages: u32, frames: u32) -> Opt {
        assert!(uses.len() < NEVER as usize, "{} uses", uses.len());
        let mut next = vec![NEVER; uses.len()];
        let mut seen = vec![NEVER; pages as usize];
        for (at, &(page, _)) in uses.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut seen[page as usize], at as u32);
        }
        Opt {
            frames,
            next,
            at: 0,
            resident: vec![None; pages as usize],
            count: 0,
            by_next: BinaryHeap::new(),
        }
    }

    fn evict(&mut self) {
        while let Some((next, page)) = self.by_next.pop() {
            if self.resident[page as usize] == Some(next) {
                self.resident[page as usize] = None;
                self.count -= 1;
                return;
            }
        }
    }
}

impl Policy for Opt {
    fn access(&mut self, page: u32) -> bool {
        let is_hit = self.resident[page as usize].is_some();
        if !is_hit {
            if self.count == self.frames {
                self.evict();
            }
            self.count += 1;
        }
        let next = self.next[self.at];
        self.at += 1;
        self.resident[page as usize] = Some(next);
        self.by_next.push((next, page));
        is_hit
    }
}
