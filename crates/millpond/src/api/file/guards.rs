//! Page guards: pinned for reading, locked for writing.

use super::File;
use crate::api::guard::{OwnedPageMut, OwnedPageRef, PageMut, PageRef};
use crate::engine::driver::{CallBack, Dirtying, Granted, Missing, PageFaults, Reach};
use crate::error::{Error, Result};
use crate::files::{LEN_MAX, Shrunk};
use crate::frames::own::Waits;
use crate::frames::table::{ExclusivePin, Lookup, SharedPin, Table};
use crate::observe::explain::{self, Call, Wait};
use crate::observe::trace::What;
use crate::sys::arena::Arena;
use millpond_core::units::{PageIndex, PageKey};

impl File {
    /// Pins page number `page` for reading. Reads it from the device if it is not in memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the end of the file; [`Error::OwnGuard`] if the calling thread holds a [`PageMut`] of
    /// the page; otherwise as [`File::read_at`].
    // Always, with what it calls: a guard that is returned by a call is in memory, callers copy it by loads that are wider
    // than its stores, and a hit takes twice as long.
    #[inline(always)]
    pub fn page(&self, page: u64) -> Result<PageRef<'_>> {
        match self.page_hit(page)? {
            Some(hit) => Ok(hit),
            None => self.page_slowly(page, self.page_len(page)?),
        }
    }

    /// Returns the page if a lookup alone finds it. Contains no thread cancellation point, for C.
    #[doc(hidden)]
    #[inline(always)]
    pub fn page_hit(&self, page: u64) -> Result<Option<PageRef<'_>>> {
        let len = self.page_len(page)?;
        // One look at what is in the processor's cache anyway: no difference was measurable.
        if self.engine().call_flags.is_usual() {
            let key = self.key(page);
            if let Some(pin) = self.engine().table.hit(key) {
                self.found();
                self.passed(page);
                return Ok(Some(PageRef::new(pin, len, key)));
            }
        }
        Ok(None)
    }

    /// As [`File::page`], but the guard borrows nothing and keeps the file open. While it lives, calls that want to
    /// change the page wait: a write, or an append if it is the last page. A call of the same thread waits two seconds,
    /// because another thread may have taken the guard by then, and then fails with [`Error::OwnGuard`].
    ///
    /// # Errors
    /// As [`File::page`].
    pub fn page_owned(&self, page: u64) -> Result<OwnedPageRef> {
        if let Some(guard) = self.try_page_owned(page)? {
            return Ok(guard);
        }
        let len = self.page_len(page)?;
        Ok(self.page_slowly(page, len)?.into_owned(&self.opened))
    }

    /// Pins page number `page` for reading if this is possible without waiting. Returns `None` if the page is not in
    /// memory, is being read from the device, or if a thread, including the calling one, has locked it for writing or
    /// waits to.
    ///
    /// The call waits for no device and no guard. If the page triggers more read-ahead, the call starts that under the
    /// core's lock. A call that returns `None` starts nothing; use [`File::prefetch`] to have the page read.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] past the end of the file; [`Error::Poisoned`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # std::fs::write(&path, [7; 100_000])?;
    /// # let cache = millpond::PageCache::builder().memory(2 << 20).build()?;
    /// # let file = cache.open(&path, millpond::OpenOptions::new())?;
    /// assert!(file.try_page(20)?.is_none());
    /// let read = file.page(20)?[0];
    /// assert_eq!(file.try_page(20)?.expect("it was read")[0], read);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_page(&self, page: u64) -> Result<Option<PageRef<'_>>> {
        let len = self.page_len(page)?;
        let hit = self.try_pin(page, len, |key| self.engine().table.hit(key))?;
        Ok(hit.map(|pin| PageRef::new(pin, len, self.key(page))))
    }

    /// As [`File::try_page`], but the guard borrows nothing and keeps the file open.
    ///
    /// # Errors
    /// As [`File::try_page`].
    pub fn try_page_owned(&self, page: u64) -> Result<Option<OwnedPageRef>> {
        let len = self.page_len(page)?;
        let hit = self.try_pin(page, len, |key| self.engine().table.hit_counted(key))?;
        Ok(hit.map(|pin| OwnedPageRef::new(pin, len, self.key(page), &self.opened)))
    }

    fn try_pin<'a>(
        &'a self,
        page: u64,
        len: usize,
        hit: impl Fn(PageKey) -> Option<SharedPin<&'a Table<Arena>>>,
    ) -> Result<Option<SharedPin<&'a Table<Arena>>>> {
        if !self.engine().call_flags.is_usual() {
            self.engine().call_flags.check()?;
        }
        let Some(pin) = hit(self.key(page)).or_else(|| {
            // A mapping may have it alone.
            CallBack::of(self.engine()).call_back(&self.inner, page..page + 1, false);
            hit(self.key(page))
        }) else {
            return Ok(None);
        };
        let _noted = self.begin(page << self.engine().page_size.shift(), len, false)?;
        self.found();
        self.passed(page);
        Ok(Some(pin))
    }

    #[cold]
    fn page_slowly(&self, page: u64, len: usize) -> Result<PageRef<'_>> {
        let _noted = self.begin(page << self.engine().page_size.shift(), len, false)?;
        self.holders().check_guards(page..page + 1, Waits::ForWriters)?;
        loop {
            self.engine().call_flags.check()?;
            match self.pin(self.key(page), Call::Read(len)) {
                Lookup::Found(pin) => {
                    self.found();
                    self.passed(page);
                    return Ok(PageRef::new(pin, len, self.key(page)));
                }
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.wait_loading(frame, self.key(page), Call::Read(len))
                }
                Lookup::Absent => {
                    explain::waits_in(Call::Read(len));
                    if self.reads().read_around(page)? {
                        continue;
                    }
                    match self.reads().pin_missing(page, (true, Shrunk::Refused))? {
                        Missing::Read(pin) => {
                            self.missed(1);
                            return Ok(PageRef::new(pin, len, self.key(page)));
                        }
                        Missing::There | Missing::NoFrame(_) => {}
                        Missing::Outside => {
                            self.page_len(page)?;
                        }
                    }
                }
            }
        }
    }

    /// Locks page number `page` for writing, after waiting for other threads that read or write it. Reads the page from
    /// the device if it is not in memory. Pauses first if too much memory is dirty.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] past the end of the file ([`File::page_mut_or_grow`] extends it);
    /// [`Error::OwnGuard`] if the calling thread holds a guard of the page; otherwise as [`File::read_at`] and
    /// [`File::write_at`].
    pub fn page_mut(&self, page: u64) -> Result<PageMut<'_>> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        let len = self.page_len(page)? as u64;
        self.check_within_limit((page << self.engine().page_size.shift()) + len)?;
        self.holders().check_guards(page..page + 1, Waits::ForAll)?;
        let what = What::Write {
            keeps_first: true,
            keeps_last: false,
        };
        let _noted = self.engine().note(self.inner.id, (page, 1), what);
        self.dirtier().accept(Dirtying::Asked, 1)?;
        self.dirtier().throttle()?;
        let pin = self.lock_page(page)?;
        if pin.first_dirty() {
            self.dirtier().dirtied(PageIndex(page), &[pin.frame()]);
        }
        // A thread that cuts the file inside the page takes the page first, so the end that is read here stays right.
        let len = self.page_len(page)?;
        Ok(PageMut::new(pin, len, &self.inner, page))
    }

    /// As [`File::page_mut`], but the guard borrows nothing and keeps the file open.
    ///
    /// # Errors
    /// As [`File::page_mut`].
    pub fn page_mut_owned(&self, page: u64) -> Result<OwnedPageMut> {
        Ok(self.page_mut(page)?.into_owned(&self.opened))
    }

    /// Locks page number `page` for writing if this is possible without waiting. Returns `None` if the page is not in
    /// memory, if any thread, including the calling one, uses it, if it is being written and must stay stable
    /// meanwhile, or if threads that dirty pages must pause.
    ///
    /// The call waits for no device, no guard and no free memory. It takes the core's lock briefly.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] past the end of the file; [`Error::TooLong`]; [`Error::Write`] if
    /// more of this file is unwritable than the option `dirty.failed` allows; [`Error::Poisoned`].
    pub fn try_page_mut(&self, page: u64) -> Result<Option<PageMut<'_>>> {
        self.check_writable()?;
        self.engine().call_flags.check()?;
        let len = self.page_len(page)? as u64;
        self.check_within_limit((page << self.engine().page_size.shift()) + len)?;
        if !self.dirtier().may_dirty()? {
            return Ok(None);
        }
        let Lookup::Found(pin) = self.try_lock(self.key(page)) else {
            return Ok(None);
        };
        let what = What::Write {
            keeps_first: true,
            keeps_last: false,
        };
        let _noted = self.engine().note(self.inner.id, (page, 1), what);
        let is_in_hole = self.inner.hole.has(page);
        if pin.first_dirty() {
            self.dirtier().dirtied(PageIndex(page), &[pin.frame()]);
        }
        if is_in_hole {
            return Ok(None);
        }
        let len = self.page_len(page)?;
        Ok(Some(PageMut::new(pin, len, &self.inner, page)))
    }

    /// As [`File::try_page_mut`], but the guard borrows nothing and keeps the file open.
    ///
    /// # Errors
    /// As [`File::try_page_mut`].
    pub fn try_page_mut_owned(&self, page: u64) -> Result<Option<OwnedPageMut>> {
        let locked = self.try_page_mut(page)?;
        Ok(locked.map(|guard| guard.into_owned(&self.opened)))
    }

    /// As [`File::page_mut`], for the whole page: if the file ends before the end of page `page`, it grows to that
    /// point. The new bytes read as zeros. A file extended only in this way consists of whole pages.
    ///
    /// # Errors
    /// As [`File::page_mut`], but [`Error::OutOfRange`] only beyond the maximum length of a file; [`Error::TooLong`];
    /// [`Error::FixedLength`] for a block device.
    pub fn page_mut_or_grow(&self, page: u64) -> Result<PageMut<'_>> {
        self.check_writable()?;
        let size = self.engine().page_size.bytes();
        let page_max = LEN_MAX / size - 1;
        if page > page_max {
            return Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "page",
                given: page,
                max: Some(page_max),
            });
        }
        loop {
            if self.len() < (page + 1) * size {
                if let Some(grown) = self.grow_by_page(page)? {
                    return Ok(grown);
                }
                continue;
            }
            match self.page_mut(page) {
                // The file was cut meanwhile.
                Err(Error::OutOfRange { .. }) => {}
                Ok(guard) if (guard.len() as u64) < size => {}
                locked => return locked,
            }
        }
    }

    /// Extends the file to the end of page `page`, and locks that page. Returns `None` if the caller must check the
    /// length again.
    fn grow_by_page(&self, page: u64) -> Result<Option<PageMut<'_>>> {
        let size = self.engine().page_size.bytes();
        let end = (page + 1) * size;
        self.engine().call_flags.check()?;
        self.holders().check_guards(page..page + 1, Waits::ForAll)?;
        self.dirtier().accept(Dirtying::Asked, 1)?;
        self.dirtier().throttle()?;
        let resize = self.lock_length(Call::Write(size as usize));
        if self.len() >= end {
            return Ok(None);
        }
        let _noted = self.begin(page * size, size as usize, true)?;
        let tail = self.make_room_for(end)?;
        let pin = match self.lock_behind(page) {
            Ok(Lookup::Found(pin)) => pin,
            other => {
                self.leave_room(true);
                drop((tail, resize));
                // Only now that others can change the length again: the thread that holds the page may want to.
                if let Lookup::Busy(frame) | Lookup::Loading(frame) = other? {
                    self.holders().wait_unused(frame, page);
                }
                return Ok(None);
            }
        };
        if pin.first_dirty() {
            self.dirtier().dirtied(PageIndex(page), &[pin.frame()]);
        }
        self.grow_to(end);
        Ok(Some(PageMut::new(pin, size as usize, &self.inner, page)))
    }

    /// Locks a page that ends past the end of the file. The caller holds the length lock. `Absent` means try again.
    fn lock_behind(&self, page: u64) -> Result<Lookup<ExclusivePin<&Table<Arena>>>> {
        let (key, start) = (self.key(page), page << self.engine().page_size.shift());
        match self.try_lock(key) {
            Lookup::Absent if start < self.len() => {
                self.bring(page, Reach::Inside, Shrunk::Zeros)?;
                Ok(self.try_lock(key))
            }
            Lookup::Absent => {
                let granted =
                    PageFaults::of(self.engine(), &self.inner).grant(page..page + 1, Reach::Beyond, true)?;
                let Granted::Frames(loads) = granted else {
                    return Ok(Lookup::Absent);
                };
                let Some(mut load) = loads.into_iter().next() else {
                    return Ok(Lookup::Absent);
                };
                self.engine().table.load_bytes(&mut load).fill(0);
                Ok(Lookup::Found(self.engine().table.finish_load_exclusive(load)))
            }
            found => Ok(found),
        }
    }

    /// Locks a page for writing, reading it if it is missing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the page is missing and the file now ends before it; otherwise as a read.
    pub(super) fn lock_page(&self, page: u64) -> Result<ExclusivePin<&Table<Arena>>> {
        let key = self.key(page);
        let call = Call::Write(self.engine().page_size.bytes() as usize);
        loop {
            self.engine().call_flags.check()?;
            match self.lock(key, call) {
                Lookup::Found(pin) => {
                    if !self.inner.hole.has(page) {
                        self.found();
                        return Ok(pin);
                    }
                    if pin.first_dirty() {
                        self.dirtier().dirtied(PageIndex(page), &[pin.frame()]);
                    }
                    drop(pin);
                    explain::timed(Wait::Busy, || self.inner.hole.wait(page));
                }
                Lookup::Loading(frame) | Lookup::Busy(frame) => self.wait_loading(frame, key, call),
                Lookup::Absent => {
                    explain::waits_in(call);
                    if !self.reads().read_around(page)?
                        && !self.bring(page, Reach::Inside, Shrunk::Refused)?
                    {
                        self.page_len(page)?;
                    }
                }
            }
        }
    }

    /// Returns the number of bytes of page `page` up to the end of the file.
    #[inline]
    fn page_len(&self, page: u64) -> Result<usize> {
        let size = self.engine().page_size;
        let start = page.saturating_mul(size.bytes());
        let left = self.len().saturating_sub(start).min(size.bytes()) as usize;
        match left {
            0 => Err(self.no_page(page)),
            left => Ok(left),
        }
    }

    #[cold]
    fn no_page(&self, page: u64) -> Error {
        let pages = self.len().div_ceil(self.engine().page_size.bytes());
        Error::OutOfRange {
            path: self.inner.path.clone(),
            what: "page",
            given: page,
            max: pages.checked_sub(1),
        }
    }
}
