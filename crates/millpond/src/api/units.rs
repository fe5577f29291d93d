//! Sizes, counts and spans of time as types of their own, so that bytes are not taken for pages.
//!
//! They are in options, counters and figures. Calls of [`File`](crate::File) and [`Builder`](crate::Builder) take plain
//! numbers of bytes, and a [`Duration`](std::time::Duration).
//!
//! ```
//! use millpond::units::{Bytes, PageCount, PageSize};
//! assert_eq!(Bytes(10_000).to_pages(PageSize::KIB_4), PageCount(2)); // as many as fit
//! ```

pub use millpond_core::units::{Bytes, Instant, Nanos, PageCount, PageSize, Ratio};
