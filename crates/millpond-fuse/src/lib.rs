//! Mounts a directory a second time, so that any program uses Millpond's page cache for the data of its files.
//!
//! ```text
//!   program ── read(2), write(2), mmap ──► kernel ── FUSE, past its page cache ──► operations/ ──► millpond::File
//!                                                                                       │               │ direct I/O
//!                                              names, attributes, links, xattrs ────────┴──► the directory below
//! ```
//!
//! The modules form rows. A file imports `crate::x` only if `x` is its own module or in a lower row; modules in the
//! same row don't know one another. A test in the lab checks this table against the sources.
//!
//! ```text
//!   7  mount                                           a mount's life: made, served, unmounted, all of it written
//!   6  requests                                        FUSE requests, a line each, and the capabilities asked for
//!   5  operations                                      what answers them, a file for each family of system calls
//!   4  state                                           all that a mount knows: inodes, open files, the cache
//!   3  inode  source  exit_report                      a file's data, times, pages; the lock on the source; the last message
//!   2  host  directory  attributes  credentials  pool  create_retries  request_memory  room  gate  channel   the system; parts that know no mount
//!   1  options  error  flags  own_attributes           the vocabulary
//!   0  events                                          wakes whoever serves
//! ```
//!
//! Everything but data goes directly to the underlying file system, so names, permissions and links behave as they do
//! there. `docs/MOUNT.md` has the semantics.
#![forbid(unsafe_code)]

mod attributes;
mod channel;
mod create_retries;
mod credentials;
mod directory;
mod error;
mod events;
mod exit_report;
mod flags;
mod gate;
mod host;
mod inode;
mod mount;
mod operations;
mod options;
mod own_attributes;
mod pool;
mod request_memory;
mod requests;
mod room;
mod source;
mod state;

pub use error::MountError;
pub use events::Events;
pub use exit_report::{Elsewhere, ExitReport, MountServer, ReportPipe, ServerProcess};
pub use host::mountinfo::{MountKind, kind};
pub use host::servers::{DeadMount, dead_mounts, is_mounted, processes_serving, served_by};
pub use host::{memory_notice, raise_descriptors, serves};
pub use mount::connect::Connection;
pub use mount::hand_over::Successor;
pub use mount::other::OtherMount;
pub use mount::unsaved::Unsaved;
pub use mount::{Ended, Mount, Unmounted};
pub use operations::shut_down::Unwritten;
pub use options::{Options, TakeOverStep};
pub use own_attributes::{GIVE_UP_ATTRIBUTE, PROCESS_ATTRIBUTE, SYNC_ATTRIBUTE, UNWRITTEN_ATTRIBUTE};
