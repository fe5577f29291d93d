//! Data before names: what a program has written is in the underlying file before a name refers to it.
//!
//! Names change on disk immediately, data later, and this process may be killed in between. A kernel's page cache
//! outlives the program that wrote, so programs replace files without a sync: they write a new file and rename it over
//! the old one, or truncate the old one to nothing and rewrite it. File systems with delayed allocation write such data
//! early, in case the machine crashes (ext4's `auto_da_alloc`; xfs and btrfs alike). The mount does so in case this
//! process dies:
//! ```text
//!   rename, exchange, link      the file's data are written out first, whatever had the new name before
//!   cut to nothing, rewritten   written out when it is closed: the close waits if the thread that has cut it closes it
//! ```
//!
//! The data is written out, not synced: a loss of power has the effect it has on the underlying file system. A renamed
//! directory takes dirty files with it, as on ext4; they have `Options::expire`.

use crate::inode::content::Content;
use crate::inode::{Data, Inode};
use crate::state::{MountState, OpenFile};
use fuser::INodeNo;
use rustix::io::Result;
use std::ffi::OsStr;
use std::sync::Arc;

impl MountState {
    /// Before the file of this name gets another one. Not to be called by a thread that answers the kernel.
    ///
    /// # Errors
    /// Its writeback fails: it keeps its old name then.
    pub(super) fn write_out_named(&self, directory: &Inode, name: &OsStr) -> Result<()> {
        let named = self.known_inode_at(directory, name);
        named.map_or(Ok(()), |inode| self.write_out(&inode))
    }

    /// Writes out a file's data, with those that the kernel has of it. Not to be called by a thread that answers the kernel,
    /// which may have pages to write.
    ///
    /// # Errors
    /// Its writeback fails.
    pub(super) fn write_out(&self, inode: &Inode) -> Result<()> {
        let Some(content) = inode.data.lock().content.clone() else {
            return Ok(());
        };
        self.fetch_kernel_pages(inode);
        match content.unwritten_bytes() {
            0 => Ok(()),
            _ => self.room.wait_for(|| content.write_out()),
        }
    }

    /// Of a file that is mapped: has the kernel write back what was stored through maps, which it sends otherwise when it
    /// likes. It drops its pages then, and reads them again when they are touched.
    pub(super) fn fetch_kernel_pages(&self, inode: &Inode) {
        /// All pages from the first on.
        const WHOLE: (i64, i64) = (0, 0);
        if inode.kernel_pages.is_mapped()
            && let Some(notifier) = self.notifier.get()
        {
            // It fails for a file that the kernel does not know any more, which has no pages.
            let _ = notifier.inval_inode(INodeNo(inode.id), WHOLE.0, WHOLE.1);
        }
    }

    /// Whether closing it has to wait: this thread has cut the file to nothing, and it has been written since.
    pub(crate) fn is_rewritten_by(&self, handle: u64, thread: u32) -> bool {
        let Some(file) = self.files.find(handle) else {
            return false;
        };
        file.inode.data.lock().rewritten_by == Some(thread) && file.content.unwritten_bytes() > 0
    }

    /// As [`flush`](Self::flush), of a file that was cut to nothing and written anew.
    ///
    /// # Errors
    /// Its writeback fails.
    pub(crate) fn write_out_and_flush(&self, handle: u64) -> Result<()> {
        let file = self.file(handle)?;
        self.room.wait_for(|| file.content.write_out())?;
        self.flush(handle)
    }

    /// A writer has closed the file: writes it out soon if it was cut to nothing, whichever thread has closed it.
    pub(super) fn write_out_if_rewritten(self: &Arc<MountState>, file: &Arc<OpenFile>) {
        let is_rewritten = file.inode.data.lock().rewritten_by.is_some();
        if is_rewritten && file.content.unwritten_bytes() > 0 {
            let file = file.clone();
            self.pool.defer(move || {
                // What can't be written stays, and is tried again.
                let _ = file.content.write_out();
            });
        }
    }
}

/// Notes that `thread` cuts a file to `len` bytes which has some more.
pub(super) fn note_cut(data: &mut Data, content: &Content, len: u64, thread: u32) {
    if len == 0 && content.cached_len().is_some_and(|before| before > 0) {
        data.rewritten_by = Some(thread);
    }
}
