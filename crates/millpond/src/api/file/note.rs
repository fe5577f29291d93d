//! Records calls that transfer bytes.

use super::File;
use crate::observe::trace::Note;
#[cfg(feature = "trace")]
use crate::observe::trace::{PAGES_MAX, What};

#[cfg(feature = "trace")]
impl File {
    /// Returns a note that records the call when it is dropped; `None` if the call transfers no bytes.
    #[cold]
    pub(super) fn note_bytes(&self, offset: u64, len: usize, writes: bool) -> Option<Note<'_>> {
        let engine = &self.cache.engine;
        let (size, length) = (engine.page_size.bytes(), self.len());
        let end = offset.saturating_add(len as u64);
        let end = if writes { end } else { end.min(length) };
        if offset >= end {
            return None;
        }
        let (first, last) = (offset / size, (end - 1) / size);
        if last >= PAGES_MAX {
            return None;
        }
        // What of a page was there before, and is not overwritten.
        let keeps = |page: u64| {
            let old = (page * size)..((page + 1) * size).min(length);
            old.start < old.end && (offset > old.start || end < old.end)
        };
        let what = match writes {
            false => What::Read,
            true => What::Write {
                keeps_first: keeps(first),
                keeps_last: last > first && keeps(last),
            },
        };
        engine.note(self.inner.id, (first, last - first + 1), what)
    }
}

#[cfg(not(feature = "trace"))]
impl File {
    pub(super) fn note_bytes(&self, _: u64, _: usize, _: bool) -> Option<Note<'_>> {
        None
    }
}
