//! Missing pages of a file, read by the thread that needs them: the core supplies frames, the device bytes.
//!
//! ```text
//!   read_missing ─► fault: frames, or a wait for some ─► read: the device, with no lock ─► the bytes, to the caller
//!                                                                                     └─► ReadDone, to the core
//! ```

use super::Engine;
use super::fault::{PageFaults, Reach};
use super::transfers::{BAD, FileIo, OwnRead, io_error};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::files::{FileInner, Shrunk};
use crate::frames::table::{Load, SharedPin, Table};
use crate::host::hook;
use crate::observe::explain::{self, Wait};
use crate::sys::arena::Arena;
use millpond_core::event::{Event, Intent};
use millpond_core::io::Reason;
use millpond_core::units::{PageCount, PageIndex, PageKey};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The outcome of a call for missing pages.
pub(crate) enum Missing<T> {
    /// The first page was read, with the missing ones behind it.
    Read(T),
    /// The first page is in memory by now, or on its way.
    There,
    /// The file now ends before the first page.
    Outside,
    /// There is no frame, and the caller must not wait. Try again when memory is free, or after this time.
    NoFrame(Duration),
}

/// Reads by the threads that need pages of a file.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'a> {
    engine: &'a Engine,
    file: &'a FileInner,
}

impl<'a> Reads<'a> {
    pub(crate) fn of(engine: &'a Engine, file: &'a FileInner) -> Reads<'a> {
        Reads { engine, file }
    }

    /// Reads the first missing pages, up to the next one in memory and the length of one device read. `each` sees the bytes of
    /// every page. Waits for frames, and for the device.
    ///
    /// # Errors
    /// [`Error::Read`], also if other processes have cut the file; [`Error::Check`]; then the pages are not in memory.
    /// [`Error::NoFrames`], [`Error::Poisoned`].
    pub(crate) fn read_missing(
        self,
        pages: Range<u64>,
        (reach, shrunk): (Reach, Shrunk),
        each: impl FnMut(PageIndex, &[u8]),
    ) -> Result<Missing<()>> {
        let Reads { engine, file } = self;
        let Some(answer) = PageFaults::of(engine, file).fault(pages, (Intent::Read, reach), true)? else {
            return Ok(Missing::Outside);
        };
        let Some(own) = answer.own else {
            return Ok(Missing::There);
        };
        self.read(own, each, (false, shrunk))?;
        Ok(Missing::Read(()))
    }

    /// Reads one page and pins it. Waits for a frame only with `may_wait`.
    ///
    /// # Errors
    /// As [`Reads::read_missing`].
    pub(crate) fn pin_missing(
        self,
        page: u64,
        (may_wait, shrunk): (bool, Shrunk),
    ) -> Result<Missing<SharedPin<&'a Table<Arena>>>> {
        let Reads { engine, file } = self;
        let Some(answer) =
            PageFaults::of(engine, file).fault(page..page + 1, (Intent::Read, Reach::Inside), may_wait)?
        else {
            return Ok(Missing::Outside);
        };
        if let Some(at_most) = answer.wait {
            return Ok(Missing::NoFrame(Duration::from_nanos(at_most.0)));
        }
        let Some(own) = answer.own else {
            return Ok(Missing::There);
        };
        let pin = self.read(own, |_, _| {}, (true, shrunk))?;
        Ok(pin.map_or(Missing::There, Missing::Read))
    }

    /// Lets the device read the first missing pages, up to the next one in memory, and waits for nothing. Returns their
    /// number: 0 if no frame is free, or the first page is not missing. `None`: the file ends before them.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn prefetch(self, pages: Range<u64>) -> Result<Option<u64>> {
        let Reads { engine, file } = self;
        let answer = PageFaults::of(engine, file).fault(pages, (Intent::Prefetch, Reach::Inside), false)?;
        Ok(answer.map(|answer| answer.ahead))
    }

    /// Reads a page with its neighbours, where that pays. Returns whether the page is in memory now, or was a moment ago.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn read_around(self, page: u64) -> Result<bool> {
        let Reads { engine, file } = self;
        let Some(around) = self.around(page) else {
            return Ok(false);
        };
        let is_there = || !engine.table.lacks(PageKey::new(file.id, PageIndex(page)));
        let answer = PageFaults::of(engine, file).fault(around, (Intent::Read, Reach::Inside), false)?;
        let Some(own) = answer.and_then(|answer| answer.own) else {
            return Ok(is_there());
        };
        // A neighbour that can't be read is no error of this call; the page is then read alone.
        let read = self.read(own, |_, _| {}, (false, Shrunk::Refused));
        Ok(read.is_ok() && is_there())
    }

    /// Returns the missing pages to read together with `page`: those of its record; or, on a device where the seek is the
    /// cost, its neighbours, while there are free frames that no other call needs.
    fn around(self, page: u64) -> Option<Range<u64>> {
        let Reads { engine, file } = self;
        let page_bytes = engine.page_size.bytes();
        let record = file.record_of(page, page_bytes);
        let is_record = record.is_some();
        let Range { start: from, end: to } = match record {
            Some(record) => record,
            None => {
                let pages = engine.around_pages.load(Ordering::Relaxed);
                let from = page - page.checked_rem(pages)?;
                from..(from + pages).min(file.len().div_ceil(page_bytes))
            }
        };
        let lacks = |n: &u64| engine.table.lacks(PageKey::new(file.id, PageIndex(*n)));
        let first = (from..page).rev().take_while(lacks).last().unwrap_or(page);
        let behind = (page + 1..to).take_while(lacks).last().unwrap_or(page) + 1;
        let count = behind - first;
        let may = || is_record || engine.core().manager.may_read_around(file.id, PageCount(count));
        (count > 1 && may()).then_some(first..behind)
    }

    /// Does the read that a fault left to its thread. `each` sees every page before any other thread does. With `pins_first`
    /// the first page stays pinned.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Check`]; then the pages are not in memory.
    pub(super) fn read(
        self,
        own: OwnRead,
        mut each: impl FnMut(PageIndex, &[u8]),
        (pins_first, shrunk): (bool, Shrunk),
    ) -> Result<Option<SharedPin<&'a Table<Arena>>>> {
        let Reads { engine, file } = self;
        let OwnRead { io, first, mut loads } = own;
        let request = FileIo::of(engine, file).read_request((0, Reason::Fault), first, &mut loads);
        let poisons = engine.poison_on_panic("device");
        let result = explain::timed(Wait::Read, || engine.device.transfer(&request));
        drop(poisons);
        drop(request);
        let result = match result {
            Ok(bytes) => {
                self.zero_rest(&mut loads, bytes);
                let whole = self.is_whole(first, loads.len(), bytes, shrunk);
                let checked = whole.and_then(|()| self.check_read(first, &mut loads));
                checked.map_err(|e| (e, BAD))
            }
            Err(source) => {
                let (path, offset) = (file.path.clone(), engine.offset(first));
                let errno = io_error(&source);
                Err((Error::Read { path, offset, source }, errno))
            }
        };
        match result {
            Ok(()) => {
                for (n, load) in loads.iter_mut().enumerate() {
                    each(first.after(n as u64), engine.table.load_bytes(load));
                }
                let mut pinned = None;
                let mut core = engine.core();
                for (n, load) in loads.into_iter().enumerate() {
                    if pins_first && n == 0 {
                        pinned = Some(engine.table.finish_load_pinned(load));
                    } else {
                        engine.table.finish_load(load);
                    }
                }
                core.step(Event::ReadDone { io, result: Ok(()) });
                Ok(pinned)
            }
            Err((error, errno)) => {
                engine.core().fail_read(io, loads, errno);
                Err(error)
            }
        }
    }

    /// Lets the file's check look at the pages that were read.
    ///
    /// # Errors
    /// [`Error::Check`] for the first page that it refuses.
    pub(super) fn check_read(self, first: PageIndex, loads: &mut [Load]) -> Result<()> {
        let Reads { engine, file } = self;
        let Some(check) = &file.writeback_rules.check else {
            return Ok(());
        };
        let _poisons = engine.poison_on_panic("page check");
        for (n, load) in loads.iter_mut().enumerate() {
            let page = first.after(n as u64).0;
            let bytes = engine.table.load_bytes(load);
            if let Err(what) = hook::inside(engine, || check.after_read(page, bytes)) {
                let path = file.path.clone();
                return Err(Error::Check { path, page, what });
            }
        }
        Ok(())
    }

    /// Checks that a read of `bytes` bytes is complete: it may be short at the end of the file, but not because others have
    /// cut it.
    ///
    /// # Errors
    /// [`Error::Read`], unless `shrunk` says otherwise.
    pub(super) fn is_whole(self, first: PageIndex, pages: usize, bytes: usize, shrunk: Shrunk) -> Result<()> {
        let Reads { engine, file } = self;
        let (offset, size) = (engine.offset(first), engine.page_size.bytes());
        if bytes as u64 >= pages as u64 * size || shrunk == Shrunk::Zeros {
            return Ok(());
        }
        let Some(at) = file.cut_by_others(offset + bytes as u64) else {
            return Ok(());
        };
        if shrunk == Shrunk::LeftOver && pages == 1 && at > offset {
            // Under the lock: a thread that finds no such file any more clears the flag.
            let _core = engine.core();
            file.set_short_at(Some(at));
            engine.call_flags.set_short(true);
            return Ok(());
        }
        Err(file.is_cut(at.max(offset)))
    }

    /// Fills the part that the device did not deliver, which lies beyond the end of the file, with zeros.
    pub(super) fn zero_rest(self, loads: &mut [Load], bytes: usize) {
        let engine = self.engine;
        let size = engine.page_size.bytes() as usize;
        for (n, load) in loads.iter_mut().enumerate().skip(bytes / size) {
            let have = bytes.saturating_sub(n * size).min(size);
            engine.table.load_bytes(load)[have..].fill(0);
        }
    }
}
