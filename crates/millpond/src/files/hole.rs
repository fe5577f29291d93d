//! The pages of a file that are on their way out.

use crate::frames::table::{ExclusivePin, Table};
use crate::sys::arena::Arena;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The pages of a file that are on their way out, for threads that would change them. One range at a time:
/// the thread that makes the hole keeps others from changing the length.
///
/// SeqCst: a writer that has locked a page and then finds no hole here locked it before the maker of the hole
/// looks for pages in use. The two numbers need not be read at once for that: a writer that sees an old one
/// has looked before.
#[derive(Default)]
pub(crate) struct Hole {
    first: AtomicU64,
    end: AtomicU64,
}

impl Hole {
    /// Whether the page, which the caller has locked to change it, is on its way out. If so the caller
    /// releases it and waits until no thread changes the length. A page that was locked counts as changed and
    /// stays, so it must not keep the content that is to go. If it was changed before, that content is out
    /// already or will be taken out.
    pub(crate) fn takes(&self, page: u64, pin: &mut ExclusivePin<&Table<Arena>>) -> bool {
        let is_in = self.has(page);
        if is_in && pin.first_dirty() {
            pin.fill(0);
        }
        is_in
    }

    /// Whether the page is, of which the caller has seen to it that no other thread uses it.
    pub(crate) fn has(&self, page: u64) -> bool {
        self.first.load(Ordering::SeqCst) <= page && page < self.end.load(Ordering::SeqCst)
    }

    pub(crate) fn make(&self, pages: &Range<u64>) -> Making<'_> {
        self.first.store(pages.start, Ordering::SeqCst);
        self.end.store(pages.end, Ordering::SeqCst);
        Making(self)
    }
}

/// Until it is dropped the pages are on their way out.
pub(crate) struct Making<'a>(&'a Hole);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::SeqCst);
    }
}
