//! The pages of a file that are on their way out, in memory and on the device.
//!
//! ```text
//!   made       threads that would change one of them stand back and wait; none is opened in a mapping; none of them goes to
//!              the device
//!   narrowed   the device has agreed: the same of those that are still in use, and of no others
//!   dropped    they are gone, or the device has refused and they are as they were
//! ```
//!
//! The thread that makes the hole waits in between for those that had begun (`engine/driver/quiet.rs`).

use millpond_core::mutation::{self, Mutation};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The pages of a file that are on their way out, for threads that would change or write them. One range at a time:
/// the thread that makes the hole keeps others from changing the length.
///
/// SeqCst, and a fence behind the stores: a thread that has locked a page and then finds no hole here locked it before the
/// maker of the hole looks for pages in use. The two numbers need not be read at once for that: a thread that sees an old
/// one has looked before.
#[derive(Default)]
pub(crate) struct Hole {
    first: AtomicU64,
    end: AtomicU64,
    /// The only ones of the range, once it is narrowed.
    left: Mutex<Option<BTreeSet<u64>>>,
    changed: Condvar,
}

impl Hole {
    fn is_in_range(&self, page: u64) -> bool {
        self.first.load(Ordering::SeqCst) <= page && page < self.end.load(Ordering::SeqCst)
    }

    /// Whether the page is on its way out. Its content stays as it is then, since the device may refuse: a thread that has
    /// locked it lets go of it unchanged, and waits.
    pub(crate) fn has(&self, page: u64) -> bool {
        self.is_in_range(page) && self.left.lock().as_ref().is_none_or(|left| left.contains(&page))
    }

    /// How many pages from this one on are not being dropped.
    pub(crate) fn pages_before(&self, page: u64) -> u64 {
        let (first, end) = (self.first.load(Ordering::SeqCst), self.end.load(Ordering::SeqCst));
        if page >= end {
            return u64::MAX;
        }
        match self.left.lock().as_ref() {
            None => first.saturating_sub(page),
            Some(left) => left.range(page..).next().map_or(u64::MAX, |next| next - page),
        }
    }

    /// How many pages from this one on may not be written now; 0: this one may. For the holder of the core lock.
    pub(crate) fn keeps(&self, page: u64) -> u64 {
        if !self.is_in_range(page) || mutation::is(Mutation::HoleIsWritten) {
            return 0;
        }
        match self.left.lock().as_ref() {
            None => self.end.load(Ordering::SeqCst).saturating_sub(page),
            Some(left) => left.contains(&page).into(),
        }
    }

    /// Waits until the page is not on its way out. The caller holds no page.
    pub(crate) fn wait(&self, page: u64) {
        let mut left = self.left.lock();
        while self.is_in_range(page) && left.as_ref().is_none_or(|left| left.contains(&page)) {
            self.changed.wait(&mut left);
        }
    }

    pub(crate) fn make(&self, pages: &Range<u64>) -> Making<'_> {
        self.set(pages.clone(), None);
        Making(self)
    }

    fn set(&self, pages: Range<u64>, left: Option<BTreeSet<u64>>) {
        let mut now = self.left.lock();
        *now = left;
        self.first.store(pages.start, Ordering::SeqCst);
        self.end.store(pages.end, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.changed.notify_all();
    }
}

/// Until it is dropped the pages are on their way out.
#[must_use]
pub(crate) struct Making<'a>(&'a Hole);

impl Making<'_> {
    /// From now on only these pages are being dropped.
    pub(crate) fn narrow(&self, left: impl Iterator<Item = u64>) {
        let left: BTreeSet<u64> = left.collect();
        match (left.first(), left.last()) {
            (Some(&first), Some(&last)) => self.0.set(first..last + 1, Some(left)),
            _ => self.0.set(0..0, None),
        }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.set(0..0, None);
    }
}
