//! Operations only for pages of mapped files.

use super::{Exchange, InHand};
use crate::sys::drops::Drops;
use crate::sys::mapping::kernel_page;
use std::sync::atomic::Ordering;

impl Exchange {
    /// Whether the kernel can write-protect single pages, so that what is written is known.
    pub(crate) fn can_write_protect(&self) -> bool {
        self.can_write_protect.load(Ordering::Relaxed)
    }

    /// Copies pages from their frames into their mapping, write-protected, as far as they are a [`run`](Exchange::run), and
    /// wakes the threads that wait for them. How many: none if there is no memory for the first.
    pub(crate) fn copy_in_run(&self, pages: &[InHand<'_>]) -> usize {
        let Some(first) = pages.first() else { return 0 };
        let len = self.run(pages) * kernel_page();
        let protect = self.may_write_protect(first.memory);
        let (to, from) = (first.memory.page(first.page), self.frame(first.frame));
        // SAFETY: the pages are in our hands alone (`InHand`), and are in the arena only; no thread changes them there.
        let (copied, _) = unsafe { self.of(first.memory).copy_pages(to, from, len, protect) };
        copied / kernel_page()
    }

    /// These pages are gone, whose frames have no memory: they get zeros.
    pub(crate) fn discard_each<'a>(&self, pages: impl Iterator<Item = InHand<'a>> + Clone) {
        let mut drops = Drops::new();
        for page in pages.clone() {
            // SAFETY: the page is ours alone, and what a thread that touches it gets comes from the device.
            unsafe { drops.push(page.memory.page(page.page)) };
        }
        drop(drops);
        let frames: Vec<_> = pages.map(|page| page.frame).collect();
        self.refill(&frames);
    }

    /// Puts zeros into a page that is in its frame only, from byte `from` on.
    pub(crate) fn zero_behind(&self, page: &InHand<'_>, from: usize) {
        let start = self.table.memory().pointer(page.frame).as_ptr();
        let from = from.min(kernel_page());
        let len = kernel_page() - from;
        let start = start.wrapping_add(from);
        // SAFETY: the frame's memory is in the arena, a page long, and ours alone (`InHand`): the page's word refuses pins,
        // and no device reads it.
        unsafe { start.write_bytes(0, len) };
    }
}
