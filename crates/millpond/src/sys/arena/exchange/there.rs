//! Where the kernel has a page, and copies of pages that it may drop at any moment.

use super::{Exchange, InHand};
use crate::sys::addresses::RegionMemory;
use crate::sys::mapping::kernel_page;

impl Exchange {
    /// Whether a page of a region or a file has memory there, or is in swap from there. A system call.
    pub(crate) fn has(&self, memory: &RegionMemory, page: u64) -> bool {
        self.own_memory.has(memory.page(page))
    }

    /// Copies a write-protected page from its region into its frame, where it is as well from now on. Whether it could: not if
    /// the system has no memory for that, or the program had the kernel drop the page behind our back.
    pub(crate) fn copy_out(&self, page: &InHand<'_>) -> bool {
        self.places().put_together([page.frame].into_iter());
        let is_copied = self.copy_from(page.memory.page(page.page), self.frame(page.frame));
        if !is_copied {
            self.vacate(std::slice::from_ref(page));
        }
        is_copied
    }

    /// The kernel reads the page by way of `/proc`, which fails where there is none: a copy straight from there would wait for a
    /// handler, and that one for the thread that copies.
    fn copy_from(&self, from: usize, to: usize) -> bool {
        let (mut small, mut large) = ([0; 4096], Vec::new());
        let bytes = match small.get_mut(..kernel_page()) {
            Some(small) => small,
            None => {
                large.resize(kernel_page(), 0);
                &mut large[..]
            }
        };
        let from = match self.own_memory.read(from, bytes) {
            None if self.own_memory.has(from) => from,
            Some(true) => bytes.as_ptr().addr(),
            None | Some(false) => return false,
        };
        // SAFETY: where it goes is a frame whose page is ours alone, and is in the region only (`InHand`), where no thread can
        // write it; the buffer is ours.
        unsafe { self.uffd.copy_page(to, from, false) }.is_ok()
    }

    /// Whether a page that was there already, as the kernel says, is there because it has just been moved
    /// there.
    ///
    /// Linux 6.18 (`move_pages`, since it moves several pages at a time) retries pages that changed while it
    /// moved them. It then has moved them, but takes the failure of the first try for one of the second, goes to
    /// the same pages once more, and finds them there. So it reports fewer than it has moved, and `EEXIST` if
    /// that would be none. Eight threads on a region of eight budgets met it once in some minutes.
    pub(super) fn has_moved(&self, to: usize, from: usize) -> bool {
        self.own_memory.has(to) && !self.own_memory.has(from)
    }
}
