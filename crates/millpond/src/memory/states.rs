//! Page states of a mapped file. They take memory only where pages were touched: a page of states for each 4 MiB of file.
//!
//! ```text
//!   first touch of a block ──► room below the limit? ──► touched
//!        │ no                                               │ oldest first
//!        ├─► the limit doubles, up to a quarter of the pages that the budget has
//!        └─► or a block leaves: its pages leave the mapping (not memory), and what was known of them goes
//! ```
//!
//! So a file of any length can be mapped within a small budget, which pays for each file's limit.

use super::covered::BLOCK;
use crate::sys::reserved::Reserved;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of blocks that a mapping may touch at once, paid for when it is made.
pub(crate) const AT_FIRST: u64 = 16;

/// The blocks of a mapped file whose pages were touched.
pub(crate) struct States {
    there: Reserved<AtomicU32>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The blocks in the order in which they were touched.
    order: VecDeque<u64>,
    /// The number of blocks that the budget pays for.
    limit: u64,
}

impl States {
    pub(crate) fn new(pages: usize) -> io::Result<States> {
        Ok(States {
            there: Reserved::new(pages.div_ceil(BLOCK as usize))?,
            list: Mutex::default(),
        })
    }

    /// Returns the block of a page.
    pub(crate) fn of(page: u64) -> u64 {
        page / BLOCK
    }

    /// Returns the pages of a block, if all of it lies within `len` pages.
    pub(crate) fn pages(block: u64, len: u64) -> Option<Range<u64>> {
        let pages = block * BLOCK..(block + 1) * BLOCK;
        (pages.end <= len).then_some(pages)
    }

    #[inline]
    pub(crate) fn is_there(&self, block: u64) -> bool {
        self.there[block as usize].load(Ordering::Relaxed) != 0
    }

    /// Returns the number of blocks of the file.
    pub(crate) fn most(&self) -> u64 {
        self.there.len() as u64
    }

    /// Returns the limit on touched blocks.
    pub(crate) fn limit(&self) -> u64 {
        self.list.lock().limit
    }

    /// Raises the limit, if `pays` agrees to the increase. The list's lock is held meanwhile.
    pub(crate) fn raise<E>(&self, limit: u64, pays: impl FnOnce(u64) -> Result<(), E>) -> Result<(), E> {
        let mut list = self.list.lock();
        let more = limit.saturating_sub(list.limit);
        if more > 0 {
            pays(more)?;
            list.limit = limit;
        }
        Ok(())
    }

    /// Adds the block, before a page of it is touched; with `beyond` even above the limit. `false`: another must leave first.
    pub(crate) fn enter(&self, block: u64, beyond: bool) -> bool {
        let mut list = self.list.lock();
        if self.is_there(block) {
            return true;
        }
        let may = beyond || (list.order.len() as u64) < list.limit;
        if may {
            self.there[block as usize].store(1, Ordering::Relaxed);
            list.order.push_back(block);
        }
        may
    }

    /// Returns the block that was touched first, and moves it to the end of the order.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let mut list = self.list.lock();
        let oldest = list.order.pop_front()?;
        list.order.push_back(oldest);
        Some(oldest)
    }

    /// Removes the block. The caller has its pages in hand.
    pub(crate) fn left(&self, block: u64) {
        let mut list = self.list.lock();
        self.there[block as usize].store(0, Ordering::Relaxed);
        if let Some(at) = list.order.iter().rposition(|&one| one == block) {
            list.order.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_enter_up_to_the_limit_and_leave_in_the_order_in_which_they_were_touched() {
        let states = States::new(10 * BLOCK as usize).unwrap();
        let pays = |more| (more == 2).then_some(()).ok_or(());
        assert_eq!((states.raise(3, pays), states.limit()), (Err(()), 0));
        assert_eq!((states.raise(2, pays), states.limit()), (Ok(()), 2));
        assert_eq!(
            [7, 3, 7, 5].map(|block| states.enter(block, false)),
            [true, true, true, false]
        );
        assert_eq!(states.oldest(), Some(7));
        states.left(7);
        assert!(states.enter(5, false) && !states.enter(7, false) && !states.is_there(7));
        assert_eq!(
            [states.oldest(), states.oldest(), states.oldest()],
            [Some(3), Some(5), Some(3)]
        );
        assert!(states.enter(1, true) && states.is_there(1));
        assert_eq!(States::pages(9, 10 * BLOCK), Some(9 * BLOCK..10 * BLOCK));
        assert_eq!(States::pages(9, 10 * BLOCK - 1), None);
    }
}
