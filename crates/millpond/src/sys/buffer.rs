//! Private memory for a transfer: aligned for direct I/O, zeroed, and accessible only while no transfer holds it.

use super::segment::Memory;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// The largest page size; every device's alignment is smaller.
const ALIGNMENT: usize = 64 << 10;

/// A plain [`Memory`] for transfers outside a cache's frames.
///
/// ```
/// use millpond::device::{Buffer, Segments};
/// let mut buffer = Buffer::new(8192);
/// Buffer::bytes(&mut buffer).unwrap()[0] = 1;
/// let segments = Segments::of(buffer.clone(), 0, 8192);
/// assert!(Buffer::bytes(&mut buffer).is_none(), "a transfer may be using it");
/// drop(segments);
/// assert!(Buffer::bytes(&mut buffer).is_some());
/// ```
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation is owned, and its bytes are reached through `&mut` of the only handle or by transfers.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives nothing but its address.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `len` zeroed bytes, aligned to 64 KiB.
    ///
    /// # Panics
    /// Panics if `len` is zero or cannot be allocated.
    pub fn new(len: usize) -> Arc<Buffer> {
        assert!(len > 0, "a buffer of no bytes");
        let layout =
            Layout::from_size_align(len, ALIGNMENT).unwrap_or_else(|_| panic!("{len} bytes are too many"));
        // SAFETY: the layout has a size, as asserted above.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Arc::new(Buffer { start, layout })
    }

    /// Returns the bytes, or `None` while another owner holds the buffer, because a transfer may be using it.
    pub fn bytes(this: &mut Arc<Buffer>) -> Option<&mut [u8]> {
        let buffer = Arc::get_mut(this)?;
        // SAFETY: initialised by `alloc_zeroed`, as long as the layout, and ours alone: no other handle exists, so no
        // `Segments` does, so no transfer is under way.
        Some(unsafe { slice::from_raw_parts_mut(buffer.start.as_ptr(), buffer.layout.size()) })
    }
}

// SAFETY: the allocation stays where it is until the drop, and `bytes` lends it only to the last handle.
unsafe impl Memory for Buffer {
    fn range(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.start, self.layout.size())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
