//! Hole punching: a range of a file reads as zeros, and its blocks go back to the file system.
//!
//! ```text
//!   pages that it holds whole            1 no thread changes them, no write of them is on its way
//!                                        2 the file system drops their blocks, or refuses: then nothing has changed
//!                                        3 they leave memory, changed or not
//!   pages that the range holds in part   4 zeros are written to them, as by any write
//! ```
//!
//! No thread changes the length meanwhile. A write at the same time comes, page by page, before it or after it: a write
//! that has its page before 1 goes with the rest; one that gets it later leaves it and waits for the end
//! ([`Hole`](crate::files)). A reader finds a page as it was in memory, up to 3, or reads it anew: what the device had before 2
//! it reads only if memory had nothing newer.

use super::File;
use crate::device::Device;
use crate::engine::driver::{Dirtying, Discards, Quiet};
use crate::error::Result;
use crate::frames::own::Waits;
use crate::observe::explain::{self, Call, Wait};
use millpond_core::mutation::{self, Mutation};
use std::io;
use std::ops::Range;

/// Zeros that are written at a time to a page that stays: the largest page.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl File {
    /// Zeroes the `len` bytes from `offset` on, up to the end of the file, and deallocates the blocks of whole pages
    /// among them. The length stays the same. A concurrent write to the same range takes effect before or after the
    /// hole, page by page.
    ///
    /// Waits for guards and transfers of the pages that go, and blocks changes of the length meanwhile.
    ///
    /// # Errors
    /// [`Error::Write`](crate::Error::Write) if the file system does not support holes, and for a block device; nothing
    /// has changed then. [`Error::OwnGuard`](crate::Error::OwnGuard) if the calling thread holds a guard of one of the
    /// pages; nothing has changed then either. Also [`Error::Write`](crate::Error::Write) if making the hole fails, and
    /// any error of [`File::write_at`] for the pages at both ends; each byte is then either unchanged or zero. No other
    /// change is lost.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        if self.inner.is_fixed {
            return Err(self
                .inner
                .write_failed(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        }
        let size = self.engine().page_size.bytes();
        let touched = offset / size..offset.saturating_add(len).div_ceil(size);
        self.holders().check_guards(touched, Waits::ForAll)?;
        let mut resize = Some(self.lock_length(Call::Write(len as usize)));
        let length = self.len();
        let end = offset.saturating_add(len).min(length);
        if offset >= end {
            return Ok(());
        }
        let first = offset.div_ceil(size);
        // The last page has nothing past the end of the file.
        let last = if end == length {
            end.div_ceil(size)
        } else {
            end / size
        };
        let mut zero = |from: u64, to: u64| match to > from {
            true => self.write_all(
                &ZEROS[..(to - from) as usize],
                from,
                &mut resize,
                Dirtying::Asked,
                true,
            ),
            false => Ok(()),
        };
        if first > last {
            return zero(offset, end);
        }
        if first < last {
            self.give_back(first..last)?;
        }
        zero(offset, (first * size).min(end))?;
        zero((last * size).max(offset), end)
    }

    /// Deallocates the blocks of whole pages. The caller holds the length lock.
    fn give_back(&self, pages: Range<u64>) -> Result<()> {
        let (engine, size) = (self.engine(), self.engine().page_size.bytes());
        let hole = Quiet::of(engine, &self.inner).quiet(pages.clone())?;
        let device = self.inner.device();
        // What was to make the file longer on the device may go with its pages: the length is promised all the same.
        if device.len().is_ok_and(|on_device| on_device < self.len()) {
            self.resize_device(self.len())?;
        }
        if mutation::is(Mutation::ForgottenBeforeDevice) {
            Discards::of(engine, &self.inner).discard(pages.clone())?;
        }
        let (from, len) = (pages.start * size, (pages.end - pages.start) * size);
        let punched = explain::timed(Wait::Length, || engine.device.punch(&device, from, len));
        let Err(refused) = punched else {
            return Discards::of(engine, &self.inner).discard_in(pages, Some(&hole));
        };
        drop(hole);
        // Some of it may be zeros there by now, which is then read; what is changed stays, and will be written.
        let _ = Discards::of(engine, &self.inner).drop_clean(pages);
        Err(self.inner.write_failed(refused))
    }
}
