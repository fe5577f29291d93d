//! A file to be created whose name has appeared in the source since the kernel looked it up: the kernel's negative
//! dentry is stale.
//!
//! ```text
//!   open(O_CREAT) ─ lookup: nothing ─ create ─ it exists ─► ESTALE, which is no error: the kernel looks up once more
//!                 └ lookup: nothing ─ create ─ it exists ─► ESTALE again, and the program has it as an error
//! ```
//!
//! The first time the kernel's own way is best: it opens the existing file by all its rules. The second time of the
//! same call is answered here, by a simple rule: the file is opened for a caller that its mode alone allows.

use super::names::NewEntry;
use super::setattr::Change;
use crate::attributes::Attributes;
use crate::credentials::Credentials;
use crate::flags::OpenFlags;
use crate::inode::Inode;
use crate::state::MountState;
use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};
use std::sync::Arc;

impl MountState {
    /// Whether the same call was answered `ESTALE` before. If not, it is now.
    pub(crate) fn is_create_retry(&self, entry: &NewEntry<'_>) -> bool {
        let NewEntry {
            caller, parent, name, ..
        } = entry;
        self.create_retries.take_or_remember(caller.thread, *parent, name)
    }

    /// Opens the file that exists. Its handle, and its attributes.
    ///
    /// # Errors
    /// `ESTALE` if it is no regular file, or its mode alone does not let the caller open it.
    pub(crate) fn open_existing(
        self: &Arc<MountState>,
        entry: &NewEntry<'_>,
        flags: OpenFlags,
    ) -> Result<(u64, Attributes)> {
        let parent = self.inode(entry.parent)?;
        let (inode, stat) = self.lookup_at(entry.parent, &parent.fd, entry.name)?;
        let opened = self.open_by_mode(&parent, &inode, &stat, entry.caller, flags);
        if opened.is_err() {
            self.forget(inode.id, 1);
        }
        opened
    }

    fn open_by_mode(
        self: &Arc<MountState>,
        parent: &Inode,
        inode: &Arc<Inode>,
        stat: &Stat,
        caller: Credentials,
        flags: OpenFlags,
    ) -> Result<(u64, Attributes)> {
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        if !is_file || !may_open(parent, inode, stat, caller, flags)? {
            return Err(Errno::STALE);
        }
        let content = self.open_content(inode, flags.writes())?;
        let handle = self.add_file(inode.clone(), content, flags);
        let change = Change {
            len: flags.truncates().then_some(0),
            handle: Some(handle),
            caller,
            mode: None,
            user: None,
            group: None,
            accessed: None,
            modified: None,
        };
        self.change(inode.id, &change)
            .map(|attributes| (handle, attributes))
            .inspect_err(|_| self.release(handle, flags))
    }
}

/// Whether the mode alone lets the caller open it so. The caller's supplementary groups are not known here, and an ACL can
/// decide otherwise than the mode.
fn may_open(
    parent: &Inode,
    inode: &Inode,
    stat: &Stat,
    caller: Credentials,
    flags: OpenFlags,
) -> Result<bool> {
    const ACL: &str = "system.posix_acl_access";
    const STICKY: u32 = 0o1000;
    const READ: u32 = 0o4;
    const WRITE: u32 = 0o2;
    let mode = stat.st_mode;
    if caller.user == 0 {
        return Ok(true);
    }
    let is_owner = stat.st_uid == caller.user;
    let has_acl = rustix::fs::getxattr_query(inode.path(), ACL).is_ok_and(|len| len > 0);
    // As by `protected_regular` of the kernel below: others' files in directories such as /tmp.
    let is_protected = rustix::fs::fstat(&parent.fd)?.st_mode & STICKY != 0;
    if !is_owner && (has_acl || is_protected) {
        return Ok(false);
    }
    let allowed = if is_owner {
        mode >> 6
    } else if stat.st_gid == caller.group {
        mode >> 3
    } else {
        // A caller that is in the file's group by a supplementary group may have less than others have.
        mode & (mode >> 3)
    };
    let mut asked = 0;
    if flags.reads() {
        asked |= READ;
    }
    if flags.writes() || flags.truncates() {
        asked |= WRITE;
    }
    Ok(allowed & asked == asked)
}
