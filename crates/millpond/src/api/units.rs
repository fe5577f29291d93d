//! Sizes, counts and durations as distinct types, so that bytes can't be mistaken for pages.
//!
//! Options, counters and figures use them. Calls of [`File`](crate::File) and [`Builder`](crate::Builder) take plain
//! byte counts and a [`Duration`](std::time::Duration).
//!
//! ```
//! use millpond::units::{Bytes, PageCount, PageSize};
//! assert_eq!(Bytes(10_000).to_pages(PageSize::KIB_4), PageCount(2)); // as many as fit
//! ```

pub use millpond_core::units::{Bytes, Instant, Nanos, PageCount, PageSize, Ratio};
