//! Where the kernel has a page.

use super::Exchange;
use crate::sys::addresses::RegionMemory;

impl Exchange {
    /// Whether a page of a region or a file has memory there, or is in swap from there. A system call.
    pub(crate) fn has(&self, memory: &RegionMemory, page: u64) -> bool {
        self.own_memory.has(memory.page(page))
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
