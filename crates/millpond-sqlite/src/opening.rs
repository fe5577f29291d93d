//! How a file is opened: as SQLite's unix VFS opens it (`unixOpen` in `os_unix.c`), so that both leave the same files.
//!
//! No link is followed, for SQLite gives names that lead nowhere else (3.10 and newer; before, a database may be one): a
//! journal that the superuser opens in another's folder is made there, and not where a link leads. A journal or WAL that is
//! new becomes its database's owner's, with its permissions, so that whoever may open that can recover it.

use millpond::{Error, File, OpenOptions, PageCache};
use rustix::fs::{Gid, Mode, Stat, Uid};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// SQLite's request to open a file.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) writes: bool,
    pub(crate) creates: bool,
    pub(crate) is_new: bool,
    pub(crate) is_database: bool,
    /// Whether a write that is cut off leaves the bytes next to it unchanged: `psow`.
    pub(crate) is_powersafe: bool,
    /// Whether a link is followed.
    pub(crate) follows: bool,
}

/// The opened file.
pub(crate) struct Found {
    pub(crate) file: File,
    /// Whether the process may write it.
    pub(crate) is_writable: bool,
    /// Whether its name may not be durable.
    pub(crate) is_name_new: bool,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
}

/// The permissions that SQLite gives a database: `SQLITE_DEFAULT_FILE_PERMISSIONS`.
const MODE: u32 = 0o644;

/// The required owner of a journal or WAL.
fn of_database(path: &Path) -> Option<fs::Metadata> {
    let name = path.to_str()?;
    let (database, _) = name.rsplit_once('-')?;
    fs::metadata(database).ok()
}

/// Opens a file. One that may not be written is opened for reading.
///
/// # Errors
/// [`Error::Open`], and as [`PageCache::open_file`].
pub(crate) fn open(cache: &PageCache, path: &Path, asked: Asked) -> Result<Found, Error> {
    let failed = |source| Error::Open {
        path: path.to_owned(),
        source,
    };
    let creates = asked.creates && asked.writes;
    let like = of_database(path).filter(|_| creates && !asked.is_database);
    let mode = like.as_ref().map_or(MODE, |like| like.mode() & 0o777);
    let mut options = fs::OpenOptions::new();
    options.read(true).mode(mode);
    options.custom_flags(if asked.follows { 0 } else { libc::O_NOFOLLOW });
    // Also for a connection that only reads: the lock that keeps others out needs it.
    let mut to_write = options.clone();
    to_write
        .write(true)
        .create(creates)
        .create_new(creates && asked.is_new);
    let was_missing = asked.creates && !path.exists();
    let (opened, is_writable) = match to_write.open(path) {
        Err(refused) if is_refused(&refused) => {
            // What is not there could not be made, and that is why.
            let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            let to_read = options.open(path);
            let why = |error| if is_missing(&error) { refused } else { error };
            (to_read.map_err(why), false)
        }
        opened => (opened, true),
    };
    let file = cache.open_file(opened.map_err(failed)?, OpenOptions::new().write(is_writable))?;
    let found = rustix::fs::fstat(file.as_fd()).map_err(|errno| failed(errno.into()))?;
    if let Some(like) = like {
        resemble(&file, &found, &like, mode);
    }
    Ok(Found {
        file,
        is_writable,
        // Of a journal as long as no sync of this handle has seen to it: another may have made it, and been killed since.
        is_name_new: creates && (was_missing || !asked.is_database),
        identity: (found.st_dev, found.st_ino),
    })
}

/// Gives an empty journal or WAL its database's permissions, which the umask may have cut, and owner. What was opened, not
/// what has its name by now. Where the process may not, it stays as it is.
fn resemble(file: &File, found: &Stat, like: &fs::Metadata, mode: u32) {
    // One with two names may be anything.
    if found.st_size != 0 || found.st_nlink != 1 {
        return;
    }
    if found.st_mode & 0o777 != mode {
        let _ = rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(mode));
    }
    if (like.uid(), like.gid()) != (found.st_uid, found.st_gid) {
        let (uid, gid) = (Uid::from_raw(like.uid()), Gid::from_raw(like.gid()));
        let _ = rustix::fs::fchown(file.as_fd(), Some(uid), Some(gid));
    }
}

/// Whether it may exist but not be writable.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EROFS)
    )
}

/// Makes the file's name durable. A folder that the process may not open is left alone, as SQLite's own VFS does.
///
/// # Errors
/// Of the device.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match fs::File::open(folder.unwrap_or(Path::new("."))) {
        Ok(folder) => folder.sync_all(),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: Asked = Asked {
        writes: true,
        creates: true,
        is_new: false,
        is_database: false,
        is_powersafe: true,
        follows: false,
    };

    #[test]
    fn the_name_of_a_journal_is_synced_by_each_handle_and_that_of_a_database_by_its_maker() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let is_new = |name: &str, asked| {
            open(&cache, &folder.path().join(name), asked)
                .unwrap()
                .is_name_new
        };
        let database = Asked {
            is_database: true,
            ..JOURNAL
        };
        assert!(is_new("data.db", database));
        assert!(!is_new("data.db", database));
        assert!(is_new("data.db-wal", JOURNAL));
        assert!(
            is_new("data.db-wal", JOURNAL),
            "its maker may have been killed before it was synced"
        );
        let reads = Asked {
            creates: false,
            ..JOURNAL
        };
        assert!(!is_new("data.db-wal", reads));
        assert!(sync_name(&folder.path().join("data.db-wal")).is_ok());
        assert!(
            sync_name(&folder.path().join("missing/data.db-wal")).is_ok(),
            "as of one that can't be opened"
        );
    }

    #[test]
    fn no_link_is_followed_and_nothing_is_made_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PageCache::builder().memory(2 << 20).build().unwrap();
        let (link, others) = (
            folder.path().join("data.db-journal"),
            folder.path().join("others"),
        );
        std::os::unix::fs::symlink(&others, &link).unwrap();
        let refused = open(&cache, &link, JOURNAL).err().unwrap();
        assert_eq!(refused.errno(), libc::ELOOP, "{refused}");
        assert!(!others.exists());
        let follows = Asked {
            follows: true,
            ..JOURNAL
        };
        assert!(open(&cache, &link, follows).is_ok() && others.exists());
    }
}
