//! Data: open, read, write, sync, close.

use super::lend::WHOLE;
use super::names::{Created, NewEntry};
use crate::attributes::Attributes;
use crate::credentials::Credentials;
use crate::flags::{Durability, OpenFlags};
use crate::inode::content::Content;
use crate::inode::kernel_pages::{PageWriteback, WriteThrough};
use crate::inode::lent::LentWrite;
use crate::inode::{Data, Inode};
use crate::room::is_no_room;
use crate::state::{MountState, OpenFile};
use fuser::INodeNo;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a name may appear and vanish within one call that creates it. A program that changes names behind the mount
/// that fast gets the error.
const CREATE_TRIES: u32 = 100;

/// How a write is to be done.
pub(crate) struct Write {
    pub(crate) offset: u64,
    /// As `fcntl(F_GETFL)` says of the writer, with what this call asks for.
    pub(crate) flags: OpenFlags,
    pub(crate) caller: Credentials,
    /// Set-user-ID and set-group-ID bits have to go.
    pub(crate) drops_privileges: bool,
    pub(crate) kind: WriteKind,
}

/// Where the bytes of a write have been before.
pub(crate) enum WriteKind {
    /// They come past the kernel's pages.
    Direct,
    /// In the kernel's pages, by a write.
    Through(WriteThrough, LentWrite),
    /// In the kernel's pages, stored through a map: the kernel takes its page for clean, whatever is answered.
    PageWriteback(PageWriteback),
}

impl MountState {
    /// Opens a file. Its handle.
    pub(crate) fn open(self: &Arc<MountState>, id: u64, flags: OpenFlags) -> Result<u64> {
        let inode = self.inode(id)?;
        let content = self.open_content(&inode, flags.writes())?;
        Ok(self.add_file(inode, content, flags))
    }

    /// The handle of a file whose content is open.
    pub(crate) fn add_file(&self, inode: Arc<Inode>, content: Arc<Content>, flags: OpenFlags) -> u64 {
        let is_shared = flags.reads() && flags.writes() && self.lend_pool.is_some();
        if is_shared {
            // It may be mapped, and the kernel's pages be stored to.
            inode.kernel_pages.note_mapped();
        }
        let writes_through = is_shared && !flags.is_direct();
        if writes_through {
            inode.lent.add_writer();
        }
        self.files.add(OpenFile {
            inode,
            content,
            durability: flags.durability(),
            writes_through,
        })
    }

    /// Whether the kernel caches a file that is opened so. What is only written is not worth its memory.
    pub(crate) fn is_lent(&self, flags: OpenFlags) -> bool {
        self.lend_pool.is_some() && flags.reads() && !flags.is_direct()
    }

    /// Creates a file and opens it. Its handle, and its attributes.
    pub(crate) fn create(
        self: &Arc<MountState>,
        entry: &NewEntry<'_>,
        flags: OpenFlags,
    ) -> Result<(u64, Attributes)> {
        let is_stale = |created: &Result<Created>| matches!(created, Err(Errno::STALE));
        let mut created = self.create_file(entry, flags.is_exclusive());
        if is_stale(&created) && self.is_create_retry(entry) {
            // The kernel has looked the name up once more, and would not again.
            for _ in 0..CREATE_TRIES {
                match self.open_existing(entry, flags) {
                    Err(Errno::NOENT) => {}
                    other => return other,
                }
                // It has vanished since.
                created = self.create_file(entry, flags.is_exclusive());
                if !is_stale(&created) {
                    break;
                }
            }
        }
        let Created {
            file,
            inode,
            extra_mode,
        } = created?;
        let attached = self.attach_content(&inode, &mut inode.data.lock(), file, true);
        let content = match attached {
            // The descriptor is closed with it, so that there is one to be had.
            Err(Errno::MFILE) => self.open_content(&inode, true),
            other => other,
        };
        let narrowed = self.remove_mode(&inode, extra_mode);
        let opened = content.and_then(|content| {
            let attributes = narrowed.and_then(|()| self.attributes(&inode));
            let attributes = attributes.inspect_err(|_| self.close(&inode))?;
            Ok((content, attributes))
        });
        // The kernel hears of the file only if it hears of all of it.
        let (content, attributes) = opened.inspect_err(|_| self.forget(inode.id, 1))?;
        Ok((self.add_file(inode, content, flags), attributes))
    }

    fn remove_mode(&self, inode: &Inode, bits: Mode) -> Result<()> {
        if bits.is_empty() {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&inode.fd)?.st_mode) - bits;
        rustix::fs::chmodat(CWD, inode.path(), mode, AtFlags::empty())
    }

    /// The data of a file, which the caller has open from now on.
    ///
    /// # Errors
    /// `EROFS` for a writer at a mount that was made for reading only, and remounted by root for more: its source is not
    /// locked.
    pub(crate) fn open_content(&self, inode: &Inode, writes: bool) -> Result<Arc<Content>> {
        if writes && self.is_read_only {
            return Err(Errno::ROFS);
        }
        self.retrying_emfile(|| self.try_open_content(inode, writes))
    }

    fn try_open_content(&self, inode: &Inode, writes: bool) -> Result<Arc<Content>> {
        let mut data = inode.data.lock();
        if data.opens == 0 {
            // Others may have changed the attributes below.
            *inode.nosec.lock() = false;
            // A failed sync is told until all have closed the file. What the disk has of it is read anew.
            if data
                .content
                .take_if(|content| content.has_failed_sync())
                .is_some()
            {
                self.drop_lent(inode, &WHOLE);
            }
        }
        if let Some(content) = data.content.clone() {
            // Also for one that is read-only and shall be written: what is in memory of it is taken over then.
            self.revalidate(inode, &mut data, &content)?;
            if content.is_writable || !writes {
                data.opens += 1;
                data.generation += 1;
                return Ok(content);
            }
        }
        let flags = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let file = self.reopen(inode, flags)?;
        self.attach_content(inode, &mut data, file.into(), writes)
    }

    /// Makes `file` the inode's content, opened once. If there is content already, for reading only, the cache takes both for
    /// the same file from then on.
    fn attach_content(
        &self,
        inode: &Inode,
        data: &mut Data,
        file: File,
        writes: bool,
    ) -> Result<Arc<Content>> {
        let content = match data.content.clone() {
            Some(content) if content.is_writable || !writes => content,
            _ => {
                let content = Arc::new(Content::open(file, writes, self.cache.as_ref())?);
                if data.content.is_none() {
                    let now = Some(self.disk_version(inode)?);
                    if data.disk_version.is_some() && data.disk_version != now {
                        self.drop_lent(inode, &WHOLE);
                    }
                    data.disk_version = now;
                }
                data.content = Some(content.clone());
                content
            }
        };
        data.opens += 1;
        data.generation += 1;
        Ok(content)
    }

    /// Invalidates the cached pages of a closed and clean file that others have changed below.
    fn revalidate(&self, inode: &Inode, data: &mut Data, content: &Content) -> Result<()> {
        if data.opens > 0 || self.cache.is_none() || inode.times.lock().pending_mtime().is_some() {
            return Ok(());
        }
        let now = Some(self.disk_version(inode)?);
        if data.disk_version != now {
            content.invalidate()?;
            // Within a call for that file: none of its pages is dirty, or locked until we answer, as it is not open.
            self.drop_lent(inode, &WHOLE);
            data.disk_version = now;
        }
        Ok(())
    }

    /// The caller has it open no more.
    pub(crate) fn close(self: &Arc<MountState>, inode: &Arc<Inode>) {
        let mut data = inode.data.lock();
        data.opens -= 1;
        if data.opens > 0 {
            return;
        }
        inode.leave(&data, &self.room);
        data.writeback_error = None;
        data.rewritten_by = None;
        inode.kernel_pages.note_unmapped();
        let generation = data.generation;
        let unread = data.content.take_if(|content| content.is_unread());
        let is_evicted = data.content.is_none();
        drop(data);
        drop(unread);
        // The kernel may have forgotten it first: it does not wait for the end of a close before it does.
        let to_evict = match self.inodes.is_forgotten(inode) {
            true => Some(inode.clone()),
            false if is_evicted => None,
            false => self.closed.add(inode, generation),
        };
        if let Some(inode) = to_evict {
            let state = self.clone();
            self.pool.defer(move || state.evict(&inode));
        }
    }

    /// Closes an open file.
    pub(crate) fn release(self: &Arc<MountState>, handle: u64, flags: OpenFlags) {
        if let Some(file) = self.files.remove(handle) {
            if file.writes_through {
                file.inode.lent.remove_writer();
            }
            if flags.writes() {
                self.write_out_if_rewritten(&file);
            }
            self.close(&file.inode);
        }
    }

    /// Writes to an open file, and makes it as durable as the call asks, or the file's opening.
    pub(crate) fn write(&self, file: &OpenFile, bytes: &[u8], how: &Write) -> Result<()> {
        let written = self.write_data(file, bytes, how);
        if let WriteKind::Through(_, lent) = &how.kind {
            self.settle(lent, &file.inode);
        }
        if let (Err(error), WriteKind::PageWriteback(_)) = (written, &how.kind) {
            // The program that stored does not hear of it: the next sync and close do.
            file.inode.data.lock().writeback_error = Some(error);
            self.has_lost_stores.store(true, Ordering::Relaxed);
        }
        written?;
        self.make_durable(file, how.flags.durability())
    }

    fn write_data(&self, file: &OpenFile, bytes: &[u8], how: &Write) -> Result<()> {
        self.drop_privileges(&file.inode, &how.caller, Some(how.drops_privileges))?;
        let (inode, content) = (&file.inode, &file.content);
        let written = match &how.kind {
            WriteKind::PageWriteback(writeback) => {
                let pages = &inode.kernel_pages;
                pages.write_back(writeback, content, bytes, how.offset)
            }
            WriteKind::Through(write, _) => self.write_with_room(file, || {
                let pages = &inode.kernel_pages;
                pages.write_through(write, content, bytes, how.offset)
            }),
            WriteKind::Direct => self.write_with_room(file, || self.direct_write(file, bytes, how.offset)),
        };
        // Also after an error: a part of it may be there, and the file longer.
        self.data_changed(inode);
        written
    }

    /// Writes, and again if too much of the file has found no room before and some has come since.
    fn write_with_room(&self, file: &OpenFile, write: impl Fn() -> Result<()>) -> Result<()> {
        let written = write();
        let content = &file.content;
        let is_worth_it = is_no_room(&written) && content.may_have_room(self.room.given());
        if is_worth_it && self.room.wait_for(|| content.write_out()).is_ok() {
            return write();
        }
        written
    }

    /// Writes what does not come from the kernel's pages, which have it afterwards as well.
    fn direct_write(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> Result<()> {
        let inode = &file.inode;
        let range = offset..offset + bytes.len() as u64;
        let has_pages = || match self.lend_pool {
            Some(_) => inode.lent.overlaps(&range),
            None => inode.kernel_pages.is_mapped(),
        };
        let store = || {
            if let Some(notifier) = self.notifier.get() {
                self.note_lent(inode, &range);
                // It fails for a file that the kernel does not know any more, which has no pages.
                let store = || notifier.store(INodeNo(file.inode.id), offset, bytes);
                let _ = self.held_writes.wait_for_kernel(store);
            }
        };
        (inode.kernel_pages).direct_write(&file.content, bytes, offset, has_pages, store)
    }

    /// The error of a writeback of the kernel's pages since the file was opened.
    fn check_writeback(&self, inode: &Inode) -> Result<()> {
        inode.data.lock().writeback_error.map_or(Ok(()), Err)
    }

    /// Makes durable what has to be before the call that has changed the file returns.
    pub(crate) fn make_durable(&self, file: &OpenFile, durability: Durability) -> Result<()> {
        match durability {
            Durability::Later => Ok(()),
            Durability::Data => self.sync_file(file, true),
            Durability::All => self.sync_file(file, false),
        }
    }

    /// The result of closing a file: whether some of it is lost or can't be written, as far as that is known.
    pub(crate) fn flush(&self, handle: u64) -> Result<()> {
        let file = self.file(handle)?;
        self.check_writeback(&file.inode)?;
        file.content.failure().map_or(Ok(()), Err)
    }

    pub(crate) fn sync(&self, handle: u64, data_only: bool) -> Result<()> {
        self.sync_file(&*self.file(handle)?, data_only)
    }

    fn sync_file(&self, file: &OpenFile, data_only: bool) -> Result<()> {
        let sync = || self.room.wait_for(|| file.content.sync());
        let synced = sync();
        match is_no_room(&synced) && self.invalidate_unlinked_for_room() {
            true => sync()?,
            false => synced?,
        }
        let inode = &file.inode;
        self.check_writeback(inode)?;
        if data_only || !(inode.attributes_changed.swap(false, Ordering::AcqRel)) {
            return Ok(());
        }
        // The times that a program has set, and that writing has changed on disk.
        let explicit = inode.times.lock().explicit_mtime();
        // Refused for another's file that we may write to.
        let _ = explicit.map(|mtime| self.set_mtime(inode, mtime));
        let synced = self.any_descriptor(inode).and_then(rustix::fs::fsync);
        if synced.is_err() {
            inode.attributes_changed.store(true, Ordering::Release);
        }
        synced
    }

    /// A descriptor for reading, or for writing where reading is not allowed.
    pub(crate) fn any_descriptor(&self, inode: &Inode) -> Result<OwnedFd> {
        match self.reopen(inode, OFlags::RDONLY | OFlags::NONBLOCK) {
            Err(Errno::ACCESS) => self.reopen(inode, OFlags::WRONLY | OFlags::NONBLOCK),
            other => other,
        }
    }
}
