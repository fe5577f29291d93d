//! An inode: a file, directory, link or other named object, which the kernel knows by number.
//!
//! Each inode that the kernel knows has a descriptor here (`O_PATH`), so that it is found whatever happens to its name,
//! and so that the underlying file system does not reuse its number.

pub(crate) mod closed;
pub(crate) mod content;
pub(crate) mod kernel_pages;
pub(crate) mod lend_pool;
#[cfg(test)]
mod lend_pool_tests;
pub(crate) mod lend_share;
pub(crate) mod lent;
pub(crate) mod record;
pub(crate) mod table;
pub(crate) mod times;

use crate::room::{Leaving, Room};
use content::Content;
use kernel_pages::KernelPages;
use lent::Lent;
use parking_lot::Mutex;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use times::{ReportedCtime, Times};

/// Which file it is, below.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[expect(clippy::unnecessary_cast, reason = "stat has other types on other machines")]
    pub(crate) fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
        }
    }
}

/// A file, directory, link or whatever else has a name.
pub(crate) struct Inode {
    pub(crate) id: u64,
    pub(crate) identity: Identity,
    /// `O_PATH`: stays with the file whatever it is called by now; not for reading or writing.
    pub(crate) fd: OwnedFd,
    pub(crate) is_directory: bool,
    /// Its data, if it is a regular file.
    pub(crate) data: Mutex<Data>,
    pub(crate) kernel_pages: Arc<KernelPages>,
    pub(crate) lent: Lent,
    /// Writes that have come and are not answered.
    pub(crate) writing: AtomicU32,
    pub(crate) times: Mutex<Times>,
    /// The name under which it was looked up last; `None` once the kernel has removed that name.
    pub(crate) dentry: Mutex<Option<Dentry>>,
    /// It has no set-user-ID or set-group-ID bit and no capabilities that a write would have to remove, as far as is known
    /// since it was opened: as `S_NOSEC` of Linux.
    pub(crate) nosec: Mutex<bool>,
    /// Attributes were changed that no sync has made durable yet.
    pub(crate) attributes_changed: AtomicBool,
    /// It has no name and is not open. The last field: dropped when the descriptor is closed.
    leaving: OnceLock<Leaving>,
}

/// A name in a directory, as the kernel caches it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Dentry {
    /// The directory's number.
    pub(crate) parent: u64,
    pub(crate) name: OsString,
}

impl Dentry {
    fn is(&self, parent: u64, name: &OsStr) -> bool {
        self.parent == parent && self.name == name
    }
}

/// The data of a regular file.
#[derive(Default)]
pub(crate) struct Data {
    /// Stays for a while after the file was closed.
    pub(crate) content: Option<Arc<Content>>,
    pub(crate) opens: u32,
    /// Its last name was removed at the mount.
    pub(crate) is_removed: bool,
    /// Goes up by one with each open: tells whether the file was opened since it was closed.
    pub(crate) generation: u64,
    /// How the file below was when nothing was left to write to it.
    pub(crate) disk_version: Option<DiskVersion>,
    /// The thread that has cut it to nothing since somebody opened it. It is written out when it is closed.
    pub(crate) rewritten_by: Option<u32>,
    /// Why something that was stored through a map is lost. Each sync and close says so, until the file is closed by all.
    pub(crate) writeback_error: Option<Errno>,
}

/// Length and modification time of a file below, by which a change that others make is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DiskVersion {
    len: i64,
    modified: (i64, u64),
}

impl DiskVersion {
    #[expect(clippy::unnecessary_cast, reason = "stat has other types on other machines")]
    pub(crate) fn of(stat: &Stat) -> DiskVersion {
        DiskVersion {
            len: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        }
    }
}

impl Inode {
    fn new(id: u64, stat: &Stat, fd: OwnedFd, ctime: Option<ReportedCtime>) -> Inode {
        Inode {
            id,
            identity: Identity::of(stat),
            fd,
            is_directory: FileType::from_raw_mode(stat.st_mode).is_dir(),
            data: Mutex::default(),
            kernel_pages: Arc::default(),
            lent: Lent::default(),
            writing: AtomicU32::new(0),
            times: Mutex::new(Times::remembering(ctime)),
            dentry: Mutex::default(),
            nosec: Mutex::default(),
            attributes_changed: AtomicBool::new(false),
            leaving: OnceLock::new(),
        }
    }

    /// It has no name any more, or is closed: its room will come if both hold.
    pub(crate) fn leave(&self, data: &Data, room: &Arc<Room>) {
        if data.is_removed && data.opens == 0 {
            self.leaving.get_or_init(|| room.leave());
        }
    }

    /// It was looked up under this name.
    pub(crate) fn set_dentry(&self, parent: u64, name: &OsStr) {
        let mut dentry = self.dentry.lock();
        if dentry.as_ref().is_none_or(|dentry| !dentry.is(parent, name)) {
            *dentry = Some(Dentry {
                parent,
                name: name.to_owned(),
            });
        }
    }

    /// The kernel is about to remove that name. Whether it was looked up under it last.
    pub(crate) fn take_dentry(&self, parent: u64, name: &OsStr) -> bool {
        let mut dentry = self.dentry.lock();
        dentry.take_if(|dentry| dentry.is(parent, name)).is_some()
    }

    /// A path for system calls that take no `O_PATH` descriptor.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}
