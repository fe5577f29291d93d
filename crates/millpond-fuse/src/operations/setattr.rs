//! Attributes: asked for and changed. The length goes through the cache, all else straight to the file system below.

use crate::attributes::timespec;
use crate::caller::Asks;
use crate::inode::content::{Content, Result};
use crate::inode::{Node, Seen};
use crate::state::{PAGE_BYTES, Pond};
use fuser::{FileAttr, INodeNo, TimeOrNow};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatVfs, Timespec, Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What `st_blocks` counts in.
const BLOCK_BYTES: u64 = 512;

/// What is to be changed.
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) len: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
    /// Of who has the file open that is changed.
    pub(crate) handle: Option<u64>,
    pub(crate) asks: Asks,
}

impl Pond {
    pub(crate) fn change(self: &Arc<Pond>, id: u64, change: &Change) -> Result<FileAttr> {
        let node = self.node(id)?;
        if let Some(mode) = change.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            let mut is_bare = node.is_bare.lock();
            *is_bare = false;
            rustix::fs::chmodat(CWD, node.path(), mode, AtFlags::empty())?;
            drop(is_bare);
            self.attributes_changed(&node);
        }
        if change.user.is_some() || change.group.is_some() {
            let (user, group) = (change.user.map(Uid::from_raw), change.group.map(Gid::from_raw));
            let before = rustix::fs::fstat(&node.place)?;
            rustix::fs::chownat(&node.place, "", user, group, AtFlags::EMPTY_PATH)?;
            self.drop_group(&node, &before, &change.asks)?;
            self.attributes_changed(&node);
        }
        if let Some(len) = change.len {
            self.set_len(&node, len, change)?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            self.set_times(&node, change)?;
        }
        self.attributes(&node)
    }

    fn set_len(self: &Arc<Pond>, node: &Arc<Node>, len: u64, change: &Change) -> Result<()> {
        self.drop_privileges(node, &change.asks, None)?;
        let open = change.handle.and_then(|handle| self.files.find(handle));
        match open.filter(|file| file.content.is_writable) {
            Some(file) => self.cut(node, &file.content, len)?,
            None => {
                let content = self.content(node, true)?;
                let cut = self.cut(node, &content, len);
                drop(content);
                self.close(node);
                cut?;
            }
        }
        self.written(node);
        Ok(())
    }

    /// Gives a file its length. Blocks behind that, which were allocated ahead, go as well; the cache leaves a file alone that
    /// is as long as it should be.
    fn cut(&self, node: &Node, content: &Content, len: u64) -> Result<()> {
        content.set_len(len)?;
        let stat = rustix::fs::fstat(&node.place)?;
        let whole = len.next_multiple_of(u64::try_from(stat.st_blksize).unwrap_or(PAGE_BYTES).max(1));
        let has_more = stat.st_size as u64 == len && stat.st_blocks as u64 * BLOCK_BYTES > whole;
        if self.cache.is_none() || !has_more {
            return Ok(());
        }
        // On ext4 no write may be under way then (`File::resize_device`). The kernel lets nobody begin one meanwhile, but those
        // that nobody waits for (io_uring, libaio) may not be done. If one is not, or the file can't be written or opened, the
        // blocks stay: the length is what was asked for.
        if node.writing.load(Ordering::SeqCst) == 0
            && content.write_out().is_ok()
            && let Ok(below) = self.reopen(node, OFlags::WRONLY)
        {
            let _ = rustix::fs::ftruncate(below, len);
        }
        Ok(())
    }

    fn set_times(&self, node: &Node, change: &Change) -> Result<()> {
        let now = self.clock.now();
        let time = |given: Option<TimeOrNow>| match given {
            Some(TimeOrNow::SpecificTime(time)) => timespec(time),
            Some(TimeOrNow::Now) => now,
            None => Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
        };
        let stamps = Timestamps {
            last_access: time(change.accessed),
            last_modification: time(change.modified),
        };
        rustix::fs::utimensat(&node.place, "", &stamps, AtFlags::EMPTY_PATH)?;
        if change.modified.is_some() {
            node.times.lock().set(stamps.last_modification, now);
        }
        self.attributes_changed(node);
        let mut data = node.data.lock();
        if data.content.is_some() && node.times.lock().to_settle().is_none() {
            data.seen = Some(Seen::of(&rustix::fs::fstat(&node.place)?));
        }
        Ok(())
    }

    /// After an owner or a group has changed: the system has done for us, who may let it run as any group, what it would not
    /// for whoever asks (`setattr_should_drop_sgid`, Linux 6.18).
    fn drop_group(&self, node: &Node, before: &Stat, asks: &Asks) -> Result<()> {
        let mode = Mode::from_raw_mode(before.st_mode);
        let is_directory = FileType::from_raw_mode(before.st_mode).is_dir();
        if is_directory || !mode.contains(Mode::SGID) || asks.may_set_group(before.st_gid) {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&node.place)?.st_mode);
        rustix::fs::chmodat(CWD, node.path(), mode - Mode::SGID, AtFlags::empty())
    }

    /// Before the data of a file are changed: what it may do is taken from it, so that nobody runs what another has put
    /// there with it. Its capabilities by whoever it is; that it runs as its owner or its group by whoever may not say so
    /// himself, which the kernel has `told` of or not (`file_remove_privs`, `setattr_should_drop_suidgid`, Linux 6.18).
    pub(crate) fn drop_privileges(&self, node: &Node, asks: &Asks, told: Option<bool>) -> Result<()> {
        const CAPABILITIES: &str = "security.capability";
        let mut is_bare = node.is_bare.lock();
        if *is_bare {
            return Ok(());
        }
        if rustix::fs::getxattr_query(node.path(), CAPABILITIES).is_ok() {
            match rustix::fs::removexattr(node.path(), CAPABILITIES) {
                // Gone meanwhile; or the file system below does it, when the data come there.
                Ok(()) | Err(Errno::NODATA | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        let stat = rustix::fs::fstat(&node.place)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        if mode.intersects(Mode::SUID | Mode::SGID) && told.unwrap_or_else(|| !asks.may_keep_ids()) {
            let mut dropped = mode & Mode::SUID;
            if mode.contains(Mode::SGID) && (mode.contains(Mode::XGRP) || !asks.may_set_group(stat.st_gid)) {
                dropped |= Mode::SGID;
            }
            if !dropped.is_empty() {
                rustix::fs::chmodat(CWD, node.path(), mode - dropped, AtFlags::empty())?;
                self.forget_attributes(node)?;
            }
            *is_bare = dropped == mode & (Mode::SUID | Mode::SGID);
        } else {
            *is_bare = !mode.intersects(Mode::SUID | Mode::SGID);
        }
        Ok(())
    }

    /// Has the kernel ask again for what it was told of a file: whoever runs it does so by the mode that the kernel knows. It
    /// may be told so within a call for that file, since it takes none of the locks that it holds meanwhile
    /// (`fuse_reverse_inval_inode`, Linux 6.18).
    fn forget_attributes(&self, node: &Node) -> Result<()> {
        /// Data stay.
        const ATTRIBUTES_ONLY: i64 = -1;
        let told = self.notifier.get().map_or(Ok(()), |notifier| {
            notifier.inval_inode(INodeNo(node.id), ATTRIBUTES_ONLY, 0)
        });
        told.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    pub(crate) fn statistics(&self, id: u64) -> Result<StatVfs> {
        rustix::fs::fstatvfs(&self.node(id)?.place)
    }
}
