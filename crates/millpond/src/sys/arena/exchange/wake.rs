//! Waking threads that have touched what was not there.

use super::Exchange;
use crate::sys::addresses::RegionMemory;
use crate::sys::mapping::kernel_page;
use std::ops::Range;

impl Exchange {
    /// A thread that waits at this address tries again.
    pub(crate) fn again_at(&self, address: usize) {
        self.uffd.wake(address, kernel_page());
    }

    /// The threads that wait for the page try again.
    pub(crate) fn wake(&self, memory: &RegionMemory, page: u64) {
        self.wake_all(memory, page..page + 1);
    }

    /// Those that wait for one of these pages do.
    pub(crate) fn wake_all(&self, memory: &RegionMemory, pages: Range<u64>) {
        let len = (pages.end - pages.start) as usize * kernel_page();
        self.of(memory).wake(memory.page(pages.start), len);
    }
}
