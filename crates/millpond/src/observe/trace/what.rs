//! The kinds of recorded calls.

/// An operation on pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The pages were read.
    Read,
    /// The pages were written completely, except that the first or last may keep part of its content, which then had to
    /// be in memory first.
    Write {
        /// The first page keeps part of its content.
        keeps_first: bool,
        /// The last page keeps part of its content.
        keeps_last: bool,
    },
    /// The pages were prefetched, without waiting.
    Prefetch,
    /// The file was synced.
    Sync,
    /// The file was truncated; the page is the first one removed.
    Cut,
    /// The last handle was dropped, and the file's pages left memory.
    Close,
    /// A missing page of a region was touched. Touches of resident pages are not recorded.
    Region,
}
