//! Memory that the program has locked or lets the kernel merge, which keeps pages from being moved.

use super::Exchange;
use crate::sys::addresses::RegionMemory;
use std::sync::atomic::Ordering;

impl Exchange {
    /// What the program has locked is not locked any more. Whether any of its memory was: a move is refused with the same
    /// `EINVAL` while the region is read-only, and succeeds if the program has changed that before the next one.
    pub(super) fn unlock(&self, memory: &RegionMemory) -> bool {
        let status = procfs::process::Process::myself().and_then(|me| me.status());
        let was_locked = status
            .ok()
            .and_then(|status| status.vmlck)
            .is_none_or(|kib| kib > 0);
        memory.mapping.unlock();
        self.table.memory().unlock();
        was_locked
    }

    /// Ends the kernel's merging of pages that the program requested.
    pub(super) fn unmerge(&self, memory: &RegionMemory) {
        memory.mapping.unmerge();
        self.table.memory().unmerge();
    }

    /// Whether locked memory of the program was unlocked since the last call.
    pub(crate) fn take_unlocked(&self) -> bool {
        self.unlocked.load(Ordering::Relaxed) && self.unlocked.swap(false, Ordering::Relaxed)
    }
}
