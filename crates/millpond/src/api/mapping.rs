//! File mappings: the public API.

mod close_error;

pub use close_error::MapCloseError;

use super::handle::Handle;
use crate::api::file::{Advice, File};
use crate::engine::driver::{CallBack, Engine, MappedFaults};
use crate::engine::in_thread;
use crate::error::{Error, Result};
use crate::frames::own;
use crate::host::addresses;
use crate::memory::covered::BLOCK_BYTES;
use crate::memory::mapped::MappedFile;
use crate::memory::{AT_FIRST, MapOptions, Space, Spaces, buffers};
use crate::sys::addresses::{MappedBytes, RegionMemory};
use crate::sys::arena::pinned;
use crate::sys::uffd::OnTouch;
use millpond_core::units::Bytes;
use std::fmt;
use std::io;
use std::ops::{Bound, Deref, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The expected use of a part of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MapAdvice {
    /// The access pattern, as for [`File::advise`]; applies to the whole file.
    As(Advice),
    /// Needed soon: missing pages are read in the background, as far as memory allows.
    WillNeed,
    /// Not needed soon: the pages leave the mapping. They stay in the cache until replacement evicts them.
    DontNeed,
}

/// A part of a file at stable addresses, as with `mmap`. Its resident pages count against the cache's budget, beside
/// the pages that other calls use, and the cache's replacement policy evicts them.
///
/// A mapping is coherent with the cache. It shows a [`File::write_at`], [`File::punch`] or [`File::set_len`] as soon as
/// the call has returned. If it is [writable](MapOptions::writable), a [`File::read_at`] returns stores to it at once,
/// and the cache writes them in the background. A mapping keeps its file open. [`File::map`] creates it.
///
/// A store that dirties a page blocks while too much memory is dirty, as a [`File::write_at`] does, and while more of
/// the file is unwritable than the option `dirty.failed` allows. A store cannot return an error; [`Mapping::sync`]
/// does.
///
/// Touching a page that can't be read raises `SIGBUS` in the thread, after a [`Warning`](crate::Warning) that gives the
/// reason; the next touch asks the device again. Touching a page past the end of the file raises `SIGBUS` too, as with
/// `mmap`. [`Mapping::try_read`] returns an error instead. A forked child does not have the memory. A thread deadlocks
/// with itself if it touches a page here while it holds a [`PageMut`](crate::PageMut) of that page, or stores to a page
/// while it holds a [`PageRef`](crate::PageRef) of it.
///
/// ```
/// # use millpond::{MapOptions, OpenOptions, PageCache};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// # std::fs::write(&path, [7; 100_000])?;
/// # let built = PageCache::builder().memory(8 << 20).mappings(true).build();
/// # let Ok(cache) = built else { return Ok(()) }; // no userfaultfd here
/// let file = cache.open(&path, OpenOptions::new())?;
/// let mapping = file.map(.., &MapOptions::new())?;
/// let sum = mapping.try_read(50_000..60_000, |bytes| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>())?;
/// assert_eq!(sum, 70_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mapping {
    bytes: MappedBytes,
    /// The offset in the file at which it begins.
    start: u64,
    is_writable: bool,
    mapped: Arc<MappedFile>,
    // Last: the file may be closed with it.
    file: File,
}

impl File {
    /// Maps the bytes `range` of the file, at addresses that stay valid as long as the [`Mapping`]. The range may begin
    /// and end at any byte, even past the end of the file; that part becomes accessible when the file grows. All
    /// mappings of a file share the same addresses.
    ///
    /// Costs address space, and 4 KiB of the budget for each 4 MiB of the file that is touched, for at most a quarter
    /// of the cache's pages, until the file's last mapping is dropped. Touching more evicts from the mapping what was
    /// touched first.
    ///
    /// # Errors
    /// [`Error::Setup`] if the cache was built without [`Builder::mappings`](crate::Builder::mappings), if the process
    /// may not reserve that many addresses, if the file is already mapped with other options, or if the kernel can't
    /// write-protect pages, which a writable mapping requires; [`Error::ReadOnly`] if the mapping is to be writable and
    /// the handle is not; [`Error::OutOfRange`] if the range is empty, or ends past the [`MapOptions::room`] of an
    /// existing mapping; [`Error::BudgetTooSmall`]; [`Error::Poisoned`].
    pub fn map(&self, range: impl RangeBounds<u64>, options: &MapOptions) -> Result<Mapping> {
        let engine = &self.cache.engine;
        engine.call_flags.check()?;
        let Some(spaces) = &engine.spaces else {
            let why = "the cache was made without Builder::mappings";
            return Err(setup(io::Error::new(io::ErrorKind::Unsupported, why)));
        };
        if options.is_writable() {
            self.check_writable()?;
        }
        let Range { start, end } = bounds(range, self.len());
        if start >= end {
            return Err(self.no_such_map("begin of a mapping", start, end.checked_sub(1)));
        }
        let _making = spaces.mapped.making.lock();
        let mapped = match spaces.mapped.of(self.inner.id) {
            Some(mapped) => self.mapped_before(mapped, end, options)?,
            None => self.map_first(spaces, end, options)?,
        };
        let size = engine.page_size.bytes();
        let made = self.cover(&mapped, &(start / size..end.div_ceil(size)));
        let made = made.and_then(|()| match options.is_writable() {
            true => self.let_write(spaces, &mapped),
            false => Ok(()),
        });
        made.inspect_err(|_| self.give_up_map(&mapped))?;
        spaces.mapped.add(&mapped);
        Ok(Mapping {
            bytes: MappedBytes::new(&mapped.space.memory, start as usize..end as usize),
            start,
            is_writable: options.is_writable(),
            mapped,
            file: self.clone(),
        })
    }

    /// Takes budget for the page states of a new mapping of these pages: as much as the first touched pages need.
    fn cover(&self, mapped: &MappedFile, pages: &Range<u64>) -> Result<()> {
        let mut covered = mapped.covered.lock();
        let with = covered.with(pages);
        let blocks = (with.bytes() / BLOCK_BYTES).min(AT_FIRST);
        mapped.states.raise(blocks, &*mapped.pays_states)?;
        *covered = with;
        Ok(())
    }

    /// Returns the mapping's share of the budget to the pool. That can fail only for lack of memory; the pool then
    /// stays as it is.
    fn uncover(&self, mapped: &MappedFile) {
        let bytes = mapped.states.limit() * BLOCK_BYTES;
        let _ = self.cache.set_aside_for_regions(-(bytes as i64));
    }

    fn let_write(&self, spaces: &Spaces, mapped: &MappedFile) -> Result<()> {
        if !spaces.exchange.can_write_protect() {
            let why = "this kernel can't write-protect single pages, so changes would go unseen";
            return Err(setup(io::Error::new(io::ErrorKind::Unsupported, why)));
        }
        mapped.space.memory.let_write().map_err(setup)
    }

    fn mapped_before(
        &self,
        mapped: Arc<MappedFile>,
        end: u64,
        options: &MapOptions,
    ) -> Result<Arc<MappedFile>> {
        let memory = &mapped.space.memory;
        if memory.signals() != (options.touch() == OnTouch::Signals) {
            let why = "it is already mapped with the other kind of faults";
            return Err(setup(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let room = memory.addresses().len() as u64;
        if end > room {
            return Err(self.no_such_map(
                "end of a mapping beside smaller ones (MapOptions::room)",
                end,
                Some(room),
            ));
        }
        Ok(mapped)
    }

    fn map_first(&self, spaces: &Spaces, end: u64, options: &MapOptions) -> Result<Arc<MappedFile>> {
        let engine = &self.cache.engine;
        if options.touch() == OnTouch::Signals {
            in_thread::prepare().map_err(setup)?;
        }
        let bytes = options.addresses(self.len(), end);
        let memory = RegionMemory::of_file(bytes as usize, options.touch());
        let memory = memory.map_err(|error| setup(addresses::refused(error, Bytes(bytes))))?;
        spaces.exchange.add_region(&memory).map_err(setup)?;
        // While a fault is served there is a mapping, and so the cache.
        let cache = Arc::downgrade(&self.cache);
        let pays = move |blocks: u64| match cache.upgrade() {
            Some(cache) => cache.set_aside_for_regions((blocks * BLOCK_BYTES) as i64),
            None => Ok(()),
        };
        let mapped = MappedFile::new(self.inner.clone(), memory, Box::new(pays));
        let mapped = Arc::new(mapped.map_err(setup)?);
        if options.touch() == OnTouch::Signals {
            in_thread::enter(Space::File(mapped.clone()), engine);
        }
        buffers::enter(&mapped.space.memory);
        Ok(mapped)
    }

    /// Cleans up after a mapping that could not be created, if it was the file's first.
    fn give_up_map(&self, mapped: &Arc<MappedFile>) {
        if self.cache.engine.mapped_of(&self.inner).is_none() {
            in_thread::remove(&mapped.space);
            buffers::remove(&mapped.space.memory);
            self.uncover(mapped);
        }
    }

    fn no_such_map(&self, what: &'static str, given: u64, max: Option<u64>) -> Error {
        let path = self.inner.path.clone();
        Error::OutOfRange {
            path,
            what,
            given,
            max,
        }
    }
}

impl Mapping {
    /// Returns the mapped file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Lends the bytes `range`, counted from the start of the mapping, to `read`. The pages are loaded and pinned
    /// first: no thread changes them meanwhile, the file is not truncated below them, and writers of these pages wait.
    /// Lends at most a quarter of the cache's memory at a time. When other threads have pinned so much that no frames
    /// are left, the call waits for its turn without holding any pins.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`Error::OutOfRange`] past the end of the mapping or of the file, or if the range is too
    /// long.
    pub fn try_read<R>(&self, range: impl RangeBounds<usize>, read: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let part = self.part(range)?;
        if part.is_empty() {
            return Ok(read(&[]));
        }
        let engine = self.engine();
        engine.call_flags.check()?;
        let size = engine.page_size.bytes();
        let (from, to) = (self.start + part.start as u64, self.start + part.end as u64);
        let pages = from / size..to.div_ceil(size);
        let most = engine.core().manager.derived().frames.0 / 4;
        if pages.end - pages.start > most {
            let bytes = part.len() as u64;
            return Err(self
                .file
                .no_such_map("bytes lent at a time", bytes, Some(most * size)));
        }
        let pins = MappedFaults::of(engine, &self.mapped).pin_together(pages)?;
        let _own: Vec<_> = pins.iter().map(own::OwnGuard::lent).collect();
        // A thread that cuts the file stores its length before it waits for these pins.
        let len = self.file.len();
        if to > len {
            return Err(self.file.no_such_map("end of bytes", to, Some(len)));
        }
        self.file.check_whole(from..to)?;
        let whole = (&self.bytes, self.mapped.file.id, self.start);
        Ok(pinned::lend(whole, part, &pins, read))
    }

    /// Copies bytes from `offset` on, counted from the start of the mapping, into `buf`. Returns the number of bytes
    /// copied, which is smaller than the buffer only at the end of the mapping or of the file. Safe while others write,
    /// because it is a [`File::read_at`].
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn copy_to(&self, buf: &mut [u8], offset: usize) -> Result<usize> {
        let most = self.len().saturating_sub(offset).min(buf.len());
        self.file
            .read_at(&mut buf[..most], self.start.saturating_add(offset as u64))
    }

    /// Writes all of `bytes` at `offset`, counted from the start of the mapping. Safe while others read and write,
    /// because it is a [`File::write_at`], with the same dirty limits, pauses and errors.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the mapping is not writable; [`Error::OutOfRange`] past the end of the mapping or of the
    /// file. Nothing is written then, except that a truncation during the call may leave the bytes before the new end
    /// written. Otherwise as [`File::write_at`].
    pub fn copy_from(&self, bytes: &[u8], offset: usize) -> Result<()> {
        self.check_writable()?;
        let end = offset.saturating_add(bytes.len());
        self.part(offset..end)?;
        self.file.write_inside(bytes, self.start + offset as u64)
    }

    /// Makes the bytes `range` durable with all earlier stores by any thread and changes by any call, and the rest of
    /// the file with them. Concurrent stores may or may not be included.
    ///
    /// # Errors
    /// As [`File::sync_data`]: unwritten changes stay in memory, and every sync returns the error until they are
    /// written. [`Error::Write`] with `EBUSY` if a device has been writing into some pages for the longest time that a
    /// call waits (the option `alloc_timeout`); [`Error::OutOfRange`] past the end of the mapping.
    pub fn sync(&self, range: impl RangeBounds<usize>) -> Result<()> {
        self.part(range)?;
        self.file.sync_data()
    }

    /// Makes all stores durable and drops the mapping, reporting errors, which a plain drop cannot. A read-only mapping
    /// is just dropped.
    ///
    /// # Errors
    /// As [`Mapping::sync`], together with the mapping. Unwritten changes are still in memory.
    pub fn close(self) -> std::result::Result<(), MapCloseError> {
        let synced = if self.is_writable { self.sync(..) } else { Ok(()) };
        synced.map_err(|error| MapCloseError {
            error,
            mapping: Box::new(self),
        })
    }

    /// Returns whether the mapping is [writable](MapOptions::writable).
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Returns the start of the mapping, for writing. A store changes the file at once. A store past the end of the
    /// file raises `SIGBUS`, or has no effect if it hits the file's last page.
    ///
    /// # Panics
    /// Panics if the mapping is not writable.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        assert!(self.is_writable, "{self:?} was made without MapOptions::writable");
        self.bytes.start_mut()
    }

    /// Returns the mapping as atomic words, as many as fit, which any thread may load and store at any time. Because
    /// every access is atomic, this is sound while others change the memory.
    ///
    /// # Panics
    /// Panics if the mapping is not writable, or does not begin at a multiple of 8.
    ///
    /// ```
    /// # use millpond::{MapOptions, OpenOptions, PageCache};
    /// use std::sync::atomic::Ordering;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # std::fs::write(&path, [0; 100_000])?;
    /// # let built = PageCache::builder().memory(8 << 20).mappings(true).build();
    /// # let Ok(cache) = built else { return Ok(()) }; // no userfaultfd here
    /// let file = cache.open(&path, OpenOptions::new().write(true))?;
    /// let mapping = file.map(.., &MapOptions::new().writable(true))?;
    /// mapping.words()[1000].fetch_add(7, Ordering::Relaxed);
    /// mapping.sync(..)?;
    /// # let bytes = std::fs::read(&path)?;
    /// # assert_eq!(bytes[8000], 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn words(&self) -> &[AtomicU64] {
        assert!(self.is_writable, "{self:?} was made without MapOptions::writable");
        self.bytes.words()
    }

    fn check_writable(&self) -> Result<()> {
        if self.is_writable {
            return Ok(());
        }
        Err(Error::ReadOnly {
            path: self.file.inner.path.clone(),
            is_mapping: true,
        })
    }

    /// Returns whether the page that holds byte `offset` of the mapping is in memory, so that touching it reads
    /// nothing. The answer may be out of date by the time it returns.
    pub fn is_resident(&self, offset: usize) -> bool {
        offset < self.len() && self.file.is_resident(self.start + offset as u64)
    }

    /// Starts reading the pages of `range` that are not in memory, and returns without waiting, as [`File::prefetch`]
    /// does.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the end of the mapping; [`Error::Poisoned`].
    pub fn prefetch(&self, range: impl RangeBounds<usize>) -> Result<()> {
        let part = self.part(range)?;
        self.file
            .prefetch(self.start + part.start as u64, part.len() as u64)
    }

    /// Sets the expected use of the bytes `range`.
    ///
    /// # Errors
    /// As [`Mapping::prefetch`].
    pub fn advise(&self, range: impl RangeBounds<usize>, advice: MapAdvice) -> Result<()> {
        let part = self.part(range)?;
        match advice {
            MapAdvice::As(advice) => self.file.advise(advice),
            MapAdvice::WillNeed => self.prefetch(part),
            MapAdvice::DontNeed => {
                let size = self.engine().page_size.bytes();
                let (from, to) = (self.start + part.start as u64, self.start + part.end as u64);
                // Pages that it has only a part of are left alone.
                let pages = from.div_ceil(size)..to / size;
                self.engine().call_flags.check()?;
                CallBack::of(self.engine()).call_back(&self.mapped.file, pages, true);
                Ok(())
            }
        }
    }

    fn engine(&self) -> &Engine {
        &self.file.cache.engine
    }

    fn part(&self, range: impl RangeBounds<usize>) -> Result<Range<usize>> {
        let len = self.len() as u64;
        let as_u64 = |bound: Bound<&usize>| match bound {
            Bound::Included(&at) => Bound::Included(at as u64),
            Bound::Excluded(&at) => Bound::Excluded(at as u64),
            Bound::Unbounded => Bound::Unbounded,
        };
        let Range { start, end } = bounds((as_u64(range.start_bound()), as_u64(range.end_bound())), len);
        if start <= end && end <= len {
            return Ok(start as usize..end as usize);
        }
        Err(self
            .file
            .no_such_map("byte of a mapping", start.max(end), Some(len)))
    }
}

/// Returns the start, and the end after the last byte.
fn bounds(range: impl RangeBounds<u64>, len: u64) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(&at) => at,
        Bound::Excluded(&at) => at.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&at) => at.saturating_add(1),
        Bound::Excluded(&at) => at,
        Bound::Unbounded => len,
    };
    start..end
}

fn setup(source: io::Error) -> Error {
    Error::Setup {
        what: "mapping a file",
        source,
    }
}

impl Deref for Mapping {
    type Target = MappedBytes;

    fn deref(&self) -> &MappedBytes {
        &self.bytes
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.file.path().display();
        write!(
            f,
            "Mapping of {path} from byte {} on: {:?}",
            self.start, self.bytes
        )
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let cache: &Arc<Handle> = &self.file.cache;
        if cache.engine.call_flags.is_of_another() {
            // In a forked child, where there may be something else at these addresses.
            return std::mem::forget(self.mapped.clone());
        }
        let Some(spaces) = &cache.engine.spaces else {
            return;
        };
        let _making = spaces.mapped.making.lock();
        if !spaces.mapped.subtract(self.mapped.file.id) {
            return;
        }
        CallBack::of(&cache.engine).close_mapped(&self.mapped);
        spaces.mapped.remove(self.mapped.file.id);
        in_thread::remove(&self.mapped.space);
        buffers::remove(&self.mapped.space.memory);
        self.file.uncover(&self.mapped);
    }
}
