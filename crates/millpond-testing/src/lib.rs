//! Devices for tests of what stands on a cache: disks that fail, that lose power, that take as long as a disk takes.
//!
//! A storage engine has to be right when a write fails, when the machine stops between any two of them, and when one takes
//! seconds. Give the cache one of these with [`Builder::device`](millpond::Builder::device); the engine itself stays as it
//! is.
//!
//! | to see | take |
//! |---|---|
//! | what the engine does with an error of the disk, or a full one | [`Faulty`]: chosen reads, writes, syncs and changes of length fail, stop short, come late or hang |
//! | what it finds after a loss of power | [`Crashing`]: of one run, every file that a crash at any moment could have left |
//! | how it behaves on a disk that is not at hand | [`Modelled`]: the time that a rotating disk, an SSD or an NVMe drive would take |
//! | what a reader of bytes from outside does with those that are nearly right | [`mutants::check`]: edited samples, in a process whose memory and time are bounded |
//!
//! The devices stand on one another and on any other [`Device`](millpond::device::Device). A device of your own is held
//! against what every device promises by [`conformance::check`]. What an engine asked for while it ran is in a trace ([`PageCache::record`](millpond::PageCache::record)). `docs/TESTING.md` goes through all of it with an
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

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/arrows` checks.
//
//   1  conformance  crash  fault  modelled  mutants   devices around a device, each by itself, what all promise; inputs

pub mod conformance;
mod crash;
mod fault;
mod modelled;
pub mod mutants;

pub use crash::{AfterCrash, Crashing, Fate, Happened, Journal, Survived};
pub use fault::{Fault, FaultRule, FaultTarget, Faulty};
pub use millpond_sim::disk;
pub use modelled::{Lateness, ModelService, Modelled};
