//! A store mounted as a directory, for any program.
//!
//! ```text
//!   program ── open(2), read(2), mmap ──► kernel ── FUSE ──► reading ──► millpond::File ── GET ──► the store
//!                                                               └── names and lengths, as of the reader's commit
//!           ── write(2), rename(2) … ────► kernel ── FUSE ──► writing ──► millpond::File ── PUT ──► the store
//!                                                               └── the store's tree: commits have both
//! ```
//!
//! Modules in rows; a file imports only from lower ones:
//!
//! ```text
//!   3  served                what is mounted: its life from being made to being unmounted
//!   2  reading  writing      what answers the kernel: of a reader, of the one writer
//!   1  nodes                 the files that the kernel knows of a reader, each as of one version
//!      inodes  commits       those of a writer, and its commits
//!   0  handles  attributes  replies
//! ```

mod attributes;
mod commits;
mod handles;
mod inodes;
mod nodes;
mod reading;
mod replies;
mod served;
mod writing;

pub use served::{Access, Error, How, StoreMount};
