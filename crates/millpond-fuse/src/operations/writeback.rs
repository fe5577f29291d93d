//! Closed files: write back and evict; and syncing all files.
//!
//! A file's data leaves the cache only when it is on the disk. Unwritable data stays and is retried, even long after
//! the kernel has forgotten the file.

use crate::inode::content::Content;
use crate::inode::{Data, DiskVersion, Inode};
use crate::state::MountState;
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::{Errno, Result};
use std::sync::Arc;
use std::time::Duration;

/// A closed file's times are written so long after its pages have left by themselves (`flusher.expire` after they were
/// changed): then there is nothing to wait for.
const WRITE_TIMES_BEHIND: Duration = Duration::from_secs(10);

impl MountState {
    /// Writes back a file and drops its data, if it is still closed. What can't be written is tried again later.
    pub(crate) fn evict(self: &Arc<MountState>, inode: &Arc<Inode>) {
        if self.try_evict(inode).is_err() {
            self.unwritten.lock().push(inode.clone());
        }
    }

    /// # Errors
    /// Its writeback fails.
    fn try_evict(&self, inode: &Arc<Inode>) -> Result<()> {
        // Before its data are locked: `InodeTable::remove` locks in the other order.
        let is_forgotten = self.inodes.is_forgotten(inode);
        let unlinked = {
            let data = inode.data.lock();
            if data.opens > 0 {
                return Ok(());
            }
            is_forgotten.then(|| self.drop_growth(inode, &data)).flatten()
        };
        let mut written = self.write_inode(inode);
        if let (Err(_), Some(content)) = (&written, unlinked) {
            content.discard_unwritten()?;
            written = self.write_inode(inode);
        }
        let generation = written?;
        let mut data = inode.data.lock();
        if data.opens == 0 && Some(data.generation) == generation {
            let content = data.content.take();
            drop(data);
            drop(content);
        } else {
            drop(data);
        }
        self.inodes.remove(inode);
        Ok(())
    }

    /// Of an unlinked file, which the kernel has forgotten, drops what would make it longer below: no program can read it. The
    /// rest is for those that have it open in the source, and is written. Its content, if it is such a file.
    fn drop_growth(&self, inode: &Inode, data: &Data) -> Option<Arc<Content>> {
        let content = data.content.as_ref().filter(|content| content.is_writable)?;
        let stat = rustix::fs::fstat(&inode.fd).ok()?;
        if self.cache.is_none() || stat.st_nlink > 0 {
            return None;
        }
        let below = stat.st_size as u64;
        if content.cached_len().is_some_and(|len| len > below) {
            // If that fails it is written.
            let _ = content.set_len(below);
        }
        Some(content.clone())
    }

    /// Writes back a closed file: its pages, then its times. The generation in which it was closed; `None` if it is open, or
    /// was opened meanwhile.
    pub(super) fn write_inode(&self, inode: &Inode) -> Result<Option<u64>> {
        let (content, generation) = {
            let data = inode.data.lock();
            if data.opens > 0 {
                return Ok(None);
            }
            (data.content.clone(), data.generation)
        };
        let Some(content) = content.filter(|content| !content.is_unread()) else {
            return Ok(Some(generation));
        };
        content.write_out()?;
        let mut data = inode.data.lock();
        if data.opens > 0 || data.generation != generation {
            return Ok(None);
        }
        let mut times = inode.times.lock();
        if let Some(mtime) = times.pending_mtime() {
            // Refused for another's file that we may write to: it has the disk's own time then.
            let _ = self.set_mtime(inode, mtime);
            let stat = rustix::fs::fstat(&inode.fd)?;
            times.mtime_written(&stat);
            data.disk_version = Some(DiskVersion::of(&stat));
        }
        Ok(Some(generation))
    }

    pub(crate) fn set_mtime(&self, inode: &Inode, mtime: Timespec) -> Result<()> {
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: mtime,
        };
        rustix::fs::utimensat(&inode.fd, "", &times, AtFlags::EMPTY_PATH)
    }

    /// To be called every few seconds: writes the times of files that were closed a while ago, and tries again what could not
    /// be written.
    pub(crate) fn write_closed(self: &Arc<MountState>) {
        for inode in self.closed.older_than(self.expire() + WRITE_TIMES_BEHIND) {
            if self.write_inode(&inode).is_err() {
                self.unwritten.lock().push(inode);
            }
        }
        let unwritten = std::mem::take(&mut *self.unwritten.lock());
        for inode in unwritten {
            match self.inodes.is_forgotten(&inode) {
                true => self.evict(&inode),
                false => {
                    if self.write_inode(&inode).is_err() {
                        self.unwritten.lock().push(inode);
                    }
                }
            }
        }
    }

    /// Makes everything durable that was written so far.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.write_back_maps();
        let synced = self.cache.as_ref().map_or(Ok(()), |cache| cache.sync_all());
        synced.map_err(|e| Errno::from_raw_os_error(e.errno()))?;
        self.sync_below()
    }

    /// The cache syncs what it has. Files that it has evicted are written, and not yet durable; so are names and attributes.
    pub(super) fn sync_below(&self) -> Result<()> {
        let synced = rustix::fs::syncfs(&self.source);
        // The system reports an error once. What it could not write is in no memory any more, so this fails for good.
        let mut failed = self.below_failed.lock();
        *failed = failed.or(synced.err());
        failed.map_or(Ok(()), Err)
    }
}
