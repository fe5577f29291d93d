//! Test devices for software built on a cache: disks that fail, lose power, or take as long as a real disk.
//!
//! A storage engine has to be right when a write fails, when the machine stops between any two writes, and when a write
//! takes seconds. Give the cache one of these devices with [`Builder::device`](millpond::Builder::device); the engine
//! itself does not change.
//!
//! | to test | use |
//! |---|---|
//! | how the engine handles a disk error, or a full disk | [`Faulty`]: chosen reads, writes, syncs and changes of length fail, stop short, come late or hang |
//! | what it finds after a loss of power | [`Crashing`]: from one run, every file that a crash at any moment could have left |
//! | how it behaves on a disk you don't have | `Modelled` (feature `modelled`, on by default): the service times of a rotating disk, an SSD or an NVMe drive |
//! | how a parser handles almost valid input | [`mutants::check`]: edited samples, in a process with bounded memory and time |
//!
//! The devices can wrap each other and any other [`Device`](millpond::device::Device). [`conformance::check`] tests a
//! device of your own against what every device promises. A trace records what an engine asked for while it ran
//! (`PageCache::record`, with the feature `trace` of `millpond`). `docs/TESTING.md` walks through all of this with an
//! append-only log, and finds two planted bugs in it.
//!
//! ```
//! use millpond_testing::{Fault, FaultRule, FaultTarget, Faulty};
//! use millpond::{OpenOptions, PageCache, device};
//! use std::sync::Arc;
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("data");
//! let disk = Arc::new(Faulty::new(device::best(), 1));
//! let cache = PageCache::builder().device(disk.clone()).build()?;
//! let file = cache.open(&path, OpenOptions::new().create(true))?;
//!
//! const EIO: i32 = 5;
//! disk.add(FaultRule::always(FaultTarget::Writes, Fault::Fail(EIO)));
//! file.write_at(b"precious", 0)?; // in memory
//! assert_eq!(file.sync_data().unwrap_err().errno(), EIO);
//! assert_eq!(&file.page(0)?[..], b"precious"); // nothing is dropped
//!
//! disk.clear(); // the disk was mended
//! file.sync_data()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   1  conformance  crash  fault  modelled  mutants   devices around a device, each by itself, what all promise; inputs

pub mod conformance;
mod crash;
mod fault;
#[cfg(feature = "modelled")]
mod modelled;
pub mod mutants;

pub use crash::{AfterCrash, Crashing, Fate, Happened, Journal, Survived};
pub use fault::{Fault, FaultRule, FaultTarget, Faulty};
#[cfg(feature = "modelled")]
pub use millpond_sim::disk;
#[cfg(feature = "modelled")]
pub use modelled::{Lateness, ModelService, Modelled};
