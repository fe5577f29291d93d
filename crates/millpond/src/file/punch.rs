//! Holes: a range of a file reads as zeros and its blocks go back to the file system.
//!
//! ```text
//!   pages that the range holds in part   zeros are written to them, as by any write
//!   pages that it holds whole            1 leave memory, changed or not   2 the file system drops their blocks
//!                                        3 those that came back between 1 and 2, as they were, leave once more
//! ```
//!
//! A write beside it comes, page by page, before it or after it: what is dirty after 2 stays and is written.

use super::File;
use crate::error::Result;
use crate::explain::{self, Call, Wait};

/// Zeros that are written at a time to a page that stays: the largest page.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl File {
    /// Makes the `len` bytes from `offset` on zeros, as far as the file goes, and gives the blocks of whole pages among
    /// them back to the file system. The length stays. A write of the same range at the same time comes before it or
    /// after it, page by page.
    ///
    /// Waits for guards and transfers of the pages that go.
    ///
    /// # Errors
    /// As [`File::write_at`] for the pages at both ends. [`Error::Write`](crate::Error::Write) if the file system has no holes, or can't make
    /// one, and for a block device: the range may hold what it held on the device then, where that was written.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.shared().poison.check()?;
        if self.inner.is_fixed {
            return Err(self.inner.write_failed(libc::EOPNOTSUPP));
        }
        let size = self.shared().page_size.bytes();
        let length = self.len();
        let end = offset.saturating_add(len).min(length);
        if offset >= end {
            return Ok(());
        }
        let first = offset.div_ceil(size);
        // Nothing of the last page is behind the end of the file.
        let last = if end == length {
            end.div_ceil(size)
        } else {
            end / size
        };
        let zero = |from: u64, to: u64| match to > from {
            true => self.write_at(&ZEROS[..(to - from) as usize], from),
            false => Ok(()),
        };
        if first > last {
            return zero(offset, end);
        }
        zero(offset, (first * size).min(end))?;
        zero((last * size).max(offset), end)?;
        if first == last {
            return Ok(());
        }
        // Nobody changes the length meanwhile.
        let _resize = self.lock_length(Call::Write((end - offset) as usize));
        self.shared().discard(&self.inner, first..last)?;
        let device = self.inner.device();
        let punched = explain::timed(Wait::Length, || device.punch(first * size, (last - first) * size));
        // What was to make the file longer on the device may be gone with its pages: the length is promised all the same.
        if device.len().is_ok_and(|on_device| on_device < self.len()) {
            self.resize_device(self.len())?;
        }
        self.shared().drop_clean(&self.inner, first..last)?;
        punched.map_err(|e| self.inner.write_failed(e.raw_os_error().unwrap_or(libc::EIO)))
    }
}
