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
//! Where to look:
//!
//! | for | see |
//! |---|---|
//! | files: reading, writing, pages lent without a copy | [`PageCache`], [`File`], [`PageRef`], [`PageMut`] |
//! | pages that keep their file open, for other threads, `Bytes`, iterators | [`OwnedPageRef`], [`OwnedPageMut`] |
//! | a file with a position: Read, BufRead, Write, Seek | [`FileCursor`] |
//! | memory larger than memory, with a swap file | [`Region`] |
//! | a file at real pointers, within the budget | [`File::map`], [`Mapping`] |
//! | pages that wait for a log, checksums | [`LogOrder`], [`PageCheck`] |
//! | what can be chosen, and changed while it runs | [`Builder`], [`options`]; by name [`settings`], changes in [`history`] |
//! | what it does | [`stats`], [`contents`], [`device`]; what one call waited for: [`explain`](mod@explain) |
//! | from outside: `millpond stat`, `top`, `set`, `record` | [`control`], [`trace`], [`Builder::metrics`] |
//! | tests of what stands on it: disks that fail, lose power, are slow | the crate `millpond-testing` |
//! | what this host does not allow | [`host`] |
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `control` | yes | the control socket ([`Builder::control`]), which `millpond stat`, `top`, `set` and `record` use; has `trace` |
//! | `trace` | by `control` | recording every call into a file ([`PageCache::record`]), and reading such files |
//! | `tokio` | no | files for tasks: `AsyncFile` |
//! | `metrics` | no | figures for Prometheus over HTTP ([`Builder::metrics`]) |
//!
//! None of them costs anything while it is not used; leaving them out saves building them, and what they depend on.
//!
//! The policy (which page leaves, when dirty pages are written, which threads wait) is the crate
//! `millpond-core`, a pure state machine; this crate drives it with real memory, threads and devices.

#![cfg_attr(docsrs, feature(doc_cfg))]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/arrows` checks.
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
