//! Memory for private copies of pages on their way to the device: a fixed number of pages, given out one by one.
//!
//! ```text
//!   take ──► Slot: its owner fills it ──► Copied: several slots as the memory of one transfer
//!    ▲                                              │ the device lets go of the request
//!    └──────────────────────────────────────────────┘
//! ```
//!
//! A slot's bytes belong to the owner of the [`Slot`]; a [`Copied`] takes slots for good and gives their
//! bytes to the device only, and they are free again when the last holder of it, a request, is gone.

use super::buffer::Buffer;
use super::segment::{Memory, Segments};
use parking_lot::Mutex;
use std::fmt;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// All slots.
pub(crate) struct Copies {
    memory: Arc<Buffer>,
    page_bytes: usize,
    free: Mutex<Vec<u32>>,
}

impl Copies {
    /// `slots` pages of `page_bytes` bytes.
    ///
    /// # Panics
    /// If that is no memory at all, or more than the system has.
    pub(crate) fn new(slots: u32, page_bytes: usize) -> Arc<Copies> {
        Arc::new(Copies {
            memory: Buffer::new(slots as usize * page_bytes),
            page_bytes,
            // The lowest is given out first, so that the copies of a run of pages lie side by side.
            free: Mutex::new((0..slots).rev().collect()),
        })
    }

    /// A page's worth of memory, if any is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let number = self.free.lock().pop()?;
        Some(Slot {
            copies: self.clone(),
            number,
        })
    }

    /// Bytes of all slots, and of the list of free ones.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.range().len() + self.free.lock().capacity() * size_of::<u32>()
    }

    /// The number of free copies.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free.lock().len()
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Copies({} free)", self.free.lock().len())
    }
}

/// Memory for one page, which its owner fills.
#[derive(Debug)]
pub(crate) struct Slot {
    copies: Arc<Copies>,
    number: u32,
}

impl Slot {
    fn start(&self) -> usize {
        self.number as usize * self.copies.page_bytes
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let base = self.copies.memory.range().cast::<u8>().as_ptr();
        let at = base.wrapping_add(self.start());
        // SAFETY: inside the buffer, which `copies` keeps: numbers are below the slots that it was made for.
        // Initialised, as `Buffer::new` zeroes it. Ours alone: a number is in one slot at a time, and a slot
        // that a device may be reading is inside a `Copied`, which never lends it.
        unsafe { slice::from_raw_parts_mut(at, self.copies.page_bytes) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.copies.free.lock().push(self.number);
    }
}

/// The memory of one transfer: slots in the order of the file.
#[derive(Debug)]
pub(crate) struct Copied {
    copies: Arc<Copies>,
    _slots: Vec<Slot>,
}

// SAFETY: the buffer stays where it is while `copies` has it. The bytes that a transfer is about are those of
// `_slots`, which no thread can reach any more until the last holder of this is gone.
unsafe impl Memory for Copied {
    fn range(&self) -> NonNull<[u8]> {
        self.copies.memory.range()
    }
}

/// The first `bytes` bytes of the slots, one after the other.
///
/// # Panics
/// If there are no slots.
pub(crate) fn segments(slots: Vec<Slot>, bytes: usize) -> Segments {
    let copies = slots[0].copies.clone();
    let (page, mut left) = (copies.page_bytes, bytes);
    let starts: Vec<usize> = slots.iter().map(Slot::start).collect();
    let mut segments = Segments::new(Arc::new(Copied {
        copies,
        _slots: slots,
    }));
    for start in starts {
        let len = left.min(page);
        segments.push(start, len);
        left -= len;
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_free_again_when_the_transfer_has_let_go_of_them() {
        let copies = Copies::new(3, 4096);
        let mut slots: Vec<Slot> = (0..3).filter_map(|_| copies.take()).collect();
        assert!(copies.take().is_none(), "there are no more");
        for (n, slot) in slots.iter_mut().enumerate() {
            slot.bytes().fill(n as u8 + 1);
        }
        drop(slots.remove(0));
        let segments = segments(slots, 5000);
        assert_eq!((segments.bytes(), segments.ranges()), (5000, 1));
        let copy = segments.clone();
        drop(segments);
        assert_eq!(copies.free(), 1, "the transfer has two");
        drop(copy);
        assert_eq!(copies.free(), 3);
    }
}
