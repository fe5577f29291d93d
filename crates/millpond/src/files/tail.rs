//! The last page of a file that is becoming longer.

use std::sync::atomic::{AtomicU64, Ordering};

/// The last page of a file while its length changes: no thread may open it in a mapping, for what is stored there behind the
/// old end would be the file's. One at a time: the thread that makes the file longer keeps others from changing the length.
///
/// SeqCst: a thread that has made a page its own and then finds nothing here did so before the page is looked for.
pub(crate) struct Tail(AtomicU64);

const NONE: u64 = u64::MAX;

impl Default for Tail {
    fn default() -> Tail {
        Tail(AtomicU64::new(NONE))
    }
}

impl Tail {
    /// Whether the page is that one.
    pub(crate) fn is(&self, page: u64) -> bool {
        self.0.load(Ordering::SeqCst) == page
    }

    /// It is this page.
    pub(crate) fn keep(&self, page: u64) -> Kept<'_> {
        self.0.store(page, Ordering::SeqCst);
        Kept(self)
    }
}

/// Until it is dropped the page stays shut.
#[must_use]
pub(crate) struct Kept<'a>(&'a Tail);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.0.store(NONE, Ordering::SeqCst);
    }
}
