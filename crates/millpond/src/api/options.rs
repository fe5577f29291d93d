//! The parts of [`Options`]: everything that can be configured about a cache.
//!
//! Most programs need none of this: [`Builder`](crate::Builder) sets the budget, the page size and the read latency
//! goal, and the defaults measured best. These options are for tuning, and for programs that let their users tune.
//! Start from the defaults or a [`Preset`] and change some. The cache checks all of them and reports the first invalid
//! one ([`OptionError`]). New fields and variants may be added: fill the fields you don't name from `Default`.
//!
//! ```
//! use millpond::options::{AdmissionOptions, BytesOptions, DirtyLimit};
//! use millpond::units::{Bytes, Ratio};
//! use millpond::{Options, PageCache};
//!
//! let mut options = Options::default();
//! options.dirty.background = DirtyLimit::Size(Bytes::from_mib(8)); // the flusher writes what is above it
//! options.dirty.hard = DirtyLimit::Share(Ratio::percent(40)); // where writers have to wait
//! options.admission = AdmissionOptions::Bytes(BytesOptions {
//!     high: Bytes::from_mib(4), // at most this much in transit to the device
//!     ..BytesOptions::default()
//! });
//! let cache = PageCache::builder().options(options).build()?;
//!
//! // Later, while it runs:
//! let mut options = cache.options();
//! options.readahead.max = Bytes(0);
//! cache.set_options(options)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same options by name, in text form: [`settings`](crate::settings).

pub use millpond_core::admission::AdmissionOptions;
pub use millpond_core::admission::bytes::BytesOptions;
pub use millpond_core::admission::goal::GoalOptions;
pub use millpond_core::dirty::limits::{DirtyLimit, DirtyOptions};
pub use millpond_core::lru::{
    Detection, InactiveRatio, LinuxOptions, MillpondOptions, Promotion, Replacement,
};
pub use millpond_core::memory::watermark::WatermarkRule;
pub use millpond_core::options::{OptionError, Options, Preset};
pub use millpond_core::readahead::ReadAheadOptions;
pub use millpond_core::writeback::FlusherOptions;
