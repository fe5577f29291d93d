//! What a call can do with pages.

/// What was done with some pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// They were read.
    Read,
    /// They were written, whole, but for those that are said to keep some of what they had: these had to be there first.
    Write {
        /// The first keeps some.
        keeps_first: bool,
        /// The last keeps some.
        keeps_last: bool,
    },
    /// They were asked for ahead, and not waited for.
    Prefetch,
    /// The file was made durable.
    Sync,
    /// The file was cut: the page is the first that is no more.
    Cut,
    /// The last handle was dropped, and the file's pages have left memory.
    Close,
    /// A page of a region was touched and was not there. Touches of pages that are there go unseen.
    Region,
}
