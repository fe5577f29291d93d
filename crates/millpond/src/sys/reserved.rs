//! Arrays that are as long as they may ever become, and use memory only where they have been touched.
//!
//! Readers of the frame table walk without a lock, so its arrays can neither move nor be freed under
//! them. Address space is cheap: an array takes all it may need at once, fresh memory of the kernel's is
//! zero and zero means "nothing there", and what is given back reads as zero again.

use crate::sys::mapping::{Advice, HUGE_PAGE, Mapping, kernel_page};
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Types whose all-zero bytes are a value, whose bytes may become zero at any time, and that need no
/// drop.
///
/// # Safety
/// The condition holds: atomics and arrays of them.
pub(crate) unsafe trait Zeroed: Sync {}

// SAFETY: an atomic integer; zero is a value.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: an atomic integer; zero is a value.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: two atomic integers.
unsafe impl Zeroed for [AtomicU64; 2] {}

/// An array of zeros that costs memory only where it has been touched.
pub(crate) struct Reserved<T> {
    mapping: Mapping,
    len: usize,
    items: PhantomData<T>,
}

impl<T: Zeroed> Reserved<T> {
    /// `len` zeros.
    ///
    /// # Errors
    /// If the kernel gives no addresses.
    pub(crate) fn new(len: usize) -> io::Result<Reserved<T>> {
        const { assert!(align_of::<T>() <= HUGE_PAGE) };
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Reserved {
            mapping: Mapping::new(bytes, true)?,
            len,
            items: PhantomData,
        })
    }

    /// Gives back the memory of `items`, which then read as zero where whole pages of the kernel's fit
    /// among them; the others stay what they are.
    pub(crate) fn release(&self, items: Range<usize>) {
        assert!(items.end <= self.len, "items {items:?} of {}", self.len);
        let start = (items.start * size_of::<T>()).next_multiple_of(kernel_page());
        let end = items.end * size_of::<T>() / kernel_page() * kernel_page();
        if start < end {
            // SAFETY: references into the range are to `T`, for which zero is a value: `Zeroed`.
            let is_zero = unsafe { self.mapping.discard(start..end) };
            if !is_zero {
                let memory = self.mapping.start().as_ptr().wrapping_add(start);
                // SAFETY: as above, and the mapping is readable and writable.
                unsafe { memory.write_bytes(0, end - start) };
            }
        }
    }

    /// Asks for huge pages where whole ones fit into the first `len` items: a table of 64 MiB would
    /// otherwise take more entries of the processor's address cache than there are.
    pub(crate) fn use_huge_pages(&self, len: usize) {
        let end = len.min(self.len) * size_of::<T>() / HUGE_PAGE * HUGE_PAGE;
        if end > 0 {
            // Without them it is slower, not wrong.
            let _ = self.mapping.advise(0..end, Advice::HugePages);
        }
    }
}

impl<T: Zeroed> Deref for Reserved<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        let start = self.mapping.start().cast::<T>().as_ptr();
        // SAFETY: the mapping is readable, writable, aligned and at least `len` items long (`new`), its
        // bytes are items because zero is one (`Zeroed`), and it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn fresh_and_released_items_are_zero() {
        let items = Reserved::<AtomicU64>::new(10_000).unwrap();
        assert_eq!(items.len(), 10_000);
        items.iter().for_each(|item| item.store(7, Relaxed));
        items.release(1..9_999);
        let page = kernel_page() / size_of::<AtomicU64>();
        assert_eq!(
            items[page - 1].load(Relaxed),
            7,
            "shares its page with item 0, which is kept"
        );
        assert_eq!(items[page].load(Relaxed), 0);
        assert_eq!(items[9_999].load(Relaxed), 7);
    }
}
