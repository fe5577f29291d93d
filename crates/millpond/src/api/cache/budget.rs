//! The budget: what it holds, what there is.

use super::PageCache;
use crate::control::follow::MemoryInForce;
use crate::engine::budget::{FRAME_METADATA_BYTES, IO_BYTES, Reserved, frames};
use crate::error::Result;
use millpond_core::units::{Bytes, PageCount, PageSize};

impl PageCache {
    /// How many pages a cache with a budget of `memory` holds, if it has neither regions nor files that need copies.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall).
    pub fn pages_in(memory: Bytes, page_size: PageSize) -> Result<PageCount> {
        frames(memory, page_size, Reserved::default())
    }

    /// The budget of a cache that holds `pages` pages: the reverse of [`PageCache::pages_in`].
    pub fn memory_for(pages: PageCount, page_size: PageSize) -> Bytes {
        let frame = page_size.bytes() + FRAME_METADATA_BYTES;
        Bytes(pages.0.saturating_mul(frame).saturating_add(IO_BYTES.0))
    }
}

impl PageCache {
    /// The budget in force, and why it is that if the host decides ([`Builder::memory_auto`](crate::Builder::memory_auto),
    /// `set("memory", "auto:256M..4G")`). Takes two locks for a moment; allocates.
    pub fn memory(&self) -> MemoryInForce {
        self.handle.memory_in_force()
    }
}
