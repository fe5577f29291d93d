//! Anonymous memory: the public API.

use super::handle::Handle;
use crate::engine::driver::Advised;
use crate::engine::in_thread;
use crate::error::{Error, Result};
use crate::host::addresses;
use crate::memory::{RegionOptions, Space, SpaceInner, buffers};
use crate::sys::addresses::RegionBytes;
use crate::sys::uffd::OnTouch;
use bytemuck::{AnyBitPattern, Pod};
use millpond_core::units::{Bytes, FileId};
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

/// The expected use of a part of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RegionAdvice {
    /// Needed soon: pages in the swap file are read in the background, as far as memory allows.
    WillNeed,
    /// The content may be discarded. Until its next touch, a page is either unchanged or, if its memory was needed
    /// meanwhile, zero; from then on its content is kept. Discarding costs no write. Like `MADV_FREE`, except that a
    /// read also keeps the page.
    Free,
    /// The content is not needed: it reads as zeros from now on, and occupies neither memory nor swap.
    DontNeed,
}

/// Anonymous memory of a cache: initially zero, of any size, at addresses that never change. Its resident pages count
/// against the cache's budget, beside the pages of files; the rest is in the swap file.
///
/// It is ordinary memory: slices of it can be lent to threads, sorted, and passed to system calls.
///
/// ```no_run
/// use millpond::{PageCache, SwapFile};
/// let cache = PageCache::builder()
///     .memory(64 << 20)
///     .swap(SwapFile::new("/var/tmp/millpond.swap", 1 << 30).unlinked(true))
///     .build()?;
/// let mut region = cache.region(1 << 30)?;
/// let numbers = region.as_mut_slice_of::<u64>();
/// for (n, number) in numbers.iter_mut().enumerate() {
///     *number = n as u64;
/// }
/// assert_eq!(numbers.iter().sum::<u64>(), (1 << 27) * ((1 << 27) - 1) / 2);
/// # Ok::<(), millpond::Error>(())
/// ```
pub struct Region {
    bytes: RegionBytes,
    inner: Arc<SpaceInner>,
    cache: Arc<Handle>,
}

impl Region {
    pub(crate) fn new(
        cache: Arc<Handle>,
        (len, options): (usize, &RegionOptions),
        id: FileId,
        count: usize,
    ) -> Result<Region> {
        let setup = |source| Error::Setup {
            what: "making a region",
            source,
        };
        if options.touch() == OnTouch::Signals {
            in_thread::prepare().map_err(setup)?;
        }
        let bytes = RegionBytes::new(len, options.touch());
        let bytes = bytes.map_err(|error| setup(addresses::refused(error, Bytes(len as u64))))?;
        let memory = bytes.memory().clone();
        let inner = Arc::new(SpaceInner::new(id, memory, count).map_err(setup)?);
        if let Some(spaces) = &cache.engine.spaces {
            spaces.exchange.add_region(&inner.memory).map_err(setup)?;
            spaces.enter(inner.clone());
        }
        if options.touch() == OnTouch::Signals {
            in_thread::enter(Space::Region(inner.clone()), &cache.engine);
        }
        buffers::enter(&inner.memory);
        Ok(Region { bytes, inner, cache })
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.bytes().len()
    }

    /// Returns whether the length is zero, which it never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the whole region. A thread that touches a page that is not in memory waits until it is loaded. If its
    /// slot in the swap file can't be read, the page is lost: the cache's warning hook is called, and a thread that
    /// touches the page gets `SIGBUS` (a system call `EFAULT`), as with an unreadable page of a mapped file.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Returns the whole region for writing, as [`Region::as_slice`] does for reading.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.bytes_mut()
    }

    /// Returns as many `T` as fit, for reading. `T` is any type for which every bit pattern is valid.
    pub fn as_slice_of<T: AnyBitPattern>(&self) -> &[T] {
        let bytes = self.as_slice();
        // It begins at a multiple of the page's size, so only the end can be odd.
        bytemuck::cast_slice(&bytes[..whole::<T>(bytes.len())])
    }

    /// Returns as many `T` as fit, for writing. `T` is any type for which every bit pattern is valid and that has no
    /// padding.
    pub fn as_mut_slice_of<T: Pod>(&mut self) -> &mut [T] {
        let bytes = self.as_mut_slice();
        let len = whole::<T>(bytes.len());
        bytemuck::cast_slice_mut(&mut bytes[..len])
    }

    /// Returns the start of the region, for programs that share it between threads under their own synchronization.
    pub fn as_ptr(&self) -> *mut u8 {
        self.bytes.start().as_ptr()
    }

    /// Sets the expected use of the bytes `range`. [`RegionAdvice::DontNeed`] and [`RegionAdvice::Free`] leave pages
    /// alone that the range covers only in part.
    ///
    /// # Errors
    /// [`Error::RegionRange`], [`Error::Poisoned`].
    pub fn advise(&mut self, range: impl RangeBounds<usize>, advice: RegionAdvice) -> Result<()> {
        let engine = &self.cache.engine;
        let size = engine.page_size.bytes();
        let bytes = self.range(range)?;
        match advice {
            RegionAdvice::WillNeed => {
                let pages = bytes.start / size..bytes.end.div_ceil(size);
                Advised::of(engine, &self.inner).region_ahead(pages)
            }
            RegionAdvice::DontNeed | RegionAdvice::Free => {
                let end = match bytes.end == self.len() as u64 {
                    true => self.inner.pages.len(),
                    false => bytes.end / size,
                };
                let whole = bytes.start.div_ceil(size)..end;
                match advice {
                    RegionAdvice::Free => Advised::of(engine, &self.inner).region_free(whole),
                    _ => Advised::of(engine, &self.inner).region_forget(whole),
                }
            }
        }
    }

    fn range(&self, range: impl RangeBounds<usize>) -> Result<Range<u64>> {
        let len = self.len() as u64;
        let start = match range.start_bound() {
            Bound::Included(&at) => at as u64,
            Bound::Excluded(&at) => (at as u64).saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&at) => (at as u64).saturating_add(1),
            Bound::Excluded(&at) => at as u64,
            Bound::Unbounded => len,
        };
        if start <= end && end <= len {
            return Ok(start..end);
        }
        Err(Error::RegionRange { start, end, len })
    }
}

/// Returns the largest multiple of `T`'s size up to `len`.
fn whole<T>(len: usize) -> usize {
    match size_of::<T>() {
        0 => 0,
        size => len - len % size,
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region of {} bytes at {:?}", self.len(), self.as_ptr())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.cache.engine.call_flags.is_of_another() {
            // In a forked child, where there may be something else at these addresses.
            return std::mem::forget((self.cache.clone(), self.inner.clone()));
        }
        Advised::of(&self.cache.engine, &self.inner).close_region();
        // It can fail only if the cache is poisoned, and then the process has ended.
        let _ = Advised::of(&self.cache.engine, &self.inner).region_forget(0..self.inner.pages.len());
        if let Some(spaces) = &self.cache.engine.spaces {
            self.inner.tables.all_gone(&spaces.tables);
            spaces.remove(self.inner.id);
        }
        in_thread::remove(&self.inner);
        buffers::remove(&self.inner.memory);
        self.cache.region_dropped(self.inner.id, self.inner.pages.len());
    }
}
