//! Data: opened, read, written, made durable, closed.

use super::names::Making;
use crate::caller::Asks;
use crate::flags::{Durable, OpenFlags};
use crate::inode::coherence::Begun;
use crate::inode::content::{Content, Result};
use crate::inode::{Data, Node, Seen};
use crate::state::{OpenFile, Pond};
use fuser::{FileAttr, INodeNo};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a name may appear and vanish within one call that makes it. Whoever changes names behind the mount that fast is
/// done for.
const APPEARED_TRIES: u32 = 100;

/// One write.
pub(crate) struct Write<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: u64,
    /// As `fcntl(F_GETFL)` says of whoever writes, with what this call asks for.
    pub(crate) flags: i32,
    pub(crate) asks: &'a Asks,
    /// Bits that run a file as its owner or group have to go.
    pub(crate) drops_privileges: bool,
    /// It was stored through a map: the kernel takes its page for clean, whatever is answered.
    pub(crate) promised: Option<Begun>,
}

impl Pond {
    /// Opens a file. Its handle, and whether it is for reading only.
    pub(crate) fn open(self: &Arc<Pond>, id: u64, flags: i32) -> Result<(u64, bool)> {
        let node = self.node(id)?;
        let flags = OpenFlags(flags);
        let content = self.content(&node, flags.writes())?;
        let durable = flags.durable();
        let opened = OpenFile {
            node,
            content,
            durable,
        };
        Ok((self.files.add(opened), !flags.writes()))
    }

    /// Makes a file and opens it. Its handle, and what stat says.
    pub(crate) fn create(self: &Arc<Pond>, at: &Making<'_>, flags: i32) -> Result<(u64, FileAttr)> {
        let exclusive = OpenFlags(flags).is_exclusive();
        let mut made = self.make_file(at, exclusive);
        if made.as_ref().is_err_and(|error| *error == Errno::STALE) && self.was_sent_back(at) {
            // The kernel has looked once more, and would not again.
            for _ in 0..APPEARED_TRIES {
                match self.open_appeared(at, flags) {
                    Err(Errno::NOENT) => {}
                    other => return other,
                }
                // It has vanished since.
                made = self.make_file(at, exclusive);
                if !made.as_ref().is_err_and(|error| *error == Errno::STALE) {
                    break;
                }
            }
        }
        let made = made?;
        let node = made.node;
        let taken = self.take(&node, &mut node.data.lock(), made.file, true);
        let taken = match taken {
            // The descriptor is gone with it, so that there is room for one.
            Err(Errno::MFILE) => self.content(&node, true),
            other => other,
        };
        let narrowed = match made.added.is_empty() {
            true => Ok(()),
            false => rustix::fs::fstat(&node.place).and_then(|stat| {
                let mode = Mode::from_raw_mode(stat.st_mode) - made.added;
                rustix::fs::chmodat(CWD, node.path(), mode, AtFlags::empty())
            }),
        };
        let opened = taken.and_then(|content| {
            let attributes = narrowed.and_then(|()| self.attributes(&node));
            let attributes = attributes.inspect_err(|_| self.close(&node))?;
            Ok((content, attributes))
        });
        // The kernel hears of the file only if it hears of all of it.
        let (content, attributes) = opened.inspect_err(|_| self.forget(node.id, 1))?;
        let durable = OpenFlags(flags).durable();
        let opened = OpenFile {
            node,
            content,
            durable,
        };
        Ok((self.files.add(opened), attributes))
    }

    /// The data of a file, which the caller has open from now on.
    ///
    /// # Errors
    /// `EROFS` of who would write at a mount that was made for reading only, and mounted anew by root for more: its source
    /// is not locked.
    pub(crate) fn content(&self, node: &Node, writes: bool) -> Result<Arc<Content>> {
        if writes && self.is_read_only {
            return Err(Errno::ROFS);
        }
        self.patiently(|| self.content_now(node, writes))
    }

    fn content_now(&self, node: &Node, writes: bool) -> Result<Arc<Content>> {
        let mut data = node.data.lock();
        if data.opens == 0 {
            // Others may have changed that, too.
            *node.is_bare.lock() = false;
        }
        if let Some(content) = data.content.clone() {
            // Also if it is here for reading only and shall be written: what is in memory of it is taken over then.
            self.look_behind(node, &mut data, &content)?;
            if content.is_writable || !writes {
                data.opens += 1;
                data.turn += 1;
                return Ok(content);
            }
        }
        let flags = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let file = self.reopen(node, flags)?;
        self.take(node, &mut data, file.into(), writes)
    }

    /// Takes an open file for its data. If they are here already, for reading only, they are the same from then on.
    fn take(&self, node: &Node, data: &mut Data, file: File, writes: bool) -> Result<Arc<Content>> {
        let content = match data.content.clone() {
            Some(content) if content.is_writable || !writes => content,
            _ => {
                let content = Arc::new(Content::open(file, writes, self.cache.as_ref())?);
                if data.content.is_none() {
                    data.seen = Some(Seen::of(&rustix::fs::fstat(&node.place)?));
                }
                data.content = Some(content.clone());
                content
            }
        };
        data.opens += 1;
        data.turn += 1;
        Ok(content)
    }

    /// Nobody has the file open, and nothing of it waits to be written: if others have changed it below, what is in memory
    /// is old.
    fn look_behind(&self, node: &Node, data: &mut Data, content: &Content) -> Result<()> {
        if data.opens > 0 || self.cache.is_none() || node.times.lock().to_settle().is_some() {
            return Ok(());
        }
        let now = Some(Seen::of(&rustix::fs::fstat(&node.place)?));
        if data.seen != now {
            content.invalidate()?;
            data.seen = now;
        }
        Ok(())
    }

    /// The caller has it open no more.
    pub(crate) fn close(self: &Arc<Pond>, node: &Arc<Node>) {
        let mut data = node.data.lock();
        data.opens -= 1;
        if data.opens > 0 {
            return;
        }
        data.lost = None;
        node.mapped.clear();
        let turn = data.turn;
        drop(data);
        // The kernel may have forgotten it first: it does not wait for the end of a close before it does.
        let to_let_go = match self.nodes.is_forgotten(node) {
            true => Some(node.clone()),
            false => self.idle.add(node, turn),
        };
        if let Some(node) = to_let_go {
            let pond = self.clone();
            self.pool.later(move || pond.let_go(&node));
        }
    }

    pub(crate) fn release(self: &Arc<Pond>, handle: u64) {
        if let Some(file) = self.files.remove(handle) {
            self.close(&file.node);
        }
    }

    pub(crate) fn write(&self, file: &OpenFile, write: &Write<'_>) -> Result<()> {
        let written = self.write_data(file, write);
        if let (Err(error), true) = (written, write.promised.is_some()) {
            // Nobody hears of it, so it is kept for those who ask.
            file.node.data.lock().lost = Some(error);
            self.has_lost.store(true, Ordering::Relaxed);
        }
        written?;
        // As this call asks, or the opening of the file.
        self.make_durable(file, OpenFlags(write.flags).durable())
    }

    fn write_data(&self, file: &OpenFile, write: &Write<'_>) -> Result<()> {
        self.drop_privileges(&file.node, write.asks, Some(write.drops_privileges))?;
        let (node, content) = (&file.node, &file.content);
        let written = match &write.promised {
            Some(begun) => node.mapped.write_back(begun, content, write.bytes, write.offset),
            None => self.write_past_pages(file, write.bytes, write.offset),
        };
        // A part of it may be there, and the file longer, if it was not whole.
        self.written(&file.node);
        written
    }

    /// Writes what does not come from the kernel's pages, which hold it afterwards as well.
    fn write_past_pages(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> Result<()> {
        let tell = || {
            if let Some(notifier) = self.notifier.get() {
                // A file that the kernel does not know any more is as good.
                let _ = notifier.store(INodeNo(file.node.id), offset, bytes);
            }
        };
        file.node.mapped.write(&file.content, bytes, offset, tell)
    }

    /// What of the file is lost since somebody has it open.
    fn check_kept(&self, node: &Node) -> Result<()> {
        node.data.lock().lost.map_or(Ok(()), Err)
    }

    /// What has to be durable before the call that has changed the file returns.
    pub(crate) fn make_durable(&self, file: &OpenFile, what: Durable) -> Result<()> {
        match what {
            Durable::Later => Ok(()),
            Durable::Data => self.sync_file(file, true),
            Durable::All => self.sync_file(file, false),
        }
    }

    /// What closing a file says: whether some of it is lost or can't be written, as far as that is known.
    pub(crate) fn flush(&self, handle: u64) -> Result<()> {
        let file = self.file(handle)?;
        self.check_kept(&file.node)?;
        file.content.failure().map_or(Ok(()), Err)
    }

    pub(crate) fn sync(&self, handle: u64, data_only: bool) -> Result<()> {
        self.sync_file(&*self.file(handle)?, data_only)
    }

    fn sync_file(&self, file: &OpenFile, data_only: bool) -> Result<()> {
        file.content.sync()?;
        let node = &file.node;
        self.check_kept(node)?;
        if data_only || !(node.attributes_changed.swap(false, Ordering::AcqRel)) {
            return Ok(());
        }
        // The times that somebody has set, which writing has changed on disk.
        let modified = {
            let times = node.times.lock();
            times.to_settle().filter(|_| times.is_set())
        };
        // Refused for another's file that we may write to.
        let _ = modified.map(|modified| self.set_modified(node, modified));
        let synced = self.descriptor(node).and_then(rustix::fs::fsync);
        if synced.is_err() {
            node.attributes_changed.store(true, Ordering::Release);
        }
        synced
    }

    /// A descriptor of the file for whichever it can be opened.
    pub(crate) fn descriptor(&self, node: &Node) -> Result<OwnedFd> {
        match self.reopen(node, OFlags::RDONLY | OFlags::NONBLOCK) {
            Err(Errno::ACCESS) => self.reopen(node, OFlags::WRONLY | OFlags::NONBLOCK),
            other => other,
        }
    }
}
