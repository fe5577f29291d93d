//! The addresses of a region: memory that the program sees, and whose pages come and go (`arena/exchange.rs`).

use crate::sys::forks::Listed;
use crate::sys::mapping::{Advice, Mapping, kernel_page};
use crate::sys::uffd::Touch;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// The addresses of a region, for the exchange of pages: nothing is read or written there through this.
pub(crate) struct RegionMemory {
    pub(super) mapping: Mapping,
    pub(super) touch: Touch,
    _listed: Listed,
}

impl RegionMemory {
    /// The address of a page.
    ///
    /// # Panics
    /// If there is none of that number.
    pub(super) fn page(&self, page: u64) -> usize {
        let offset = page as usize * kernel_page();
        assert!(
            offset < self.mapping.len(),
            "page {page} of {} bytes",
            self.mapping.len()
        );
        self.mapping.start().addr().get() + offset
    }

    /// From the first byte to behind the last.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.mapping.start().addr().get();
        start..start + self.mapping.len()
    }

    /// The page at an address, if it is one of these.
    pub(crate) fn page_at(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.mapping.start().addr().get())?;
        (offset < self.mapping.len()).then_some((offset / kernel_page()) as u64)
    }
}

/// The part that reads and writes a region.
pub(crate) struct RegionBytes {
    memory: Arc<RegionMemory>,
    len: usize,
}

impl RegionBytes {
    /// `len` bytes of address space, and no memory yet. `touch`: what happens to a thread that touches a page
    /// that is not there.
    ///
    /// # Errors
    /// If the process may not have that many addresses.
    pub(crate) fn new(len: usize, touch: Touch) -> io::Result<RegionBytes> {
        let mapping = Mapping::new(len, true)?;
        let all = 0..mapping.len();
        // Pages come and go one by one. A forked child would read zeros, and a page that it shares can't be
        // moved.
        mapping.advise(all.clone(), Advice::SmallPages)?;
        mapping.advise(all.clone(), Advice::DoNotFork)?;
        mapping.advise(all, Advice::DoNotDump)?;
        let start = mapping.start().addr().get();
        let memory = Arc::new(RegionMemory {
            touch,
            _listed: Listed::new(start..start + mapping.len()),
            mapping,
        });
        Ok(RegionBytes { memory, len })
    }

    /// Its addresses.
    pub(crate) fn memory(&self) -> &Arc<RegionMemory> {
        &self.memory
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory.mapping.start()
    }

    /// All of it.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable, that long and lives as long as `self`, of which there is one. A page that is
        // not there comes when it is touched, as it was written last.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }

    /// All of it, to change.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, writable, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len) }
    }
}
