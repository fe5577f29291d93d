//! Files at addresses, as users have them.

mod close_error;

pub use close_error::MapCloseError;

use super::handle::Handle;
use crate::api::file::{Advice, File};
use crate::engine::driver::Engine;
use crate::engine::in_thread;
use crate::error::{Error, Result};
use crate::frames::own;
use crate::host::addresses;
use crate::memory::covered::BLOCK_BYTES;
use crate::memory::mapped::MappedFile;
use crate::memory::{AT_FIRST, MapOptions, Regions, buffers};
use crate::sys::addresses::{MappedBytes, RegionMemory};
use crate::sys::arena::pinned;
use crate::sys::uffd::Touch;
use millpond_core::units::Bytes;
use std::fmt;
use std::io;
use std::ops::{Bound, Deref, Range, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// How a part of a mapping will be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MapAdvice {
    /// In order, at unpredictable places, or not known: as [`File::advise`], for all of the file.
    As(Advice),
    /// Soon: what is not in memory is read in the background, as far as there is room.
    WillNeed,
    /// Not soon: the mapping gives it back. What the cache has of it stays as long as others of its pages are worth less.
    DontNeed,
}

/// A part of a file at addresses that stay: as with `mmap`, but what of it is in memory is within the cache's budget, beside
/// the pages that other calls use, and leaves by the cache's rules.
///
/// It shows what the cache has: a [`File::write_at`], [`File::punch`] or [`File::set_len`] that has returned is seen at once. So
/// does the file what is stored in the mapping, if it is [writable](MapOptions::writable): a [`File::read_at`] gives it, and the
/// cache writes it in the background. It keeps its file open. Made by [`File::map`].
///
/// A thread that makes a page dirty by a store waits there while too much is dirty, as a [`File::write_at`] does, and while more
/// of the file can't be written than the option `dirty.failed` allows. A store has no error: [`Mapping::sync`] has.
///
/// A page that can't be read is `SIGBUS` for the thread that touches it, after a [`Warning`](crate::Warning) that says why; the
/// next touch asks the device again. So is a page behind the end of the file, as with `mmap`. [`Mapping::try_read`] gives an
/// error instead. A forked child does not have the memory. A thread that holds a [`PageMut`](crate::PageMut) of a page and
/// touches it here waits for itself, as does one that stores to a page of which it holds a [`PageRef`](crate::PageRef).
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
    /// Where it begins in the file.
    start: u64,
    is_writable: bool,
    mapped: Arc<MappedFile>,
    // Last: the file may be closed with it.
    file: File,
}

impl File {
    /// Maps the bytes `range` of the file: they are at addresses that stay as long as the [`Mapping`]. It may begin
    /// and end anywhere, behind the end of the file too: what is there can be touched when the file has become longer.
    /// All mappings of a file show it at the same addresses.
    ///
    /// Costs address space, and 4 KiB of the budget for each 4 MiB of the file that are touched, up to a quarter of its pages,
    /// until the file's last mapping is dropped. What is touched beyond makes what was touched first leave the mapping.
    ///
    /// # Errors
    /// [`Error::Setup`] if the cache was made without [`Builder::mappings`](crate::Builder::mappings), if the process may not
    /// have so many addresses, if the file is mapped with other options, or if the kernel can't write-protect pages, which a
    /// writable mapping needs; [`Error::ReadOnly`] if it is to be writable and the handle is not;
    /// [`Error::OutOfRange`] if there are no bytes in the range, or it ends behind [`MapOptions::room`] of the mapping that is
    /// there already; [`Error::BudgetTooSmall`]; [`Error::Poisoned`].
    pub fn map(&self, range: impl RangeBounds<u64>, options: &MapOptions) -> Result<Mapping> {
        let engine = &self.cache.engine;
        engine.call_flags.check()?;
        let Some(regions) = &engine.regions else {
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
        let _making = regions.mapped.making.lock();
        let mapped = match regions.mapped.of(self.inner.id) {
            Some(mapped) => self.mapped_before(mapped, end, options)?,
            None => self.map_first(regions, end, options)?,
        };
        let size = engine.page_size.bytes();
        let made = self.cover(&mapped, &(start / size..end.div_ceil(size)));
        let made = made.and_then(|()| match options.is_writable() {
            true => self.let_write(regions, &mapped),
            false => Ok(()),
        });
        made.inspect_err(|_| self.give_up_map(&mapped))?;
        regions.mapped.add(&mapped);
        Ok(Mapping {
            bytes: MappedBytes::new(&mapped.space.memory, start as usize..end as usize),
            start,
            is_writable: options.is_writable(),
            mapped,
            file: self.clone(),
        })
    }

    /// A mapping is to have these pages: what is known of the first that are touched takes some of the budget at once.
    fn cover(&self, mapped: &MappedFile, pages: &Range<u64>) -> Result<()> {
        let mut covered = mapped.covered.lock();
        let with = covered.with(pages);
        let blocks = (with.bytes() / BLOCK_BYTES).min(AT_FIRST);
        mapped.states.raise(blocks, &*mapped.pays_states)?;
        *covered = with;
        Ok(())
    }

    /// What it had of the budget is the pool's again: that can fail only for want of memory, and then the pool stays as it is.
    fn uncover(&self, mapped: &MappedFile) {
        let bytes = mapped.states.limit() * BLOCK_BYTES;
        let _ = self.cache.set_aside_for_regions(-(bytes as i64));
    }

    fn let_write(&self, regions: &Regions, mapped: &MappedFile) -> Result<()> {
        if !regions.exchange.can_write_protect() {
            let why = "this kernel can't write-protect single pages, so that changes are not seen";
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
        if memory.signals() != (options.touch() == Touch::Signals) {
            let why = "it is mapped already, and its faults are served otherwise";
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

    fn map_first(&self, regions: &Regions, end: u64, options: &MapOptions) -> Result<Arc<MappedFile>> {
        let engine = &self.cache.engine;
        if options.touch() == Touch::Signals {
            in_thread::prepare().map_err(setup)?;
        }
        let bytes = options.addresses(self.len(), end);
        let memory = RegionMemory::of_file(bytes as usize, options.touch());
        let memory = memory.map_err(|error| setup(addresses::refused(error, Bytes(bytes))))?;
        regions.exchange.add_region(&memory).map_err(setup)?;
        // While a fault is served there is a mapping, and so the cache.
        let cache = Arc::downgrade(&self.cache);
        let pays = move |blocks: u64| match cache.upgrade() {
            Some(cache) => cache.set_aside_for_regions((blocks * BLOCK_BYTES) as i64),
            None => Ok(()),
        };
        let mapped = MappedFile::new(self.inner.clone(), memory, Box::new(pays));
        let mapped = Arc::new(mapped.map_err(setup)?);
        if options.touch() == Touch::Signals {
            in_thread::enter_mapped(&mapped, engine);
        }
        buffers::enter(&mapped.space.memory);
        Ok(mapped)
    }

    /// A mapping of the file could not be made after all. If it is the first, it is forgotten.
    fn give_up_map(&self, mapped: &Arc<MappedFile>) {
        if self.cache.engine.mapped_of(&self.inner).is_none() {
            in_thread::remove_mapped(mapped);
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
    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Lends the bytes `range`, counted from the begin of the mapping, to `read`. They are brought into memory and pinned
    /// first, so no thread changes them meanwhile and the file is not made shorter below them; writers of these pages wait.
    /// At most a quarter of the cache's memory at a time. Where other threads have lent so much that there are no frames left,
    /// it waits with none in its hands until it is its turn.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`Error::OutOfRange`] behind the end of the mapping or of the file, or if there are too many
    /// bytes.
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
        let pins = engine.pin_together(&self.mapped, pages)?;
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

    /// Copies bytes from `offset` on, counted from the begin of the mapping, into `buf`: how many, less only at the end of the
    /// mapping or of the file. Safe while others write, as it is [`File::read_at`].
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn copy_to(&self, buf: &mut [u8], offset: usize) -> Result<usize> {
        let most = self.len().saturating_sub(offset).min(buf.len());
        self.file
            .read_at(&mut buf[..most], self.start.saturating_add(offset as u64))
    }

    /// Writes all of `bytes` at `offset`, counted from the begin of the mapping. Safe while others read and write, as it is
    /// [`File::write_at`]. Dirty limits, pauses and errors are those, too.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] of a mapping that is not writable; [`Error::OutOfRange`] behind the end of the mapping or of the
    /// file, and nothing is written then, or what is before its new end if it is cut meanwhile; as [`File::write_at`].
    pub fn copy_from(&self, bytes: &[u8], offset: usize) -> Result<()> {
        self.check_writable()?;
        let end = offset.saturating_add(bytes.len());
        self.part(offset..end)?;
        self.file.write_inside(bytes, self.start + offset as u64)
    }

    /// Makes the bytes `range` durable, as they were stored by any thread and changed by any call before: all of the file with
    /// them. What is stored meanwhile may be part of it.
    ///
    /// # Errors
    /// As [`File::sync_data`]: what could not be written stays in memory, and the next sync says so again until it is written.
    /// [`Error::Write`] with `EBUSY` if pages can't be written because a device has been writing into them for as long as a call
    /// waits at most (the option `alloc_timeout`); [`Error::OutOfRange`] behind the end of the mapping.
    pub fn sync(&self, range: impl RangeBounds<usize>) -> Result<()> {
        self.part(range)?;
        self.file.sync_data()
    }

    /// Makes what was stored in it durable and drops the mapping, saying whether that went well; dropping it alone can't say. One
    /// for reading only is dropped and nothing else.
    ///
    /// # Errors
    /// As [`Mapping::sync`], with the mapping: what could not be written is still there.
    pub fn close(self) -> std::result::Result<(), MapCloseError> {
        let synced = if self.is_writable { self.sync(..) } else { Ok(()) };
        synced.map_err(|error| MapCloseError {
            error,
            mapping: Box::new(self),
        })
    }

    /// Whether it was made [writable](MapOptions::writable).
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Where it begins, to write there: what is stored is the file's at once. A store behind the end of the file is `SIGBUS`, or
    /// of no effect in its last page.
    ///
    /// # Panics
    /// If the mapping is not writable.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        assert!(self.is_writable, "{self:?} was made without MapOptions::writable");
        self.bytes.start_mut()
    }

    /// The mapping as words that any threads may read and store at any time, as many as fit: a view of memory that others change
    /// needs no promise if each access is atomic.
    ///
    /// # Panics
    /// If the mapping is not writable, or does not begin at a multiple of 8.
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
        let path = self.file.inner.path.clone();
        Err(Error::ReadOnly { path })
    }

    /// Whether the whole page that holds byte `offset` of the mapping is in memory at this moment, so that a touch of it reads
    /// nothing.
    pub fn is_resident(&self, offset: usize) -> bool {
        offset < self.len() && self.file.is_resident(self.start + offset as u64)
    }

    /// Starts to read what of `range` is not in memory, and does not wait for it, as [`File::prefetch`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] behind the end of the mapping, [`Error::Poisoned`].
    pub fn prefetch(&self, range: impl RangeBounds<usize>) -> Result<()> {
        let part = self.part(range)?;
        self.file
            .prefetch(self.start + part.start as u64, part.len() as u64)
    }

    /// Says how the bytes `range` will be used.
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
                self.engine().call_back(&self.mapped.file, pages, true);
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

/// Where it begins, and where behind its last byte it ends.
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
        let Some(regions) = &cache.engine.regions else {
            return;
        };
        let _making = regions.mapped.making.lock();
        if !regions.mapped.subtract(self.mapped.file.id) {
            return;
        }
        cache.engine.close_mapped(&self.mapped);
        regions.mapped.remove(self.mapped.file.id);
        in_thread::remove_mapped(&self.mapped);
        buffers::remove(&self.mapped.space.memory);
        self.file.uncover(&self.mapped);
    }
}
