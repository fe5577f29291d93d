//! What only pages of mapped files need.

use super::{Exchange, InHand};
use crate::sys::mapping::kernel_page;
use std::sync::atomic::Ordering;

impl Exchange {
    /// Whether the kernel can write-protect single pages, so that what is written is known.
    pub(crate) fn can_write_protect(&self) -> bool {
        self.can_write_protect.load(Ordering::Relaxed)
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
