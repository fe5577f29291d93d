//! A page cache and memory manager that lives in your process instead of in the kernel.
//!
//! Reads stay calm while writers hammer the disk; the working set stays when scans go by; memory stays in one budget;
//! nothing is lost silently.
//!
//! ```
//! use millpond::{OpenOptions, PageCache};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("data");
//! let cache = PageCache::builder().memory(64 << 20).build()?;
//! let file = cache.open(&path, OpenOptions::new().create(true))?;
//!
//! file.write_at(&[7; 100_000], 0)?;           // in memory; reaches the device in the background
//! file.page_mut(3)?[..5].copy_from_slice(b"pond!");
//! file.sync_data()?;                          // durable, or an error
//!
//! let page = file.page(3)?;                   // pinned: no copy, no lock
//! assert_eq!(&page[..5], b"pond!");
//! # drop(page);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The policy (which page leaves, when dirty pages are written, who waits) is the crate `millpond-core`, a pure state
//! machine; this crate drives it with real memory, threads and devices.

mod auto;
mod background;
mod budget;
mod builder;
mod cache;
mod calibrate;
mod check;
mod clock;
pub mod contents;
#[cfg(feature = "control")]
pub mod control;
mod cursor;
pub mod device;
mod driver;
mod error;
mod events;
mod explain;
mod file;
mod gate;
mod guard;
mod hazard;
pub mod history;
mod hook;
pub mod host;
#[cfg(feature = "metrics")]
pub mod http;
mod index;
mod inspect;
#[cfg(feature = "metrics")]
mod metrics;
mod order;
mod own;
mod poison;
pub mod record;
mod region;
#[cfg(test)]
mod scratch;
pub mod settings;
mod state;
mod stats;
mod sync;
mod sys;
mod table;
mod told;
#[cfg(feature = "trace")]
pub mod trace;
#[cfg(not(feature = "trace"))]
#[path = "trace/off.rs"]
mod trace;
mod tune;
mod wait;

pub use auto::MemoryRange;
pub use builder::Builder;
pub use cache::{MemoryInForce, PageCache};
pub use calibrate::{Calibration, GoalSource};
pub use check::PageCheck;
pub use cursor::FileCursor;
pub use device::Warning;
pub use error::{Error, Result};
pub use explain::{Call, Explanation, Wait, explain};
pub use file::CloseError;
pub use file::{Advice, File, OpenOptions, StablePages};
pub use guard::{OwnedPageMut, OwnedPageRef};
pub use guard::{PageMut, PageRef};
pub use inspect::Limit;
pub use millpond_core as core;
pub use millpond_core::options::{Options, Preset};
pub use order::LogOrder;
pub use region::{Faults, Region, RegionAdvice, RegionOptions, SwapFile};
pub use settings::{Setting, SettingError};
pub use stats::{FrameWaits, Stats};
pub use told::Surface;
