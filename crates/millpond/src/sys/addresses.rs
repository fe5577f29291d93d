//! The addresses of a region, or of a mapped file: memory that the program sees, and whose pages come and go
//! (`arena/exchange.rs`).

use crate::sys::forks::Listed;
use crate::sys::mapping::{Advice, Mapping, kernel_page};
use crate::sys::uffd::OnTouch;
use bytemuck::AnyBitPattern;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The addresses of a region, for the exchange of pages: nothing is read or written there through this.
pub(crate) struct RegionMemory {
    pub(super) mapping: Mapping,
    pub(super) touch: OnTouch,
    /// They show a file: what the program has the kernel drop is read again.
    pub(super) is_of_file: bool,
    _listed: Listed,
}

impl RegionMemory {
    fn new(len: usize, touch: OnTouch, is_of_file: bool) -> io::Result<RegionMemory> {
        let mapping = Mapping::new(len, true)?;
        let all = 0..mapping.len();
        // Pages come and go one by one. A forked child would read zeros, and a page that it shares can't be
        // moved.
        mapping.advise(all.clone(), Advice::SmallPages)?;
        mapping.advise(all.clone(), Advice::DoNotFork)?;
        mapping.advise(all, Advice::DoNotDump)?;
        let start = mapping.start().addr().get();
        Ok(RegionMemory {
            touch,
            is_of_file,
            _listed: Listed::new(start..start + mapping.len()),
            mapping,
        })
    }

    /// Addresses of a file, which the program may only read.
    ///
    /// # Errors
    /// As [`RegionBytes::new`].
    pub(crate) fn of_file(len: usize, touch: OnTouch) -> io::Result<Arc<RegionMemory>> {
        let memory = RegionMemory::new(len, touch, true)?;
        memory.mapping.only_read()?;
        Ok(Arc::new(memory))
    }

    /// From now on the program may write it as well; pages that are write-protected stay so.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn let_write(&self) -> io::Result<()> {
        self.mapping.protect(0..self.mapping.len(), true)
    }

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

    /// From the first byte to the one after the last.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.mapping.start().addr().get();
        start..start + self.mapping.len()
    }

    /// The number of pages.
    pub(crate) fn page_count(&self) -> usize {
        self.mapping.len() / kernel_page()
    }

    /// Whether a thread that touches an absent page gets a signal.
    pub(crate) fn signals(&self) -> bool {
        self.touch == OnTouch::Signals
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
    pub(crate) fn new(len: usize, touch: OnTouch) -> io::Result<RegionBytes> {
        let memory = Arc::new(RegionMemory::new(len, touch, false)?);
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

/// The bytes of a [`Mapping`](crate::Mapping), at addresses that stay valid as long as it lives.
pub struct MappedBytes {
    memory: Arc<RegionMemory>,
    bytes: Range<usize>,
}

impl MappedBytes {
    /// These bytes of the memory, which are not none.
    ///
    /// # Panics
    /// If it is shorter.
    pub(crate) fn new(memory: &Arc<RegionMemory>, bytes: Range<usize>) -> MappedBytes {
        let len = memory.mapping.len();
        assert!(bytes.start < bytes.end && bytes.end <= len, "{bytes:?} of {len}");
        let memory = memory.clone();
        MappedBytes { memory, bytes }
    }

    /// Returns the address of the first mapped byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory
            .mapping
            .start()
            .as_ptr()
            .wrapping_add(self.bytes.start)
    }

    /// The same, to write there: [`Mapping::as_mut_ptr`](crate::Mapping::as_mut_ptr) has checked that it may be.
    pub(crate) fn start_mut(&self) -> *mut u8 {
        self.as_ptr().cast_mut()
    }

    /// Returns the number of mapped bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the length is zero, which it never is.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns all bytes, as if the program had mapped the file itself. A thread that touches a missing page waits
    /// until it is loaded. If the page can't be read or lies past the end of the file, the thread gets `SIGBUS`.
    ///
    /// # Safety
    /// While the slice is in use, no thread and no other process may change these bytes, whether by writing to the
    /// file, truncating it, punching a hole or invalidating. Rust requires that bytes behind a slice do not change, and
    /// nothing here enforces it. [`Mapping::try_read`](crate::Mapping::try_read) and
    /// [`Mapping::copy_to`](crate::Mapping::copy_to) have no such requirement.
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is readable, that long (`new`), and lives as long as `self`; a page that is not there comes
        // when it is touched. The caller promises that no byte changes.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// Returns all bytes for writing, of a [writable](crate::MapOptions::writable) mapping. A store that dirties a page
    /// may block; it can't return an error.
    ///
    /// # Safety
    /// As for [`MappedBytes::as_slice`]. In addition, while the slice is in use, nothing else may read these bytes
    /// through a slice, and no thread may hold another slice of them.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is no part of `self`, and the caller answers for it"
    )]
    pub unsafe fn as_mut_slice(&self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; a store where the memory is not writable is a signal. The caller promises that it is the
        // only slice.
        unsafe { std::slice::from_raw_parts_mut(self.start_mut(), self.len()) }
    }

    /// The same as words, as many as fit, of memory that may be written.
    ///
    /// # Panics
    /// If it does not begin at a multiple of 8.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let start = self.as_ptr().cast::<AtomicU64>();
        assert!(start.is_aligned(), "words of {self:?}");
        // SAFETY: readable and writable, aligned, and that long for as long as `self` lives. While it is shared, other threads
        // that use it do so atomically, as the slices of `as_slice` and `as_mut_slice` exclude each other and this; and a page
        // that leaves comes again as it was.
        unsafe { std::slice::from_raw_parts(start, self.len() / size_of::<AtomicU64>()) }
    }

    /// Returns as many `T` as fit. `T` is any type for which every bit pattern is valid.
    ///
    /// # Safety
    /// As for [`MappedBytes::as_slice`].
    ///
    /// # Panics
    /// Panics if the mapping does not begin at a multiple of `T`'s alignment.
    pub unsafe fn as_slice_of<T: AnyBitPattern>(&self) -> &[T] {
        // SAFETY: as the caller promises.
        let bytes = unsafe { self.as_slice() };
        let len = bytes.len() / size_of::<T>().max(1) * size_of::<T>();
        bytemuck::cast_slice(&bytes[..len])
    }

    /// These of its bytes, for a caller that keeps them as they are, and from leaving for good.
    ///
    /// # Safety
    /// That it does.
    pub(super) unsafe fn part(&self, part: Range<usize>) -> &[u8] {
        // SAFETY: as the caller promises.
        let all = unsafe { self.as_slice() };
        &all[part]
    }
}

impl std::fmt::Debug for MappedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:?}", self.len(), self.as_ptr())
    }
}
