//! Pages lent to the kernel, and taken back.
//!
//! A file that is opened without `O_DIRECT` is cached by the kernel. A notification takes a page back. It waits for the page's
//! lock, which the kernel may hold until a READ or WRITE of the page is answered. So no thread that has such a request sends
//! one, and while threads that answer the kernel do, others are left:
//!
//! ```text
//!   lender (mount/lender.rs)     whenever more is lent than the share
//!   threads that answer reads    after the answer, a quarter of them at a time: what is read fast is taken back as fast
//! ```

use crate::inode::Inode;
use crate::inode::lent::LentWrite;
use crate::state::MountState;
use fuser::{INodeNo, Notifier};
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// All of a file.
pub(super) const WHOLE: Range<u64> = 0..0;

/// A write waits for so long for pages that may be old to be dropped. Longer, the page is locked by the write itself, and then
/// it is not old.
const SETTLE_MAX: Duration = Duration::from_millis(100);

/// A read for the kernel's own pages; dropped when it is answered.
pub(crate) struct LentRead<'a> {
    inode: &'a Inode,
    range: Range<u64>,
}

impl Drop for LentRead<'_> {
    fn drop(&mut self) {
        self.inode.lent.end_read(&self.range);
    }
}

impl MountState {
    /// A read for the kernel's own pages of the file has been received: to be called before their content is looked at. `None`
    /// if nothing is lent.
    pub(crate) fn begin_lent_read<'a>(
        &self,
        inode: &'a Arc<Inode>,
        offset: u64,
        len: u64,
    ) -> Option<LentRead<'a>> {
        let pool = self.lend_pool.as_ref()?;
        let range = offset..offset.saturating_add(len);
        pool.lend(inode, &range, true);
        Some(LentRead { inode, range })
    }

    /// The kernel has these pages from now on.
    pub(crate) fn note_lent(&self, inode: &Arc<Inode>, range: &Range<u64>) {
        if let Some(pool) = &self.lend_pool {
            pool.lend(inode, range, false);
        }
    }

    /// To be called by a thread that has answered a request and has no other.
    pub(crate) fn take_back_excess(&self) {
        if let Some(pool) = &self.lend_pool {
            pool.help(self.threads / 4, || {
                self.take_back();
            });
        }
    }

    /// Takes back what is lent beyond the share, and new pages to see whether they are used. Returns whether that could be done.
    /// Not to be called by a thread for whose answer the kernel waits.
    pub(crate) fn take_back(&self) -> bool {
        let (Some(pool), Some(notifier)) = (&self.lend_pool, self.notifier.get()) else {
            return true;
        };
        while let Some(_notifying) = self.gate.notify()
            && let Some(victim) = pool.victim()
        {
            inval_pages(notifier, victim.inode.id, &victim.bytes);
            pool.taken(&victim);
        }
        !pool.is_over()
    }

    /// Has the kernel drop its pages of a range that has changed without it. Not to be called by a thread that has a request for
    /// which the kernel holds one of these pages, or keeps them from being written back.
    pub(super) fn drop_lent(&self, inode: &Inode, range: &Range<u64>) {
        if self.lend_pool.is_some()
            && let Some(notifier) = self.notifier.get()
        {
            inval_pages(notifier, inode.id, range);
        }
    }

    /// A write that has changed the kernel's pages first is done and not answered: has those dropped that were read meanwhile,
    /// with the bytes from before it.
    pub(crate) fn settle(&self, write: &LentWrite, inode: &Arc<Inode>) {
        let suspects = inode.lent.suspects(&write.range);
        if suspects.is_empty() {
            return;
        }
        let Some(notifier) = self.notifier.get().cloned() else {
            return;
        };
        let inode = inode.clone();
        let (told, done) = mpsc::channel();
        // By another thread, since the kernel may hold a page until this one has answered.
        let drop_suspects = move || {
            let _ = told.send(());
            for suspect in suspects {
                inode.lent.note_taken(&suspect);
                inval_pages(&notifier, inode.id, &suspect);
            }
            let _ = told.send(());
        };
        let dropper = thread::Builder::new().name("millpond-settle".into());
        if dropper.spawn(drop_suspects).is_ok() && done.recv().is_ok() {
            let _ = done.recv_timeout(SETTLE_MAX);
        }
    }
}

fn inval_pages(notifier: &Notifier, id: u64, range: &Range<u64>) {
    let (at, len) = (range.start as i64, (range.end - range.start) as i64);
    // It fails for a file that the kernel does not know any more, which has no pages.
    let _ = notifier.inval_inode(INodeNo(id), at, len);
}
