//! Anonymous memory beyond RAM: real pointers, a working set that stays, and a swap file for the rest.
//!
//! ```text
//!   a thread touches a page ──► not there: the kernel stops it, and tells a handler (handlers.rs)
//!                                  handler: a frame, its content, copied in ──► the thread goes on
//!   memory is short ──► reclaim moves pages out ──► equal to their slots: gone; else written, then gone
//! ```
//!
//! | file | what |
//! |---|---|
//! | `mod` | [`Region`]; which regions a cache has |
//! | `pages` | where each page is, and who may move it |
//! | `handlers` | the threads that serve faults |
//! | `in_thread` | faults that the touching thread serves itself |
//! | `options` | which of the two |
//! | `shut` | whether a page that is read comes write-protected |
//! | `twins` | which pages are in two places |
//! | `swap` | the swap file |
//! | `tables` | the kernel's page tables |
//! | `buffers` | whether a call's buffer lies in a region |
//!
//! What a fault and an eviction do is in `driver/region.rs`, the exchange of pages in `sys/exchange.rs`, and which page
//! leaves is the core's affair (`manager/anonymous.rs`): the same lists, shadows and budget as of files.

pub(crate) mod buffers;
pub(crate) mod handlers;
mod in_thread;
mod options;
mod pages;
mod shut;
pub(crate) mod swap;
mod tables;
mod twins;

pub use options::{Faults, RegionOptions};
pub(crate) use pages::{Ahead, At, Pages, Twin};
use swap::SwapArea;
pub use swap::SwapFile;
pub(crate) use tables::{AllTables, PAGES as TABLE_PAGES, Tables};
pub(crate) use twins::{TwinBytes, Twins};

use crate::api::cache::Handle;
use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::frames::gate::Gate;
use crate::sys::addresses::{RegionBytes, RegionMemory};
use crate::sys::arena::exchange::Exchange;
use crate::sys::uffd::Touch;
use bytemuck::{AnyBitPattern, Pod};
use handlers::Bell;
use millpond_core::readahead::fault_around::FaultAround;
use millpond_core::swap::SlotNo;
use millpond_core::units::{FileId, PageCount, PageIndex};
use parking_lot::{Mutex, RwLock};
use shut::Shut;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a page of a region costs beside its frame: 4 bytes of state, 8 of checksum, 4 of slot.
pub(crate) const PAGE_BYTES: u64 = 16;

/// What a cache's threads know of a region.
pub(crate) struct RegionInner {
    pub(crate) id: FileId,
    pub(crate) memory: Arc<RegionMemory>,
    pub(crate) pages: Pages,
    pub(crate) tables: Tables,
    pub(crate) shut: Shut,
    /// Who goes through it.
    pub(crate) around: Mutex<FaultAround>,
    /// It is being dropped: a fault that somebody reads late, of a page that is there since, must bring nothing back.
    pub(crate) closed: AtomicBool,
    /// Announces, where threads serve their faults themselves, that a page which some wait for can be taken again.
    pub(crate) settled: Gate,
}

/// The regions of a cache, and what moves their pages.
pub(crate) struct Regions {
    pub(crate) exchange: Exchange,
    swap: Vec<SwapArea>,
    /// By number.
    list: RwLock<Vec<Option<Arc<RegionInner>>>>,
    bells: Vec<Bell>,
    pub(crate) twins: Twins,
    pub(crate) tables: AllTables,
    /// Pages that were read ahead and then moved into their regions.
    pub(crate) ahead_hits: AtomicU64,
    /// The system once had no memory to bring a page, and that was said.
    pub(crate) had_no_memory: AtomicBool,
}

impl Regions {
    pub(crate) fn new(exchange: Exchange, swap: Vec<SwapArea>) -> std::io::Result<Regions> {
        let bells = handlers::bells(exchange.uffd())?;
        Ok(Regions {
            exchange,
            swap,
            list: RwLock::default(),
            bells,
            twins: Twins::new(),
            tables: AllTables::new(),
            ahead_hits: AtomicU64::new(0),
            had_no_memory: AtomicBool::new(false),
        })
    }

    /// Where a slot is: in which file, and at which page of it. Behind the first page, which says what the file is.
    pub(crate) fn place(&self, slot: SlotNo) -> (Arc<FileInner>, PageIndex) {
        let at = self.swap.partition_point(|area| area.first <= slot) - 1;
        let area = &self.swap[at];
        (area.file.clone(), PageIndex(u64::from(slot.0 - area.first.0) + 1))
    }

    /// Slots of each swap file, and its priority, in order.
    pub(crate) fn swap_areas(&self) -> impl Iterator<Item = (PageCount, i16)> + '_ {
        self.swap.iter().map(|area| (area.slots, area.priority))
    }

    /// The cache has been made: its swap files stay.
    pub(crate) fn keep_swap(&self) {
        self.swap.iter().for_each(|area| area.claim.keep());
    }

    /// Whether system calls that touch a page which is not in memory fail.
    pub(crate) fn misses_system_calls(&self) -> bool {
        !self.exchange.uffd().sees_system_calls()
    }

    /// The region of this number.
    #[inline]
    pub(crate) fn of(&self, file: FileId) -> Option<Arc<RegionInner>> {
        self.list.read().get(file.0 as usize)?.clone()
    }

    /// What is known of the pages of the region of this number.
    #[inline]
    pub(crate) fn pages_of<T>(&self, file: FileId, ask: impl FnOnce(&Pages) -> T) -> Option<T> {
        let list = self.list.read();
        Some(ask(&list.get(file.0 as usize)?.as_ref()?.pages))
    }

    /// The region at an address, and the page in it.
    fn at(&self, address: usize) -> Option<(Arc<RegionInner>, u64)> {
        let list = self.list.read();
        let found = list
            .iter()
            .flatten()
            .find_map(|region| Some((region, region.memory.page_at(address)?)));
        found.map(|(region, page)| (region.clone(), page))
    }

    /// Whether there is any: memory that must not be used after the cache is poisoned.
    pub(crate) fn any(&self) -> bool {
        self.list.read().iter().any(Option::is_some)
    }

    fn enter(&self, region: Arc<RegionInner>) {
        let mut list = self.list.write();
        let at = region.id.0 as usize;
        if at >= list.len() {
            list.resize(at + 1, None);
        }
        list[at] = Some(region);
    }

    fn remove(&self, file: FileId) {
        self.list.write()[file.0 as usize] = None;
    }
}

/// How a part of a region will be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RegionAdvice {
    /// Soon: what is in the swap file is read in the background, as far as there is memory.
    WillNeed,
    /// Its content may be given up: each page reads as it was or, if its memory was needed meanwhile, as zeros, until it is
    /// touched the next time; from then on it is kept. Costs no write if the memory is needed. As `MADV_FREE`, but a read
    /// keeps a page as well.
    Free,
    /// Its content is of no use any more: it reads as zeros from now on, and takes neither memory nor swap.
    DontNeed,
}

/// Anonymous memory of a cache: zeros at first, of any size, at addresses that never change. What of it is in memory is
/// within the cache's budget, beside the pages of files; the rest is in the swap file.
///
/// It is memory like any other: slices of it can be lent to threads, sorted, given to system calls.
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
    inner: Arc<RegionInner>,
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
        if options.touch() == Touch::Signals {
            in_thread::prepare().map_err(setup)?;
        }
        let bytes = RegionBytes::new(len, options.touch()).map_err(setup)?;
        let memory = bytes.memory().clone();
        let pages = Pages::new(count).map_err(setup)?;
        let tables = Tables::new(count).map_err(setup)?;
        let inner = Arc::new(RegionInner {
            id,
            memory,
            pages,
            tables,
            shut: Shut::default(),
            around: Mutex::default(),
            closed: AtomicBool::new(false),
            settled: Gate::default(),
        });
        if let Some(regions) = &cache.shared.regions {
            regions.exchange.add_region(&inner.memory).map_err(setup)?;
            regions.enter(inner.clone());
        }
        if options.touch() == Touch::Signals {
            in_thread::enter(&inner, &cache.shared);
        }
        buffers::enter(&inner.memory);
        Ok(Region { bytes, inner, cache })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.bytes().len()
    }

    /// Whether that is zero. It never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it. Whoever touches a page that is not in memory waits until it is; if its slot of the swap file can't be
    /// read, the page is lost, the cache's hook for warnings is told, and whoever touches it gets `SIGBUS` (a system call
    /// `EFAULT`), as with a file that is mapped and can't be read.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// All of it, to change. As [`Region::as_slice`].
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.bytes_mut()
    }

    /// As many `T` as fit, to read: any type that any bytes are a value of.
    pub fn as_slice_of<T: AnyBitPattern>(&self) -> &[T] {
        let bytes = self.as_slice();
        // It begins at a multiple of the page's size, so only the end can be odd.
        bytemuck::cast_slice(&bytes[..whole::<T>(bytes.len())])
    }

    /// As many `T` as fit, to change: any type that any bytes are a value of, and that has no padding.
    pub fn as_mut_slice_of<T: Pod>(&mut self) -> &mut [T] {
        let bytes = self.as_mut_slice();
        let len = whole::<T>(bytes.len());
        bytemuck::cast_slice_mut(&mut bytes[..len])
    }

    /// Where it begins, for those who share it between threads by rules of their own.
    pub fn as_ptr(&self) -> *mut u8 {
        self.bytes.start().as_ptr()
    }

    /// Says how the bytes `range` will be used. Pages that it has only a part of are left alone by
    /// [`RegionAdvice::DontNeed`] and [`RegionAdvice::Free`].
    ///
    /// # Errors
    /// [`Error::RegionRange`], [`Error::Poisoned`].
    pub fn advise(&mut self, range: impl RangeBounds<usize>, advice: RegionAdvice) -> Result<()> {
        let shared = &self.cache.shared;
        let size = shared.page_size.bytes();
        let bytes = self.range(range)?;
        match advice {
            RegionAdvice::WillNeed => {
                let pages = bytes.start / size..bytes.end.div_ceil(size);
                shared.region_ahead(&self.inner, pages)
            }
            RegionAdvice::DontNeed | RegionAdvice::Free => {
                let end = match bytes.end == self.len() as u64 {
                    true => self.inner.pages.len(),
                    false => bytes.end / size,
                };
                let whole = bytes.start.div_ceil(size)..end;
                match advice {
                    RegionAdvice::Free => shared.region_free(&self.inner, whole),
                    _ => shared.region_forget(&self.inner, whole),
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

/// The largest multiple of a `T`'s size up to `len`.
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
        if self.cache.shared.poison.is_of_another() {
            // In a forked child, where there may be something else at these addresses.
            return std::mem::forget((self.cache.clone(), self.inner.clone()));
        }
        self.cache.shared.close_region(&self.inner);
        // It can fail only if the cache is poisoned, and then the process has ended.
        let _ = self
            .cache
            .shared
            .region_forget(&self.inner, 0..self.inner.pages.len());
        if let Some(regions) = &self.cache.shared.regions {
            self.inner.tables.all_gone(&regions.tables);
            regions.remove(self.inner.id);
        }
        in_thread::remove(&self.inner);
        buffers::remove(&self.inner.memory);
        self.cache.region_dropped(self.inner.id, self.inner.pages.len());
    }
}
