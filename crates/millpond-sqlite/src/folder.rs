//! Databases that are on no disk: in an object store, say. Another crate has their files; what locks and lends them is
//! this one's.
//!
//! ```text
//!   file:FOLDER//NAME?vfs=millpond-store ──► Folders: opens FOLDER ──► Folder: opens NAME, a file of its cache
//! ```
//!
//! A folder is one process's while it is open, so no lock of the system is taken. What SQLite deletes is cut to nothing
//! instead, with a sync, and a file without content is one that is not there, as for SQLite's own VFS: then the end of a
//! transaction is as durable as its beginning, and no name comes and goes with each.

use millpond::internal::Maker;
use millpond::{Builder, File, PageCache};
use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

/// The VFS of such databases.
pub const VFS: &CStr = c"millpond-store";

/// Files of a cache, by name.
pub trait Folder: Send + Sync {
    /// Their cache.
    fn cache(&self) -> &PageCache;

    /// Opens a file; `None`: there is none, and none is to be made.
    ///
    /// # Errors
    /// Why it can't be opened, for people.
    fn open(&self, name: &str, creates: bool) -> Result<Option<File>, String>;

    /// The length of a file that may be open; `None`: there is none.
    fn len(&self, name: &str) -> Option<u64>;

    /// The folder's trouble, if there is more to report than a file's error does.
    fn trouble(&self) -> Option<String>;

    /// Whether it becomes durable by the clock, too, and not by syncs only. What was not synced may then become durable in any
    /// order, so that `synchronous=off` is refused.
    fn commits_by_clock(&self) -> bool {
        false
    }

    /// Whether another process writes it, so that its databases are read by [`Folder::newest`].
    fn is_followed(&self) -> bool {
        false
    }

    /// The newest state of a database that another process writes. `None`: it is state number `known`, or there is no such
    /// database.
    ///
    /// # Errors
    /// Why it can't be read, for people.
    fn newest(&self, _name: &str, _known: Option<u64>) -> Result<Option<Snapshot>, String> {
        Ok(None)
    }
}

/// A database that another process writes, as of one moment.
pub struct Snapshot {
    /// Of the state: no two have the same.
    pub number: u64,
    /// The database.
    pub database: File,
    /// Its WAL, if it has one with content.
    pub wal: Option<File>,
    /// A rollback journal has content: the database may have pages of a transaction that never ends.
    pub has_hot_journal: bool,
}

/// All folders that a process can open.
pub trait Folders: Send + Sync {
    /// The folder of this name, for a connection that writes or one that only reads. It is closed when it has no user left.
    /// `parameter`: of the database's URI.
    ///
    /// # Errors
    /// Why it can't be opened, for people.
    fn open(
        &self,
        folder: &str,
        writes: bool,
        parameter: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Arc<dyn Folder>, String>;

    /// The same, if it is open.
    fn find(&self, folder: &str) -> Option<Arc<dyn Folder>>;
}

struct Registered {
    maker: Maker,
    folders: Arc<dyn Folders>,
}

static FOLDERS: OnceLock<Registered> = OnceLock::new();

/// These are the folders of [`VFS`], for as long as the process is there; those of the first call.
pub(crate) fn register(folders: Arc<dyn Folders>) {
    let maker = Maker::this();
    let _ = FOLDERS.set(Registered { maker, folders });
}

/// Says in SQLite's log why a folder does not do what it should.
pub fn log(why: &str) {
    crate::told::tell_all(crate::code::IOERR, why);
}

/// Whether `parameter` of a URI says that `name` is on, as SQLite reads its own: `1`, `yes`, `True`. It is off if it says nothing.
///
/// # Errors
/// The allowed values, in words.
pub fn is_on(parameter: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<bool, String> {
    parameter(name).map_or(Ok(false), |text| crate::words::named(name, &text))
}

/// A cache's builder, with the budget that a URI says: `64M`, `10%`, `auto:64M..1G`. It is made so, as there may be no room for
/// more.
///
/// # Errors
/// The allowed values, in words.
pub fn with_memory(builder: Builder, memory: &str) -> Result<Builder, String> {
    crate::words::with_memory(builder, memory)
}

/// The folder and the name that a database's name has.
fn split(path: &str) -> Option<(&str, &str)> {
    let scheme = path.find("://").map_or(0, |at| at + 3);
    let at = scheme + path[scheme..].find("//")?;
    let (folder, name) = (&path[..at], &path[at + 2..]);
    (!folder.is_empty() && !name.is_empty()).then_some((folder, name))
}

/// Resolves a database's name, and opens its folder.
///
/// # Errors
/// Why there is none, for people.
pub(crate) fn open<'a>(
    path: &'a str,
    writes: bool,
    parameter: &dyn Fn(&str) -> Option<String>,
) -> Result<(Arc<dyn Folder>, &'a str), String> {
    let Some((folder, name)) = split(path) else {
        return Err(format!(
            "{path} names no database of a store: the form is STORE//NAME"
        ));
    };
    let Some(Registered { maker, folders }) = FOLDERS.get() else {
        return Err(String::from("nothing here knows of stores"));
    };
    if maker.is_another() {
        return Err(String::from(
            "stores belong to the parent after a fork(): open them in a program started anew",
        ));
    }
    Ok((folders.open(folder, writes, parameter)?, name))
}

/// The same for one that is open.
pub(crate) fn find(path: &str) -> Option<(Arc<dyn Folder>, &str)> {
    let (folder, name) = split(path)?;
    let registered = FOLDERS
        .get()
        .filter(|registered| !registered.maker.is_another())?;
    Some((registered.folders.find(folder)?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_folder_before_two_slashes() {
        for (path, found) in [
            ("s3://bucket/a/b//c/d.db", Some(("s3://bucket/a/b", "c/d.db"))),
            ("file:///folder//d.db-wal", Some(("file:///folder", "d.db-wal"))),
            ("orders//d.db", Some(("orders", "d.db"))),
            ("s3://bucket/a/d.db", None),
            ("s3://bucket//", None),
            ("//d.db", None),
            ("d.db", None),
        ] {
            assert_eq!(split(path), found, "{path}");
        }
    }
}
