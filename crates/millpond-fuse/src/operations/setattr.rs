//! Sets attributes, and reports those of the file system. The length goes through the cache, all else directly to the
//! underlying file system.

use super::order::note_cut;
use crate::attributes::{Attributes, BLOCK_BYTES, blocks_with_unwritten, timespec};
use crate::credentials::Credentials;
use crate::inode::Inode;
use crate::inode::content::Content;
use crate::state::{MountState, PAGE_BYTES};
use fuser::{INodeNo, TimeOrNow};
use millpond::units::PageCount;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatVfs, Timespec, Timestamps, UTIME_OMIT, Uid,
};
use rustix::io::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is to be changed.
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) len: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
    /// Of the open file through which it is changed.
    pub(crate) handle: Option<u64>,
    pub(crate) caller: Credentials,
}

impl MountState {
    /// Changes attributes of a file. All of them, as they are then.
    pub(crate) fn change(self: &Arc<MountState>, id: u64, change: &Change) -> Result<Attributes> {
        let inode = self.inode(id)?;
        if let Some(mode) = change.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            let mut nosec = inode.nosec.lock();
            *nosec = false;
            rustix::fs::chmodat(CWD, inode.path(), mode, AtFlags::empty())?;
            drop(nosec);
            self.attributes_changed(&inode);
        }
        if change.user.is_some() || change.group.is_some() {
            let (user, group) = (change.user.map(Uid::from_raw), change.group.map(Gid::from_raw));
            let before = rustix::fs::fstat(&inode.fd)?;
            rustix::fs::chownat(&inode.fd, "", user, group, AtFlags::EMPTY_PATH)?;
            self.drop_setgid(&inode, &before, &change.caller)?;
            self.attributes_changed(&inode);
        }
        if let Some(len) = change.len {
            self.set_len(&inode, len, change)?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            self.set_times(&inode, change)?;
        }
        self.attributes(&inode)
    }

    fn set_len(self: &Arc<MountState>, inode: &Arc<Inode>, len: u64, change: &Change) -> Result<()> {
        self.drop_privileges(inode, &change.caller, None)?;
        let thread = change.caller.thread;
        let open = change.handle.and_then(|handle| self.files.find(handle));
        match open.filter(|file| file.content.is_writable) {
            Some(file) => self.truncate(inode, &file.content, len, thread)?,
            None => {
                let content = self.open_content(inode, true)?;
                let truncated = self.truncate(inode, &content, len, thread);
                drop(content);
                self.close(inode);
                truncated?;
            }
        }
        self.data_changed(inode);
        Ok(())
    }

    /// Gives a file its length. Blocks past its end, which were allocated ahead, go as well; the cache leaves a file alone
    /// that has its length already.
    fn truncate(&self, inode: &Inode, content: &Content, len: u64, thread: u32) -> Result<()> {
        note_cut(&mut inode.data.lock(), content, len, thread);
        content.set_len(len)?;
        self.room.note_given();
        let stat = rustix::fs::fstat(&inode.fd)?;
        let whole = len.next_multiple_of(u64::try_from(stat.st_blksize).unwrap_or(PAGE_BYTES).max(1));
        let has_more = stat.st_size as u64 == len && stat.st_blocks as u64 * BLOCK_BYTES > whole;
        if self.cache.is_none() || !has_more {
            return Ok(());
        }
        // On ext4 no write may be under way then (`File::resize_device`). The kernel lets none begin meanwhile, but
        // asynchronous ones (io_uring, libaio) may not be done. If one is not, or the file can't be written or opened, the
        // blocks stay: the length is what was asked for.
        if inode.writing.load(Ordering::SeqCst) == 0
            && content.write_out().is_ok()
            && let Ok(below) = self.reopen(inode, OFlags::WRONLY)
        {
            let _ = rustix::fs::ftruncate(below, len);
        }
        Ok(())
    }

    fn set_times(&self, inode: &Inode, change: &Change) -> Result<()> {
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
        rustix::fs::utimensat(&inode.fd, "", &stamps, AtFlags::EMPTY_PATH)?;
        if change.modified.is_some() {
            inode.times.lock().mtime_set(stamps.last_modification, now);
        }
        self.attributes_changed(inode);
        let mut data = inode.data.lock();
        if data.content.is_some() && inode.times.lock().pending_mtime().is_none() {
            data.disk_version = Some(self.disk_version(inode)?);
        }
        Ok(())
    }

    /// After an owner or a group has changed: the system has left the set-group-ID bit for us, as we may set any group, where it
    /// would not for the caller (`setattr_should_drop_sgid`, Linux 6.18).
    fn drop_setgid(&self, inode: &Inode, before: &Stat, caller: &Credentials) -> Result<()> {
        let mode = Mode::from_raw_mode(before.st_mode);
        let is_directory = FileType::from_raw_mode(before.st_mode).is_dir();
        if is_directory || !mode.contains(Mode::SGID) || caller.may_set_group(before.st_gid) {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&inode.fd)?.st_mode);
        rustix::fs::chmodat(CWD, inode.path(), mode - Mode::SGID, AtFlags::empty())
    }

    /// Before the data of a file are changed: removes its privileges, so that no user runs with them what another has written
    /// (`file_remove_privs`, `setattr_should_drop_suidgid`, Linux 6.18). Its capabilities for every caller; its
    /// set-user-ID and set-group-ID bits if `drops_ids`, or, where the kernel does not say, if the caller lacks `CAP_FSETID`.
    pub(crate) fn drop_privileges(
        &self,
        inode: &Inode,
        caller: &Credentials,
        drops_ids: Option<bool>,
    ) -> Result<()> {
        const CAPABILITIES: &str = "security.capability";
        let mut nosec = inode.nosec.lock();
        if *nosec {
            return Ok(());
        }
        if rustix::fs::getxattr_query(inode.path(), CAPABILITIES).is_ok() {
            match rustix::fs::removexattr(inode.path(), CAPABILITIES) {
                // Gone meanwhile; or the file system below removes them when the data get there.
                Ok(()) | Err(Errno::NODATA | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        let stat = rustix::fs::fstat(&inode.fd)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        if mode.intersects(Mode::SUID | Mode::SGID) && drops_ids.unwrap_or_else(|| !caller.may_keep_ids()) {
            let mut dropped = mode & Mode::SUID;
            if mode.contains(Mode::SGID) && (mode.contains(Mode::XGRP) || !caller.may_set_group(stat.st_gid))
            {
                dropped |= Mode::SGID;
            }
            if !dropped.is_empty() {
                rustix::fs::chmodat(CWD, inode.path(), mode - dropped, AtFlags::empty())?;
                self.invalidate_attributes(inode)?;
            }
            *nosec = dropped == mode & (Mode::SUID | Mode::SGID);
        } else {
            *nosec = !mode.intersects(Mode::SUID | Mode::SGID);
        }
        Ok(())
    }

    /// Invalidates a file's attributes in the kernel, which runs programs by the mode that it has cached. This may be done
    /// within a call for that file, since it takes none of the locks that the kernel holds meanwhile
    /// (`fuse_reverse_inval_inode`, Linux 6.18).
    fn invalidate_attributes(&self, inode: &Inode) -> Result<()> {
        /// Data stay.
        const ATTRIBUTES_ONLY: i64 = -1;
        let invalidated = self.notifier.get().map_or(Ok(()), |notifier| {
            notifier.inval_inode(INodeNo(inode.id), ATTRIBUTES_ONLY, 0)
        });
        invalidated.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// As below, less the blocks that what is not written yet will need.
    pub(crate) fn statfs(&self, id: u64) -> Result<StatVfs> {
        // First: what is written meanwhile counts twice, and not nowhere.
        let needed = self.blocks_needed().saturating_mul(BLOCK_BYTES);
        let mut stat = rustix::fs::fstatvfs(&self.inode(id)?.fd)?;
        let needed = needed.div_ceil(stat.f_frsize.max(1));
        stat.f_bfree = stat.f_bfree.saturating_sub(needed);
        stat.f_bavail = stat.f_bavail.saturating_sub(needed);
        Ok(stat)
    }

    /// How many more blocks all files will have below when everything is written.
    fn blocks_needed(&self) -> u64 {
        let is_clean = self.cache.as_ref().is_none_or(|cache| {
            let now = cache.stats().occupancy;
            now.dirty + now.writing == PageCount(0)
        });
        if is_clean {
            return 0;
        }
        let needed_by = |inode: &Arc<Inode>| {
            // One that is just being opened is not waited for: it has nothing to write.
            let content = inode.data.try_lock()?.content.clone()?;
            let unwritten = content.unwritten_bytes();
            if unwritten == 0 {
                return None;
            }
            let mut stat = rustix::fs::fstat(&inode.fd).ok()?;
            stat.st_size = content.cached_len()? as _;
            Some(blocks_with_unwritten(&stat, unwritten) - stat.st_blocks as u64)
        };
        self.inodes.all().iter().filter_map(needed_by).sum()
    }
}
