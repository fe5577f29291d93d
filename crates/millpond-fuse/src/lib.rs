//! A directory mounted once more: any program then uses Millpond's page cache for the data of its files.
//!
//! ```text
//!   program ── read(2), write(2), mmap ──► kernel ── FUSE, past its page cache ──► operations/ ──► millpond::File
//!                                                                                       │               │ direct I/O
//!                                              names, attributes, links, xattrs ────────┴──► the directory below
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options` `session` `source` `host` `ending` `error` | what is mounted where; the mount's life; that it alone writes to its source; what the host allows; its last word; why not |
//! | `filesystem` `capabilities` | what the kernel asks, one line each, and who answers; what it is asked for |
//! | `operations/` | the answers, a file for each family |
//! | `pond` `nodes` `content` `mapped` `times` `idle` | what is known: files by number, their data, which the kernel has pages of, what of their times the disk does not know yet, what nobody has open |
//! | `directory` `attributes` | entries of a directory as they come from below; attributes as FUSE wants them |
//! | `caller` `pool` | making files as whoever asks; threads for what takes long |
//!
//! Everything but data goes straight to the file system below, so names, permissions and links are what that makes of
//! them. `docs/MOUNT.md` has the semantics.
#![forbid(unsafe_code)]

mod attributes;
mod caller;
mod directory;
mod error;
mod exit_report;
mod flags;
mod host;
mod inode;
mod mount;
mod operations;
mod options;
mod pool;
mod requests;
mod source;
mod state;

pub use error::MountError;
pub use exit_report::{Found, Serving, Told};
pub use mount::{Ended, Mount, Unmounted};
pub use options::Options;

/// The extended attribute of the mount's root that has the process that serves it, and where that leaves its last word:
/// what [`Serving::at`] asks for.
pub const PROCESS_ATTRIBUTE: &str = "millpond.process";

/// The extended attribute of the mount's root that makes everything durable when it is set to anything, or read.
pub const SYNC_ATTRIBUTE: &str = "millpond.sync";
