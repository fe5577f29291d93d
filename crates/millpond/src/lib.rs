//! A page cache and memory manager that runs in your process instead of in the kernel.
//!
//! Read latency stays low while writers saturate the disk. Scans do not evict the working set. One budget bounds all
//! memory. Every lost write is reported.
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
//! Where to start:
//!
//! | topic | items |
//! |---|---|
//! | files: reading, writing, zero-copy page guards | [`PageCache`], [`File`], [`PageRef`], [`PageMut`] |
//! | guards that keep their file open, for other threads, `Bytes`, iterators | [`OwnedPageRef`], [`OwnedPageMut`] |
//! | a file with a position: `Read`, `BufRead`, `Write`, `Seek` | [`FileCursor`] |
//! | anonymous memory larger than RAM, with a swap file | [`Region`] |
//! | a file mapped into the address space, within the budget | [`File::map`], [`Mapping`] |
//! | write-ahead logging, page checksums; the example `log_before_page` | [`LogOrder`], [`PageCheck`] |
//! | configuration, also at run time | [`Builder`], [`options`]; by name [`settings`], changes in [`history`] |
//! | monitoring | [`stats`], [`contents`], [`device`]; what one call waited for: [`explain`](mod@explain) |
//! | monitoring and tuning from outside: `millpond stat`, `top`, `set`, `record` | [`control`], [`trace`], `Builder::metrics` |
//! | tests with failing or slow disks and power loss | the crate `millpond-testing` |
//! | restrictions of the host | [`host`] |
//!
//! # Features
//!
//! | feature | default | description |
//! |---|---|---|
//! | `control` | yes | the control socket ([`Builder::control`]) for `millpond stat`, `top`, `set` and `record`; enables `trace` |
//! | `trace` | by `control` | recording calls into a file ([`PageCache::record`]) and reading such files |
//! | `tokio` | no | files for async tasks: `AsyncFile` |
//! | `metrics` | no | Prometheus metrics over HTTP: `Builder::metrics` |
//!
//! A feature costs nothing at run time until it is used. Disabling it saves build time and its dependencies.
//!
//! The crate `millpond-core` implements the policy: which page is evicted, when dirty pages are written, which threads
//! wait. It is a pure state machine; this crate drives it with real memory, threads and devices.

#![cfg_attr(docsrs, feature(doc_cfg))]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   12  api                what users have in hand
//   11  control            changes while the cache runs, the control socket
//   10  engine             steps the state machine, and does what that asks for
//   9   memory             regions: where each page is
//   8   files              files as the engine has them, and what their pages wait for
//   7   sys/arena          the memory of frames, which takes a pin; and its exchange with regions
//   6   observe            what a cache shows of itself
//   5   frames             which page is in which frame, and which threads may touch it
//   4   error              what can go wrong
//   3   settings           the settings by name
//   2   device             what moves bytes
//   1   host               what the host allows
//   0   sys  size          system calls, all unsafe code; sizes as people read them

mod api;
#[cfg(feature = "control")]
pub mod control;
#[cfg(not(feature = "control"))]
mod control;
pub mod device;
mod engine;
mod error;
mod files;
mod frames;
pub mod host;
mod memory;
mod observe;
#[cfg(test)]
mod scratch;
pub mod settings;
mod size;
mod sys;

#[doc(hidden)]
pub use api::internal;
#[cfg(feature = "trace")]
pub use api::trace;
pub use api::{options, units};
pub use observe::{contents, explain, history, stats};

#[cfg(feature = "tokio")]
pub use api::async_file::AsyncFile;
pub use api::builder::Builder;
pub use api::cache::{PageCache, SetAside};
pub use api::cursor::FileCursor;
pub use api::file::{Advice, CloseError, File, OpenOptions};
pub use api::guard::{OwnedPageMut, OwnedPageRef, PageMut, PageRef};
pub use api::mapping::{MapAdvice, MapCloseError, Mapping};
pub use api::options::{Options, Preset};
pub use api::region::{Region, RegionAdvice};
pub use control::follow::MemoryInForce;
pub use device::warning::Warning;
pub use error::{Error, Result};
pub use explain::explain;
pub use files::StablePages;
pub use files::check::PageCheck;
pub use files::order::LogOrder;
pub use host::Notice;
pub use memory::{Faults, MapOptions, RegionOptions, SwapFile};
pub use settings::value::MemoryRange;
pub use stats::Stats;
pub use sys::addresses::MappedBytes;
