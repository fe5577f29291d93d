//! Missing pages of a file, read by the thread that needs them: frames from the core, bytes from the device.
//!
//! ```text
//!   read_missing ─► fault: frames, or a wait for some ─► read: the device, with no lock ─► the bytes, to the caller
//!                                                                                     └─► ReadDone, to the core
//! ```

use super::Engine;
use super::fault::Reach;
use super::transfers::{BAD, OwnRead, io_error};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::files::{FileInner, Shrunk};
use crate::frames::table::{SharedPin, Table};
use crate::observe::explain::{self, Wait};
use crate::sys::arena::Arena;
use millpond_core::event::{Event, Intent};
use millpond_core::io::Reason;
use millpond_core::units::{PageCount, PageIndex, PageKey};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a call for pages that were missing came to.
pub(crate) enum Missing<T> {
    /// It has read the first, and what was missing behind it.
    Read(T),
    /// The first is in memory by now, or on its way.
    There,
    /// The file ends before the first by now.
    Outside,
    /// No frame can be had, and the caller must not wait: again when memory is there, or after so long.
    NoFrame(Duration),
}

impl Engine {
    /// Reads the pages, as far as they are missing without a gap, and as one read of the device takes. `each` sees the bytes
    /// of every page. Waits for frames, and for the device.
    ///
    /// # Errors
    /// [`Error::Read`], also if others have cut the file; [`Error::Check`]; the pages are not in memory then.
    /// [`Error::NoFrames`], [`Error::Poisoned`].
    pub(crate) fn read_missing(
        &self,
        file: &Arc<FileInner>,
        pages: Range<u64>,
        (reach, shrunk): (Reach, Shrunk),
        each: impl FnMut(PageIndex, &[u8]),
    ) -> Result<Missing<()>> {
        let Some(answer) = self.fault(file, pages, (Intent::Read, reach), true)? else {
            return Ok(Missing::Outside);
        };
        let Some(own) = answer.own else {
            return Ok(Missing::There);
        };
        self.read(file, own, each, (false, shrunk))?;
        Ok(Missing::Read(()))
    }

    /// Reads one page and pins it. Waits for a frame only if it `may_wait`.
    ///
    /// # Errors
    /// As [`Engine::read_missing`].
    pub(crate) fn pin_missing(
        &self,
        file: &Arc<FileInner>,
        page: u64,
        (may_wait, shrunk): (bool, Shrunk),
    ) -> Result<Missing<SharedPin<&Table<Arena>>>> {
        let Some(answer) = self.fault(file, page..page + 1, (Intent::Read, Reach::Inside), may_wait)? else {
            return Ok(Missing::Outside);
        };
        if let Some(at_most) = answer.wait {
            return Ok(Missing::NoFrame(Duration::from_nanos(at_most.0)));
        }
        let Some(own) = answer.own else {
            return Ok(Missing::There);
        };
        let pin = self.read(file, own, |_, _| {}, (true, shrunk))?;
        Ok(pin.map_or(Missing::There, Missing::Read))
    }

    /// Has the device read the pages, as far as they are missing without a gap, and waits for nothing. How many it reads: 0
    /// if no frame is free, or the first page is not missing. `None`: the file ends before them.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn prefetch(&self, file: &FileInner, pages: Range<u64>) -> Result<Option<u64>> {
        let answer = self.fault(file, pages, (Intent::Prefetch, Reach::Inside), false)?;
        Ok(answer.map(|answer| answer.ahead))
    }

    /// Reads a page with its neighbours, where that is worth it. Whether the page is there now, or was a moment ago.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn read_around(&self, file: &Arc<FileInner>, page: u64) -> Result<bool> {
        let Some(around) = self.around(file, page) else {
            return Ok(false);
        };
        let is_there = || !self.table.lacks(PageKey::new(file.id, PageIndex(page)));
        let answer = self.fault(file, around, (Intent::Read, Reach::Inside), false)?;
        let Some(own) = answer.and_then(|answer| answer.own) else {
            return Ok(is_there());
        };
        // A neighbour that can't be read is no error of this call. The page itself is then read alone.
        let read = self.read(file, own, |_, _| {}, (false, Shrunk::Refused));
        Ok(read.is_ok() && is_there())
    }

    /// The missing pages around `page`, if they are to be read with it: those of its record; or, on a device where the way there
    /// is what costs, while frames are free that no other call needs.
    fn around(&self, file: &FileInner, page: u64) -> Option<Range<u64>> {
        let page_bytes = self.page_size.bytes();
        let record = file.record_of(page, page_bytes);
        let is_record = record.is_some();
        let Range { start: from, end: to } = match record {
            Some(record) => record,
            None => {
                let pages = self.around_pages.load(Ordering::Relaxed);
                let from = page - page.checked_rem(pages)?;
                from..(from + pages).min(file.len().div_ceil(page_bytes))
            }
        };
        let lacks = |n: &u64| self.table.lacks(PageKey::new(file.id, PageIndex(*n)));
        let first = (from..page).rev().take_while(lacks).last().unwrap_or(page);
        let behind = (page + 1..to).take_while(lacks).last().unwrap_or(page) + 1;
        let count = behind - first;
        let may = || is_record || self.core().manager.may_read_around(file.id, PageCount(count));
        (count > 1 && may()).then_some(first..behind)
    }

    /// Does the read that a fault has left to its thread. `each` sees every page before any other thread does. With
    /// `pins_first` the first page stays pinned.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Check`]; the pages are not in memory then.
    pub(super) fn read(
        &self,
        file: &Arc<FileInner>,
        own: OwnRead,
        mut each: impl FnMut(PageIndex, &[u8]),
        (pins_first, shrunk): (bool, Shrunk),
    ) -> Result<Option<SharedPin<&Table<Arena>>>> {
        let OwnRead { io, first, mut loads } = own;
        let request = self.read_request((0, Reason::Fault), file, first, &mut loads);
        let poisons = self.poison_on_panic("device");
        let result = explain::timed(Wait::Read, || self.device.transfer(&request));
        drop(poisons);
        drop(request);
        let result = match result {
            Ok(bytes) => {
                self.zero_rest(&mut loads, bytes);
                let whole = self.is_whole(file, first, loads.len(), bytes, shrunk);
                let checked = whole.and_then(|()| self.check_read(file, first, &mut loads));
                checked.map_err(|e| (e, BAD))
            }
            Err(source) => {
                let (path, offset) = (file.path.clone(), self.offset(first));
                let errno = io_error(&source);
                Err((Error::Read { path, offset, source }, errno))
            }
        };
        match result {
            Ok(()) => {
                for (n, load) in loads.iter_mut().enumerate() {
                    each(first.after(n as u64), self.table.load_bytes(load));
                }
                let mut pinned = None;
                let mut core = self.core();
                for (n, load) in loads.into_iter().enumerate() {
                    if pins_first && n == 0 {
                        pinned = Some(self.table.finish_load_pinned(load));
                    } else {
                        self.table.finish_load(load);
                    }
                }
                core.step(Event::ReadDone { io, result: Ok(()) });
                Ok(pinned)
            }
            Err((error, errno)) => {
                self.core().fail_read(io, loads, errno);
                Err(error)
            }
        }
    }
}
