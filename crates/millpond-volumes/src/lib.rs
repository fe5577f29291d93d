//! Files whose pages live in an object store: one fenced writer, any number of readers on other machines.
//!
//! ```
//! use millpond_volumes::{Store, StoreOptions, StoreReader};
//! let url = "memory://first"; // s3://bucket/prefix, with AWS' own variables; file:///folder of one machine
//! let store = Store::open(url, StoreOptions::new())?;
//! let file = store.create("a/file")?;
//! file.write_at(b"pond", 0)?;
//! file.sync_data()?; // in the store, or an error: what was not stored is kept
//!
//! let reader = StoreReader::open(url, StoreOptions::new())?; // as well on another machine
//! let mut bytes = [0; 4];
//! reader.open_file("a/file")?.read_at(&mut bytes, 0)?;
//! assert_eq!(&bytes, b"pond");
//! store.close()?; // the next writer need not take over
//! # Ok::<(), millpond_volumes::Error>(())
//! ```
//!
//! As files of a cache:
//!
//! ```
//! use millpond::PageCache;
//! use millpond_volumes::{StoreOptions, Volumes};
//! let volumes = Volumes::new(millpond::device::best())?;
//! let builder = PageCache::builder().memory(64 << 20).page_size(64 << 10);
//! let builder = builder.control(true); // for `millpond stat --stores` and `millpond top`
//! let cache = builder.device(volumes.clone()).build()?;
//! let store = volumes.store(&cache, "memory://second", StoreOptions::new())?;
//! let file = store.create("a/file")?; // a millpond::File
//! file.write_at(b"pond", 0)?;
//! file.sync_data()?; // in the store, or an error: what was not stored is kept
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules, in rows
//!
//! ```text
//!   7  cache       files of a store as files of a cache
//!   6  store       stores as programs use them: a bucket, threads, callers
//!   5  tier        a file on a local disk with pages that were fetched
//!   4  tree        names and attributes of a mount's files, as records of a store
//!   3  layout      what a writer and a reader ask of a store, as pure state machines
//!   2  format      the objects of a store, byte by byte
//!   1  mutation    deliberate mistakes, for tests of the tests
//! ```

mod cache;
#[cfg(test)]
#[path = "../tests/shared/draw.rs"]
mod draw;
pub mod format;
pub mod layout;
pub mod mutation;
mod store;
mod tier;
pub mod tree;

pub use cache::*;
pub use store::*;
pub use tier::TierUsage;
