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

    /// What the program has had the kernel merge is not merged any more.
    pub(super) fn unmerge(&self, memory: &RegionMemory) {
        memory.mapping.unmerge();
        self.table.memory().unmerge();
    }

    /// Whether memory that the program had locked was unlocked since this was asked.
    pub(crate) fn take_unlocked(&self) -> bool {
        self.unlocked.load(Ordering::Relaxed) && self.unlocked.swap(false, Ordering::Relaxed)
    }
}
