//! Files that other programs change: drops cached pages and reads the length again.
//!
//! ```text
//!   the device says it is   longer ──► so it is                         ┐
//!                           shorter ─► so it is, unless a page behind   ├─► then the clean pages of the range leave
//!                                      that end waits to be written     ┘
//! ```
//!
//! This cache's own unwritten changes win: they stay, and overwrite what others have written. A shorter length on the
//! device is usually our own doing, because appended pages are not written yet.

use super::File;
use crate::error::{Error, Result};
use crate::files::check_len;
use crate::frames::table::Lookup;
use crate::observe::explain::Call;
use millpond_core::units::PageIndex;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::atomic::Ordering;

impl File {
    /// Drops the pages that hold the bytes `range` from memory, so that the next read asks the device; `..` means the
    /// whole file. Also adopts the length that the file has on the device. Use it for files that another program,
    /// another cache or the kernel has changed.
    ///
    /// Returns the number of pages in the range that stay in memory because they are dirty. It is 0 after a
    /// [`File::sync_data`], unless the file has been changed since. Dirty pages overwrite what others have written, and
    /// a file that others have truncated keeps its length as long as such a page needs it.
    ///
    /// Waits for [`PageRef`](crate::PageRef) guards and transfers of the pages that go, but not for
    /// [`PageMut`](crate::PageMut) guards, whose pages stay.
    ///
    /// # Errors
    /// [`Error::Read`] if the device does not report the length, or the file is longer than a cache allows; no page is
    /// dropped then. [`Error::OwnGuard`](crate::Error::OwnGuard) if the calling thread holds a guard of a page that
    /// must go. [`Error::Poisoned`].
    ///
    /// [`Error::Read`]: crate::Error::Read
    /// [`Error::Poisoned`]: crate::Error::Poisoned
    pub fn invalidate(&self, range: impl RangeBounds<u64>) -> Result<u64> {
        self.engine().call_flags.check()?;
        self.take_len()?;
        let size = self.engine().page_size.bytes();
        let first = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&at) => at.saturating_add(1),
            Bound::Excluded(&at) => at,
            Bound::Unbounded => u64::MAX,
        };
        let end = end.min(self.len());
        if first >= end {
            return Ok(0);
        }
        let pages = first / size..end.div_ceil(size);
        self.discards().drop_clean(pages)
    }

    /// Before a read: checks that the bytes belong to the file, if others have truncated it inside a cached page.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub(crate) fn check_whole(&self, bytes: Range<u64>) -> Result<()> {
        let Some(at) = self.inner.short_at() else {
            return Ok(());
        };
        let size = self.engine().page_size.bytes();
        let page = at / size;
        if bytes.start.max(at) >= bytes.end.min((page + 1) * size).min(self.len()) {
            return Ok(());
        }
        let pages = page..page + 1;
        let is_ours = self.discards().is_changed(pages.clone())?;
        if !is_ours && self.inner.device().len().is_ok_and(|on_device| on_device == at) {
            return Err(self.inner.is_cut(at));
        }
        self.is_whole_again();
        if !is_ours {
            // It is longer again there, or shorter still: the page is read again.
            self.discards().drop_clean(pages)?;
        }
        Ok(())
    }

    fn is_whole_again(&self) {
        self.inner.set_short_at(None);
        let core = self.engine().core();
        // Under the lock, as where it is set.
        if core.files.iter().flatten().all(|file| file.short_at().is_none()) {
            self.engine().call_flags.set_short(false);
        }
    }

    /// Returns the length of the file on the device.
    fn len_on_device(&self) -> Result<u64> {
        let mut room = self.inner.room.lock();
        let asked = self.inner.device().len().and_then(check_len);
        *room = asked.map_err(|source| Error::Read {
            path: self.inner.path.clone(),
            offset: 0,
            source,
        })?;
        Ok(*room)
    }

    /// Adopts the length of the file on the device if others have changed it.
    fn take_len(&self) -> Result<()> {
        let size = self.engine().page_size.bytes();
        let _resize = self.inner.resize.lock();
        let old = self.len();
        let last = old.div_ceil(size);
        let mut len = self.len_on_device()?;
        loop {
            if len == old || len < old && self.discards().is_changed(len / size..last)? {
                return Ok(());
            }
            // A page that was changed may have been written in between: that is then how long the file is.
            let again = self.len_on_device()?;
            if again == len {
                break;
            }
            len = again;
        }
        if len < old {
            self.check_own_guards(len / size)?;
        }
        if self.inner.short_at().is_some() {
            self.is_whole_again();
        }
        let tail = (len > old).then(|| self.shut_last()).flatten();
        // From here on as in a cut: SeqCst, and before looking for the pages past it.
        self.inner.len.store(len, Ordering::SeqCst);
        drop(tail);
        self.resized(len);
        self.discards().discard(len.div_ceil(size)..last)?;
        // The page that contains one of the two ends has zeros past it.
        let end = len.min(old) / size;
        if self.discards().drop_clean(end..end + 1)? > 0
            && let Lookup::Found(mut pin) = self.lock(self.key(end), Call::Write(size as usize))
        {
            // Changed meanwhile: what others have cut off must not come back.
            let cut = len.saturating_sub(end * size).min(size) as usize;
            pin[cut..].fill(0);
            if pin.first_dirty() {
                self.dirtier().dirtied(PageIndex(end), &[pin.frame()]);
            }
        }
        Ok(())
    }
}
