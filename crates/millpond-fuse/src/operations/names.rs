//! Names: found, given, changed, taken away.

use crate::attributes::decode_device;
use crate::caller::Caller;
use crate::inode::content::Result;
use crate::inode::{Identity, Node};
use crate::state::Pond;
use fuser::FileAttr;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where something is to be made, and who asks for it.
pub(crate) struct Making<'a> {
    pub(crate) parent: u64,
    pub(crate) name: &'a OsStr,
    /// User and group.
    pub(crate) caller: (u32, u32),
    /// The thread that asks.
    pub(crate) thread: u32,
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// A file that was made.
pub(crate) struct Made {
    pub(crate) file: File,
    pub(crate) node: Arc<Node>,
    /// Permissions that it has and is not to keep.
    pub(crate) added: Mode,
}

impl Pond {
    /// The file of this name, of which the kernel is told.
    pub(crate) fn lookup(self: &Arc<Pond>, parent: u64, name: &OsStr) -> Result<FileAttr> {
        let (node, stat) = self.look(parent, &self.node(parent)?.place, name)?;
        let told = self.told(&node, &stat);
        if told.is_err() {
            self.forget(node.id, 1);
        }
        told
    }

    /// The file of this name in the directory `parent`, which is open as `directory`.
    pub(crate) fn look(
        self: &Arc<Pond>,
        parent: u64,
        directory: impl AsFd,
        name: &OsStr,
    ) -> Result<(Arc<Node>, Stat)> {
        let directory = directory.as_fd();
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // Its number is given to no other as long as it is known.
        if let Some(node) = self.nodes.known(Identity::of(&stat)) {
            node.found_at(parent, name);
            return Ok((node, stat));
        }
        self.leave_room();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = self.patiently(|| rustix::fs::openat(directory, name, flags, Mode::empty()))?;
        let stat = rustix::fs::fstat(&place)?;
        let node = self.nodes.enter(place, &stat);
        node.found_at(parent, name);
        Ok((node, stat))
    }

    /// The kernel has forgotten `count` of what it was told of the file.
    pub(crate) fn forget(self: &Arc<Pond>, id: u64, count: u64) {
        let Some(node) = self.nodes.forget(id, count) else {
            return;
        };
        if node.data.lock().content.is_none() {
            return self.nodes.remove(&node);
        }
        let pond = self.clone();
        self.pool.later(move || pond.let_go(&node));
    }

    /// Does `make` in a directory as the caller, with the mode that the new file is to have.
    fn making<T>(&self, at: &Making<'_>, make: impl FnOnce(&Node, Mode) -> Result<T>) -> Result<T> {
        let parent = self.node(at.parent)?;
        let mode = Mode::from_raw_mode(self.mode(&parent, at));
        let _acting = Caller::act_as(self.is_root.then_some(at.caller))?;
        make(&parent, mode)
    }

    /// The umask counts unless the directory has a default ACL, from which the file system below makes the mode.
    fn mode(&self, parent: &Node, at: &Making<'_>) -> u32 {
        const DEFAULT_ACL: &str = "system.posix_acl_default";
        let mode = at.mode & 0o7777;
        if !self.applies_umask.load(Ordering::Relaxed) {
            return mode;
        }
        match rustix::fs::getxattr_query(parent.path(), DEFAULT_ACL) {
            Ok(len) if len > 0 => mode,
            _ => mode & !at.umask,
        }
    }

    pub(crate) fn make_node(self: &Arc<Pond>, at: &Making<'_>, device: u32) -> Result<FileAttr> {
        self.making(at, |parent, mode| {
            let (kind, device) = (FileType::from_raw_mode(at.mode), decode_device(device));
            rustix::fs::mknodat(&parent.place, at.name, kind, mode, device)
        })?;
        self.lookup(at.parent, at.name)
    }

    pub(crate) fn make_directory(self: &Arc<Pond>, at: &Making<'_>) -> Result<FileAttr> {
        self.making(at, |parent, mode| {
            rustix::fs::mkdirat(&parent.place, at.name, mode)
        })?;
        self.lookup(at.parent, at.name)
    }

    pub(crate) fn make_symlink(self: &Arc<Pond>, at: &Making<'_>, target: &Path) -> Result<FileAttr> {
        self.making(at, |parent, _| {
            rustix::fs::symlinkat(target, &parent.place, at.name)
        })?;
        self.lookup(at.parent, at.name)
    }

    /// Makes a file, and opens it for reading and writing, whatever its mode will be.
    ///
    /// # Errors
    /// `ESTALE` if the name has appeared since the kernel has asked for it: see `stale_dentry.rs`.
    pub(crate) fn make_file(self: &Arc<Pond>, at: &Making<'_>, exclusive: bool) -> Result<Made> {
        if self.is_read_only {
            return Err(Errno::ROFS);
        }
        self.leave_room();
        // The cache opens it once more for direct I/O, which root may whatever the mode.
        let own = match self.is_root {
            true => Mode::empty(),
            false => Mode::RUSR | Mode::WUSR,
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let made = self.patiently(|| {
            self.making(at, |parent, mode| {
                let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
                let file = rustix::fs::openat(&parent.place, at.name, flags, mode | own)?;
                Ok((file, own - mode))
            })
        });
        let (file, added) = match made {
            Err(Errno::EXIST) if !exclusive => return Err(Errno::STALE),
            other => other?,
        };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let place = self.patiently(|| rustix::fs::open(&*path, flags, Mode::empty()))?;
        let stat = rustix::fs::fstat(&place)?;
        let node = self.nodes.enter(place, &stat);
        node.found_at(at.parent, at.name);
        Ok(Made {
            file: file.into(),
            node,
            added,
        })
    }

    pub(crate) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<()> {
        let directory = self.node(parent)?;
        self.taking_away(&directory, (parent, name), || {
            rustix::fs::unlinkat(&directory.place, name, flags)
        })
    }

    /// Does what takes a name from a file that may have others yet.
    fn taking_away(
        &self,
        directory: &Node,
        (parent, name): (u64, &OsStr),
        take: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let node = self.known_at(directory, name);
        // Before: it may be another's as soon as it is free, and `descriptors.rs` forgets what has none.
        let was_there = node.as_ref().is_some_and(|node| node.leave(parent, name));
        let taken = take();
        match (&node, &taken) {
            (Some(node), Ok(())) => self.attributes_changed(node),
            (Some(node), Err(_)) if was_there => node.found_at(parent, name),
            _ => {}
        }
        taken
    }

    pub(crate) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<()> {
        let (old, new) = (self.node(from.0)?, self.node(to.0)?);
        let flags = RenameFlags::from_bits_retain(flags);
        self.taking_away(&new, to, || {
            rustix::fs::renameat_with(&old.place, from.1, &new.place, to.1, flags)
        })?;
        // The kernel moves the names that it knows without asking.
        self.is_now(&new, to);
        if flags.contains(RenameFlags::EXCHANGE) {
            self.is_now(&old, from);
        }
        Ok(())
    }

    /// A file that may be known has this name now.
    fn is_now(&self, directory: &Node, (parent, name): (u64, &OsStr)) {
        // Gone again: then the kernel is told of nothing either.
        if let Some(node) = self.known_at(directory, name) {
            node.found_at(parent, name);
            self.attributes_changed(&node);
        }
    }

    /// The file of this name, if the kernel knows it.
    pub(crate) fn known_at(&self, directory: &Node, name: &OsStr) -> Option<Arc<Node>> {
        let stat = rustix::fs::statat(&directory.place, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        self.nodes.seen(Identity::of(&stat))
    }

    pub(crate) fn link(self: &Arc<Pond>, id: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        let (node, parent_node) = (self.node(id)?, self.node(parent)?);
        // Through its name in /proc, since a descriptor alone may be linked by root only.
        rustix::fs::linkat(
            CWD,
            node.path(),
            &parent_node.place,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?;
        self.attributes_changed(&node);
        self.lookup(parent, name)
    }

    pub(crate) fn read_link(&self, id: u64) -> Result<OsString> {
        let node = self.node(id)?;
        let target = rustix::fs::readlinkat(&node.place, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }
}
