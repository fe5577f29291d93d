//! The pages of a file that are on their way out.

use crate::frames::table::{ExclusivePin, Table};
use crate::sys::arena::Arena;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The pages of a file that are on their way out, for those who would change them. One at a time: whoever makes it keeps
/// others from changing the length.
///
/// SeqCst: a writer who has locked a page and then finds no hole here locked it before whoever makes the hole looks for
/// pages in use. The two numbers need not be read at once for that: who sees an old one has looked before.
#[derive(Default)]
pub(crate) struct Hole {
    first: AtomicU64,
    end: AtomicU64,
}

impl Hole {
    /// Whether the page, which the caller has locked to change it, is on its way out. Then he lets go of it and waits until
    /// nobody changes the length. Locked it counts as changed and stays, so that it must not have what is to go; if it was
    /// changed before, that is out already or will be taken out.
    pub(crate) fn takes(&self, page: u64, pin: &mut ExclusivePin<&Table<Arena>>) -> bool {
        let is_in = self.first.load(Ordering::SeqCst) <= page && page < self.end.load(Ordering::SeqCst);
        if is_in && pin.first_dirty() {
            pin.fill(0);
        }
        is_in
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
