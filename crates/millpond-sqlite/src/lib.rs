//! SQLite on Millpond: a loadable extension that registers the VFS `millpond`. `docs/SQLITE.md` is for its users.
//!
//! ```text
//!   SQLite ──► ffi: methods of the VFS and its files, no panic leaves them ──► file: what is read, written, synced
//!                │                                                              │
//!                └── temporary files, names, time: the VFS that was there       ├── database: shared by connections
//!                                                                               │     locks · shared memory of the WAL
//!                                                                               └── process: one cache, its settings
//! ```
//!
//! One process has a database at a time: its cache holds what others can't see. So the first lock that SQLite takes also
//! takes one that SQLite's own VFS respects, until the last connection of the process closes the database
//! (`docs/decisions/0018-sqlite-locks.md`). Between the connections of the process locks are counted in memory, and the
//! WAL's shared memory is the process's own.
//!
//! Another crate can give the VFS files that are on no disk ([`folder`]): `millpond-volumes-sqlite` has those of stores.

#![allow(unreachable_pub, reason = "what SQLite reaches by name is public")]

// Rows of modules: a file imports only from lower rows, which `crates/millpond-lab/tests/all/arrows` checks.
//
//   6  ffi                 what SQLite calls, and what is called of it; all unsafe code
//   5  file                one open file of a connection
//   4  process             the cache of the process, and its databases
//   3  database            what the connections to a database share
//   2  shm                 the shared memory of the WAL
//   2  follower            a database that another process writes, as one connection reads it
//   1  locks               who may read and write
//   1  folder              databases that are on no disk
//   0  code  told  words   SQLite's numbers, its log, what is on or off
//   0  opening             how a file is opened
//   0  ffi/read_lock       a lock of a range of a file

mod code;
mod database;
mod ffi;
mod file;
pub mod folder;
mod follower;
mod locks;
mod opening;
mod process;
mod shm;
mod told;
mod words;

pub use ffi::{Routines, Sqlite, load_with_folders, sqlite3_millpondsqlite_init};
