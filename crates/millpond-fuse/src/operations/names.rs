//! Names: look up, create, rename, remove.

use crate::attributes::{Attributes, decode_device};
use crate::credentials::{ActingAs, Credentials};
use crate::inode::{Identity, Inode};
use crate::state::MountState;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::{Errno, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is to be created, where, and for whom.
pub(crate) struct NewEntry<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
    pub(crate) caller: Credentials,
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// A file that was created.
pub(crate) struct Created {
    pub(crate) file: File,
    pub(crate) inode: Arc<Inode>,
    /// Permissions that it has and is not to keep.
    pub(crate) extra_mode: Mode,
}

impl MountState {
    /// The file of this name. Counts a lookup: the kernel is told of it.
    pub(crate) fn lookup(self: &Arc<MountState>, parent: u64, name: &OsStr) -> Result<Attributes> {
        let (inode, stat) = self.lookup_at(parent, &self.inode(parent)?.fd, name)?;
        let attributes = self.attributes_from(&inode, &stat);
        if attributes.is_err() {
            self.forget(inode.id, 1);
        }
        attributes
    }

    /// The same of the directory `parent`, which is open as `directory`: the inode, and what stat says.
    pub(crate) fn lookup_at(
        self: &Arc<MountState>,
        parent: u64,
        directory: impl AsFd,
        name: &OsStr,
    ) -> Result<(Arc<Inode>, Stat)> {
        let directory = directory.as_fd();
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // The file system below gives its number to no other as long as we have it open.
        if let Some(inode) = self.inodes.lookup(Identity::of(&stat)) {
            inode.set_dentry(parent, name);
            return Ok((inode, stat));
        }
        self.relieve_descriptors();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.retrying_emfile(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
        let stat = rustix::fs::fstat(&fd)?;
        let inode = self.inodes.insert(fd, &stat);
        inode.set_dentry(parent, name);
        Ok((inode, stat))
    }

    /// The kernel has forgotten `count` lookups of the file.
    pub(crate) fn forget(self: &Arc<MountState>, id: u64, count: u64) {
        let Some((inode, lent)) = self.inodes.forget(id, count) else {
            return;
        };
        if let Some(pool) = &self.lend_pool {
            pool.forget(lent);
        }
        if inode.data.lock().content.is_none() {
            return self.inodes.remove(&inode);
        }
        let state = self.clone();
        self.pool.defer(move || state.evict(&inode));
    }

    /// Calls `create` on a directory with the caller's credentials, and the mode that the new file is to have.
    fn as_caller<T>(&self, entry: &NewEntry<'_>, create: impl Fn(&Inode, Mode) -> Result<T>) -> Result<T> {
        let parent = self.inode(entry.parent)?;
        let mode = Mode::from_raw_mode(self.creation_mode(&parent, entry));
        self.room.wait_for(|| {
            let _acting = ActingAs::caller(self.is_root.then_some(entry.caller))?;
            create(&parent, mode)
        })
    }

    /// The umask counts unless the directory has a default ACL, from which the file system below makes the mode.
    fn creation_mode(&self, parent: &Inode, entry: &NewEntry<'_>) -> u32 {
        const DEFAULT_ACL: &str = "system.posix_acl_default";
        let mode = entry.mode & 0o7777;
        if !self.applies_umask.load(Ordering::Relaxed) {
            return mode;
        }
        match rustix::fs::getxattr_query(parent.path(), DEFAULT_ACL) {
            Ok(len) if len > 0 => mode,
            _ => mode & !entry.umask,
        }
    }

    pub(crate) fn create_device(
        self: &Arc<MountState>,
        entry: &NewEntry<'_>,
        device: u32,
    ) -> Result<Attributes> {
        self.as_caller(entry, |parent, mode| {
            let (kind, device) = (FileType::from_raw_mode(entry.mode), decode_device(device));
            rustix::fs::mknodat(&parent.fd, entry.name, kind, mode, device)
        })?;
        self.lookup(entry.parent, entry.name)
    }

    pub(crate) fn create_directory(self: &Arc<MountState>, entry: &NewEntry<'_>) -> Result<Attributes> {
        self.as_caller(entry, |parent, mode| {
            rustix::fs::mkdirat(&parent.fd, entry.name, mode)
        })?;
        self.lookup(entry.parent, entry.name)
    }

    pub(crate) fn create_symlink(
        self: &Arc<MountState>,
        entry: &NewEntry<'_>,
        target: &Path,
    ) -> Result<Attributes> {
        self.as_caller(entry, |parent, _| {
            rustix::fs::symlinkat(target, &parent.fd, entry.name)
        })?;
        self.lookup(entry.parent, entry.name)
    }

    /// Creates a file, and opens it for reading and writing, whatever its mode will be.
    ///
    /// # Errors
    /// `ESTALE` if the name has appeared since the kernel looked it up: see `stale_dentry.rs`.
    pub(crate) fn create_file(
        self: &Arc<MountState>,
        entry: &NewEntry<'_>,
        exclusive: bool,
    ) -> Result<Created> {
        if self.is_read_only {
            return Err(Errno::ROFS);
        }
        self.relieve_descriptors();
        // The cache opens it once more for direct I/O, which root may whatever the mode.
        let own = match self.is_root {
            true => Mode::empty(),
            false => Mode::RUSR | Mode::WUSR,
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let created = self.retrying_emfile(|| {
            self.as_caller(entry, |parent, mode| {
                let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
                let file = rustix::fs::openat(&parent.fd, entry.name, flags, mode | own)?;
                Ok((file, own - mode))
            })
        });
        let (file, extra_mode) = match created {
            Err(Errno::EXIST) if !exclusive => return Err(Errno::STALE),
            other => other?,
        };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = self.retrying_emfile(|| rustix::fs::open(&*path, flags, Mode::empty()))?;
        let stat = rustix::fs::fstat(&fd)?;
        let inode = self.inodes.insert(fd, &stat);
        inode.set_dentry(entry.parent, entry.name);
        // Nobody has given it capabilities yet, and the kernel says what takes them from it later.
        *inode.nosec.lock() = !Mode::from_raw_mode(stat.st_mode).intersects(Mode::SUID | Mode::SGID);
        Ok(Created {
            file: file.into(),
            inode,
            extra_mode,
        })
    }

    pub(crate) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<()> {
        let directory = self.inode(parent)?;
        self.unlinking(&directory, (parent, name), || {
            rustix::fs::unlinkat(&directory.fd, name, flags)
        })
    }

    /// Calls `unlink`, which removes a name of a file that may have others.
    fn unlinking(
        &self,
        directory: &Inode,
        (parent, name): (u64, &OsStr),
        unlink: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let inode = self.known_inode_at(directory, name);
        // Before: another file may have the name as soon as it is free, and `descriptors.rs` invalidates what the dentry says.
        let was_cached = inode
            .as_ref()
            .is_some_and(|inode| inode.take_dentry(parent, name));
        let unlinked = unlink();
        match (&inode, &unlinked) {
            (Some(inode), Ok(())) => {
                self.attributes_changed(inode);
                self.note_removed(inode);
            }
            (Some(inode), Err(_)) if was_cached => inode.set_dentry(parent, name),
            _ => {}
        }
        unlinked
    }

    /// The file has lost a name: it will give its room back if that was the last.
    pub(super) fn note_removed(&self, inode: &Inode) {
        if rustix::fs::fstat(&inode.fd).is_ok_and(|stat| stat.st_nlink == 0) {
            let mut data = inode.data.lock();
            data.is_removed = true;
            inode.leave(&data, &self.room);
            self.room.note_given();
        }
    }

    /// Not to be called by a thread that answers the kernel: data go first.
    pub(crate) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<()> {
        let (old, new) = (self.inode(from.0)?, self.inode(to.0)?);
        let flags = RenameFlags::from_bits_retain(flags);
        self.write_out_named(&old, from.1)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            self.write_out_named(&new, to.1)?;
        }
        self.unlinking(&new, to, || {
            rustix::fs::renameat_with(&old.fd, from.1, &new.fd, to.1, flags)
        })?;
        // The kernel moves its dentries without a lookup.
        self.dentry_moved(&new, to);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.dentry_moved(&old, from);
        }
        Ok(())
    }

    /// A file that the kernel may know has this name now.
    fn dentry_moved(&self, directory: &Inode, (parent, name): (u64, &OsStr)) {
        // Gone again: then its next lookup finds nothing.
        if let Some(inode) = self.known_inode_at(directory, name) {
            inode.set_dentry(parent, name);
            self.attributes_changed(&inode);
        }
    }

    /// The file of this name, if the kernel knows it.
    pub(crate) fn known_inode_at(&self, directory: &Inode, name: &OsStr) -> Option<Arc<Inode>> {
        let stat = rustix::fs::statat(&directory.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        self.inodes.peek(Identity::of(&stat))
    }

    /// Not to be called by a thread that answers the kernel: data go first.
    pub(crate) fn link(self: &Arc<MountState>, id: u64, parent: u64, name: &OsStr) -> Result<Attributes> {
        let (inode, parent_inode) = (self.inode(id)?, self.inode(parent)?);
        self.write_out(&inode)?;
        // Through its name in /proc, since a descriptor alone may be linked by root only.
        rustix::fs::linkat(CWD, inode.path(), &parent_inode.fd, name, AtFlags::SYMLINK_FOLLOW)?;
        self.attributes_changed(&inode);
        self.lookup(parent, name)
    }

    pub(crate) fn read_link(&self, id: u64) -> Result<OsString> {
        let inode = self.inode(id)?;
        let target = rustix::fs::readlinkat(&inode.fd, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }
}
