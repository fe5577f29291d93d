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

/// Memory of the program's that counts in a cache's budget until this is dropped. Keeps the cache.
#[derive(Debug)]
pub struct SetAside {
    cache: PageCache,
    bytes: u64,
}

impl SetAside {
    /// How much.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        let handle = &self.cache.handle;
        if !handle.engine.call_flags.is_of_another() {
            // More frames than before: that can fail only for want of memory, and then the pool stays as it is.
            let _ = handle.set_aside_for_program(-(self.bytes as i64));
        }
    }
}

impl PageCache {
    /// Takes `bytes` of the budget for memory that the program has besides the cache's, such as buffers of what is below it:
    /// the cache has so much less for pages, at once in number, and in memory as pages leave.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`](crate::Error::BudgetTooSmall) if too few pages would be left; then nothing changes.
    pub fn set_aside(&self, bytes: u64) -> Result<SetAside> {
        self.handle.engine.call_flags.check()?;
        self.handle
            .set_aside_for_program(i64::try_from(bytes).unwrap_or(i64::MAX))?;
        Ok(SetAside {
            cache: self.clone(),
            bytes,
        })
    }

    /// The budget in force, and why it is that if the host decides ([`Builder::memory_auto`](crate::Builder::memory_auto),
    /// `set("memory", "auto:256M..4G")`). Takes two locks for a moment; allocates.
    pub fn memory(&self) -> MemoryInForce {
        self.handle.memory_in_force()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn what_the_program_has_besides_is_taken_from_the_pages_and_given_back() {
        let cache = PageCache::builder().memory(8 << 20).build().unwrap();
        let frames = || cache.stats().occupancy.frames.0;
        let all = frames();
        let set_aside = cache.set_aside(4 << 20).unwrap();
        let taken = (4 << 20) / (4096 + FRAME_METADATA_BYTES);
        assert!(
            (taken..=taken + 1).contains(&(all - frames())),
            "{} of {all}",
            frames()
        );
        let too_much = cache.set_aside(4 << 20);
        assert!(
            matches!(too_much, Err(Error::BudgetTooSmall { .. })),
            "{too_much:?}"
        );
        assert_eq!((cache.memory().bytes, all - frames() > 0), (Bytes(8 << 20), true));
        drop(set_aside);
        assert_eq!(frames(), all);
    }
}
