//! The file length: `set_len`, and writes past the end. Blocks past it: `allocate`.

use super::File;
use crate::device::{Device, LengthLimit, is_behind_limit};
use crate::engine::driver::{CallBack, Quiet};
use crate::error::{Error, Result};
use crate::files::{Kept, LEN_MAX};
use crate::frames::table::{ExclusivePin, Table};
use crate::observe::explain::{self, Wait};
use crate::observe::trace::What;
use crate::sys::arena::Arena;
use millpond_core::event::Event;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{PageCount, PageIndex};
use std::sync::atomic::Ordering;

impl File {
    /// Sets the length of the file to `len` bytes. Truncation discards what lies past the new end; an extension reads
    /// as zeros. Unless it extends the file, blocks [allocated](File::allocate) past the end are freed, even if the length
    /// stays the same. Waits for guards and transfers of the pages that go.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`]; [`Error::TooLong`]; [`Error::FixedLength`] for a block device;
    /// [`Error::Write`] if the file system refuses; [`Error::OwnGuard`] if the calling thread holds a guard of a page
    /// that the truncation affects; [`Error::Read`], [`Error::Check`] and [`Error::NoFrames`] if `len` lies inside a
    /// page that must be read to zero its rest: restore the page, or truncate at its start. After any of these, nothing
    /// has changed. [`Error::Poisoned`].
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        if len > LEN_MAX {
            return Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "length",
                given: len,
                max: Some(LEN_MAX),
            });
        }
        if len < self.len() {
            self.check_own_guards(len / self.engine().page_size.bytes())?;
        }
        let _resize = self.inner.resize.lock();
        if len == self.len() {
            return self.free_past_end();
        }
        self.check_elastic(len)?;
        if len < self.len() {
            let first = len.div_ceil(self.engine().page_size.bytes());
            let _noted = self.engine().note(self.inner.id, (first, 0), What::Cut);
            return self.cut(len);
        }
        self.check_length(len)?;
        let _tail = self.shut_last();
        self.resize_device(len)?;
        self.inner.len.store(len, Ordering::SeqCst);
        self.resized(len);
        Ok(())
    }

    /// Truncates the file to `len` bytes. The caller holds the length lock.
    fn cut(&self, len: u64) -> Result<()> {
        let size = self.engine().page_size.bytes();
        let (page, cut, gone) = (
            len / size,
            (len % size) as usize,
            len.div_ceil(size)..self.len().div_ceil(size),
        );
        // No thread changes what goes, and none of it is written, until the device has agreed: a write would make the file
        // long again. So is the page that stays in part, which this thread holds, but not while it waits for guards.
        let (mut pin, hole) = loop {
            let pin = match cut {
                0 => None,
                _ => Some(self.lock_page(page)?),
            };
            if let Some(pin) = &pin
                && !mutation::is(Mutation::CutBeforeWrites)
            {
                self.engine().table.wait_written(pin.frame(), self.key(page));
            }
            match Quiet::of(self.engine(), &self.inner).try_quiet(gone.clone())? {
                Ok(hole) => break (pin, hole),
                Err(in_change) => {
                    self.unlock_page(page, pin);
                    Quiet::of(self.engine(), &self.inner).wait_changed(&in_change);
                }
            }
        };
        // Nothing has changed yet, for any thread, if the device refuses.
        let refused = self.cut_device(len);
        if let Some(pin) = &mut pin
            && refused.is_ok()
            && !mutation::is(Mutation::OldBytesBehindCut)
        {
            // It reads as zeros if the file grows again.
            pin[cut..].fill(0);
        }
        if refused.is_ok() {
            self.inner.len.store(len, Ordering::SeqCst);
        }
        self.unlock_page(page, pin);
        refused?;
        // From here on the length keeps others from the bytes past it.
        drop(hole);
        // Before the discard: read-ahead goes no further from here on.
        self.resized(len);
        self.discards().discard(gone)
    }

    /// Allocates blocks for the `len` bytes from `offset` on, inside the file and past its end, so that the device finds
    /// room for later writes to them: `fallocate` with `FALLOC_FL_KEEP_SIZE`. Content and length stay the same. Blocks
    /// past the end are freed by a [`set_len`](File::set_len) that does not extend the file, others by
    /// [`punch`](File::punch); the close of the file keeps them. On a copy-on-write file system a write may still need
    /// room. On a block device, whose blocks are there, it does nothing.
    ///
    /// The calling thread waits for the file system; ext4 lets writes of the file that are in transit end first.
    ///
    /// # Errors
    /// [`Error::Write`] if the device has no room, or its file system can't allocate ahead; a part of the range may have
    /// its blocks then. [`Error::ReadOnly`]; [`Error::OutOfRange`]; [`Error::TooLong`]; [`Error::FixedLength`] past the
    /// end of a block device; [`Error::Poisoned`].
    pub fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        let end = offset.checked_add(len).filter(|&end| end <= LEN_MAX);
        let end = end.ok_or_else(|| Error::OutOfRange {
            path: self.inner.path.clone(),
            what: "offset",
            given: offset,
            max: Some(LEN_MAX.saturating_sub(len)),
        })?;
        if len == 0 || (self.inner.is_fixed && end <= self.len()) {
            return Ok(());
        }
        self.check_elastic(end)?;
        self.check_length(end)?;
        let device = self.inner.device();
        let allocated = explain::timed(Wait::Length, || {
            self.engine().device.allocate(&device, offset, len)
        });
        allocated.map_err(|e| self.inner.write_failed(e))?;
        self.inner.allocated.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// Frees what the file system has allocated past the end of the file. The caller holds the length lock.
    ///
    /// Only setting the length does so everywhere: ext4 punches nothing past the end (`ext4_punch_hole`, Linux 6.18).
    fn free_past_end(&self) -> Result<()> {
        let (len, size) = (self.len(), self.engine().page_size.bytes());
        let last = len / size..len.div_ceil(size);
        let _unwritten = Quiet::of(self.engine(), &self.inner).unwritten(last)?;
        match self.inner.is_fixed {
            true => Ok(()),
            false => self.cut_device(len),
        }
    }

    /// Sets the length of the file on the device to `len` bytes, with nothing allocated past it. No write to its last
    /// page is in transit.
    fn cut_device(&self, len: u64) -> Result<()> {
        match self.set_device_len(len, false)? {
            true => Ok(()),
            false => self.set_device_len(len, true).map(drop),
        }
    }

    /// Unlocks a page, and reports it if it has become dirty.
    fn unlock_page(&self, page: u64, pin: Option<ExclusivePin<&Table<Arena>>>) {
        if let Some(pin) = pin.filter(ExclusivePin::first_dirty) {
            self.dirtier().dirtied(PageIndex(page), &[pin.frame()]);
        }
    }

    /// Sets the length of the file on the device to `len` bytes, unless it already has that length.
    ///
    /// Setting the length that a file already has is not a no-op. On ext4 it zeroes the rest of the last block through
    /// the page cache and, unlike a truncation, does not wait for direct writes (`ext4_setattr`, Linux 6.18). A direct
    /// write in flight to that block then collides with the cached copy: its old bytes may win, and the next sync
    /// fails.
    pub(super) fn resize_device(&self, len: u64) -> Result<()> {
        self.set_device_len(len, false).map(drop)
    }

    /// As [`File::resize_device`]; with `again` also if the file has that length. Returns whether it was longer.
    fn set_device_len(&self, len: u64, again: bool) -> Result<bool> {
        let mut room = self.inner.room.lock();
        let device = self.inner.device();
        let present = device.len();
        if !again && present.as_ref().is_ok_and(|&present| present == len) {
            *room = len;
            return Ok(false);
        }
        let shortens = again || present.is_ok_and(|present| len < present);
        self.inner.is_shortening.store(shortens, Ordering::SeqCst);
        let resized = explain::timed(Wait::Length, || self.engine().device.set_len(&device, len));
        self.inner.is_shortening.store(false, Ordering::SeqCst);
        resized.map_err(|e| self.inner.write_failed(e))?;
        *room = len;
        Ok(shortens)
    }

    /// Before the file grows beyond its length on the device: makes sure that the file system accepts a file of `end`
    /// bytes. Otherwise it would refuse the writes in the background, too late to tell the thread that made them. The
    /// caller holds the length lock, keeps the returned guard until the file has grown, and calls [`File::leave_room`]
    /// if it does not grow.
    ///
    /// # Errors
    /// [`Error::FixedLength`]; [`Error::TooLong`]; [`Error::Write`] if the file system refuses.
    pub(super) fn make_room_for(&self, end: u64) -> Result<Option<Kept<'_>>> {
        if end <= self.len() {
            return Ok(None);
        }
        self.check_elastic(end)?;
        self.check_length(end)?;
        let tail = self.shut_last();
        let made = self.inner.make_room_ahead(&self.engine().device, end);
        made.map_err(|e| self.inner.write_failed(e))?;
        Ok(tail)
    }

    /// Before the file grows: keeps bytes that a mapping stored past the end from becoming part of the file. Prevents
    /// such stores until the returned guard is dropped, once the file has grown. The caller holds the length lock.
    pub(super) fn shut_last(&self) -> Option<Kept<'_>> {
        let (len, size) = (self.len(), self.engine().page_size.bytes());
        (!len.is_multiple_of(size)).then(|| {
            let kept = self.inner.tail.keep(len / size);
            CallBack::of(self.engine()).shut_page(&self.inner, len / size);
            kept
        })
    }

    /// After an extension has failed: sets the length on the device back to the length that users see. If `at_end`, the
    /// caller holds the length lock; otherwise it has not extended the file.
    pub(super) fn leave_room(&self, at_end: bool) {
        if at_end && *self.inner.room.lock() > self.len() {
            // The error that brought us here is the one to report.
            let _ = self.resize_device(self.len());
        }
    }

    /// # Errors
    /// [`Error::FixedLength`] if the file can't change its length.
    fn check_elastic(&self, len: u64) -> Result<()> {
        if self.inner.is_fixed {
            return Err(Error::FixedLength {
                path: self.inner.path.clone(),
                len: self.len(),
                given: len,
            });
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::TooLong`] if the file can't grow to `len` bytes.
    fn check_length(&self, len: u64) -> Result<()> {
        let limit = self.inner.device().length_limit(len);
        limit.map_or(Ok(()), |limit| Err(self.too_long(len, limit)))
    }

    /// Checks that this process may write up to byte `end` of the file. Its limit also applies to existing bytes.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    #[inline]
    pub(super) fn check_within_limit(&self, end: u64) -> Result<()> {
        match is_behind_limit(end).filter(|_| !self.inner.is_fixed) {
            None => Ok(()),
            Some(limit) => Err(self.too_long(end, limit)),
        }
    }

    #[cold]
    fn too_long(&self, given: u64, limit: LengthLimit) -> Error {
        Error::TooLong {
            path: self.inner.path.clone(),
            given,
            limit,
        }
    }

    /// Reports the file's new length to the core.
    pub(super) fn resized(&self, len: u64) {
        self.engine().tell(Event::Resized {
            file: self.inner.id,
            pages: PageCount(len.div_ceil(self.engine().page_size.bytes())),
        });
        CallBack::of(self.engine()).mapped_grew(&self.inner);
    }

    /// Raises the length to at least `end` bytes. The caller holds the pages past the old end, and the length lock.
    pub(super) fn grow_to(&self, end: u64) {
        let before = self.inner.len.fetch_max(end, Ordering::SeqCst);
        let size = self.engine().page_size.bytes();
        if end.div_ceil(size) > before.div_ceil(size) {
            self.resized(end);
        }
    }
}
