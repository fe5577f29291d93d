//! Pages lent to users: pinned for reading, locked for changing.

use super::File;
use crate::driver::Reach;
use crate::error::{Error, Result};
use crate::guard::{PageMut, PageRef};
use crate::sys::arena::Arena;
use crate::table::{ExclusivePin, Lookup, Table};
use millpond_core::event::Intent;
use millpond_core::units::PageIndex;

impl File {
    /// Pins page number `page` for reading. It is read from the device if it is not in memory.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] behind the end of the file; otherwise as [`File::read_at`].
    #[inline]
    pub fn page(&self, page: u64) -> Result<PageRef<'_>> {
        let len = self.page_len(page)?;
        // One look at what is in the processor's cache anyway: no difference was measurable.
        if !self.shared().poison.is_set()
            && let Some(pin) = self.shared().table.hit(self.key(page))
        {
            self.passed(page);
            return Ok(PageRef { pin, len });
        }
        self.page_slowly(page, len)
    }

    #[cold]
    fn page_slowly(&self, page: u64, len: usize) -> Result<PageRef<'_>> {
        loop {
            self.shared().poison.check()?;
            match self.shared().table.pin(self.key(page)) {
                Lookup::Found(pin) => {
                    self.passed(page);
                    return Ok(PageRef { pin, len });
                }
                Lookup::Loading(frame) | Lookup::Busy(frame) => {
                    self.shared().table.wait_loading(frame, self.key(page))
                }
                Lookup::Absent => {
                    let why = (Intent::Read, Reach::Inside);
                    let fault = self.shared().fault(&self.inner, PageIndex(page), 1, why, true)?;
                    if fault.outside {
                        self.page_len(page)?;
                    }
                    if let Some(own) = fault.own
                        && let Some(pin) = self.shared().read(&self.inner, own, |_, _| {}, true)?
                    {
                        return Ok(PageRef { pin, len });
                    }
                }
            }
        }
    }

    /// Locks page number `page` for changing it, after waiting for others who read or change it. It is read from the
    /// device if it is not in memory. Pauses before if too much is dirty.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::OutOfRange`] behind the end of the file ([`File::set_len`] extends it);
    /// otherwise as [`File::read_at`] and [`File::write_at`].
    pub fn page_mut(&self, page: u64) -> Result<PageMut<'_>> {
        self.check_writable()?;
        self.shared().poison.check()?;
        self.page_len(page)?;
        self.shared().throttle(&self.inner)?;
        let pin = self.lock_page(page)?;
        if pin.first_dirty() {
            self.shared()
                .dirtied(self.inner.id, PageIndex(page), &[pin.frame()]);
        }
        // Whoever cuts the file inside the page takes the page first, so from here on this is where it ends.
        let len = self.page_len(page)?;
        Ok(PageMut {
            pin,
            len,
            file: &self.inner,
            page,
        })
    }

    /// Locks a page, reading it if it is missing.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is missing and the file ends before it by now; those of reading.
    pub(super) fn lock_page(&self, page: u64) -> Result<ExclusivePin<&Table<Arena>>> {
        let key = self.key(page);
        loop {
            self.shared().poison.check()?;
            match self.shared().table.lock(key) {
                Lookup::Found(pin) => return Ok(pin),
                Lookup::Loading(frame) | Lookup::Busy(frame) => self.shared().table.wait_loading(frame, key),
                Lookup::Absent => {
                    if !self.bring(page, Reach::Inside)? {
                        self.page_len(page)?;
                    }
                }
            }
        }
    }

    /// The length of page `page` up to the end of the file.
    fn page_len(&self, page: u64) -> Result<usize> {
        let size = self.shared().page_size;
        let start = page.saturating_mul(size.bytes());
        let left = self.len().saturating_sub(start).min(size.bytes()) as usize;
        if left == 0 {
            let pages = self.len().div_ceil(size.bytes());
            return Err(Error::OutOfRange {
                path: self.inner.path.clone(),
                what: "page",
                given: page,
                max: pages.checked_sub(1),
            });
        }
        Ok(left)
    }
}
