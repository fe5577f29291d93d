//! Creating and removing the regions of a cache within its swap space.

use super::PageCache;
use crate::api::handle::{Files, Handle};
use crate::api::region::Region;
use crate::error::{Error, Result};
use crate::memory::{PAGE_BYTES, RegionOptions};
use millpond_core::event::Event;
use millpond_core::units::{FileId, PageCount};

impl PageCache {
    /// Creates anonymous memory of `len` bytes, initially zero. Its pages share the cache's budget with those of files.
    ///
    /// Its page metadata takes 16 bytes per page from the budget at once, 0.4 % of `len`.
    ///
    /// # Errors
    /// [`Error::NoSwap`] if the cache was built without [`Builder::swap`](crate::Builder::swap);
    /// [`Error::SwapTooSmall`] if `len` is 0 or not all regions would fit into the swap space;
    /// [`Error::BudgetTooSmall`] if the page metadata does not fit into the budget; [`Error::Setup`] if the process may
    /// not reserve that many addresses.
    pub fn region(&self, len: usize) -> Result<Region> {
        self.region_with(len, &RegionOptions::new())
    }

    /// As [`PageCache::region`], with options.
    ///
    /// # Errors
    /// As [`PageCache::region`].
    pub fn region_with(&self, len: usize, options: &RegionOptions) -> Result<Region> {
        let handle = &self.handle;
        let engine = &handle.engine;
        engine.call_flags.check()?;
        let slots = engine.core().manager.swap_slots();
        let Some((_, PageCount(slots))) = slots.filter(|_| engine.spaces.is_some()) else {
            return Err(Error::NoSwap);
        };
        let size = engine.page_size.bytes();
        let pages = (len as u64).div_ceil(size);
        let id = {
            let mut files = handle.files.lock();
            let left = slots - files.region_pages;
            if pages == 0 || pages > left {
                return Err(Error::SwapTooSmall {
                    given: len as u64,
                    left: left * size,
                    swap: slots * size,
                });
            }
            files.region_pages += pages;
            files.take_id()
        };
        let undo = |error| {
            handle.forget_region(id, pages);
            error
        };
        handle
            .set_aside_for_regions((pages * PAGE_BYTES) as i64)
            .map_err(undo)?;
        let pages = PageCount(pages);
        engine.tell(Event::RegionOpened { file: id, pages });
        // From here on dropping it undoes all.
        Region::new(handle.clone(), (len, options), id, pages.0 as usize)
            .inspect_err(|_| handle.region_dropped(id, pages.0))
    }
}

impl Files {
    pub(super) fn take_id(&mut self) -> FileId {
        FileId(self.free_ids.pop().unwrap_or_else(|| {
            self.next_id += 1;
            self.next_id - 1
        }))
    }
}

impl Handle {
    /// Removes a region that has no pages in memory.
    pub(crate) fn region_dropped(&self, id: FileId, pages: u64) {
        self.engine.tell(Event::Closed { file: id });
        // More frames than before: that can fail only for want of memory, and then the pool stays as it is.
        let _ = self.set_aside_for_regions(-((pages * PAGE_BYTES) as i64));
        self.forget_region(id, pages);
    }

    fn forget_region(&self, id: FileId, pages: u64) {
        let mut files = self.files.lock();
        files.region_pages -= pages;
        files.free_ids.push(id.0);
    }
}
