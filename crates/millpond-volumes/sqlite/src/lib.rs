//! SQLite on a store: databases, their journals and WALs are files of a store, in a process that is its writer.
//! `docs/SQLITE.md` is for its users.
//!
//! ```text
//!   SQLite ──► the VFS of millpond-sqlite ──► stores: which are open ──► a file of a CacheStore ──► pages ──► commits
//! ```
//!
//! A program that links SQLite gives [`sqlite3_millpondvolumessqlite_init`] to `sqlite3_auto_extension` and opens a connection
//! to `:memory:`; any other loads the library, `libmillpond_volumes_sqlite.so`. Then `file:s3://bucket/prefix//data.db` is a
//! database by the VFS `millpond-store`. A store that the program has open already is [`serve`]d under a name.

mod commits;
mod stores;

pub use stores::serve;

millpond_sqlite::entry_point! {
    /// Registers the VFS `millpond-store`, and `millpond` for files of disks. SQLite finds it by the library's name. The
    /// library stays when the connection is closed.
    sqlite3_millpondvolumessqlite_init, stores::all
}
