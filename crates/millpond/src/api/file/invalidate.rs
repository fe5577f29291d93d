//! Files that others change behind the cache's back: what is in memory is forgotten, and the length is asked for again.
//!
//! ```text
//!   the device says it is   longer ──► so it is                         ┐
//!                           shorter ─► so it is, unless a page behind   ├─► then the clean pages of the range leave
//!                                      that end waits to be written     ┘
//! ```
//!
//! What this cache has changed and not written yet wins: it stays, and is written over what others have put there. A
//! length that is shorter on the device is most often ours, of appended pages that are still to be written.

use super::File;
use crate::error::{Error, Result};
use crate::files::check_len;
use crate::frames::table::Lookup;
use crate::observe::explain::Call;
use millpond_core::units::PageIndex;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::atomic::Ordering;

impl File {
    /// Forgets the pages that hold the bytes `range`, so that the next read of them asks the device; `..` means the
    /// whole file. Takes the length that the file has on the device, too. For files that others have changed: another
    /// program, another cache, the kernel.
    ///
    /// Returns how many pages of the range stay in memory because they are changed and not written yet: 0 after a
    /// [`File::sync_data`], if no caller has changed the file since. Such pages are written over what others have put
    /// there, and a file that others have cut stays as long as such a page needs it.
    ///
    /// Waits for [`PageRef`](crate::PageRef) guards and for transfers of the pages that go; not for
    /// [`PageMut`](crate::PageMut) guards, whose pages stay.
    ///
    /// # Errors
    /// [`Error::Read`] if the device does not say how long the file is, or it is longer than a cache can have; nothing is
    /// forgotten then. [`Error::Poisoned`].
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
        self.engine().drop_clean(&self.inner, pages)
    }

    /// Before bytes are read: whether they are the file's, where a page was read of which others have cut off the rest.
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
        let is_ours = self.engine().is_changed(&self.inner, pages.clone())?;
        if !is_ours && self.inner.device().len().is_ok_and(|on_device| on_device == at) {
            return Err(self.inner.is_cut(at));
        }
        self.is_whole_again();
        if !is_ours {
            // It is longer again there, or shorter still: the page is read again.
            self.engine().drop_clean(&self.inner, pages)?;
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

    /// How long the file is on the device.
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

    /// Takes the length of the file on the device, if others have changed it.
    fn take_len(&self) -> Result<()> {
        let size = self.engine().page_size.bytes();
        let _resize = self.inner.resize.lock();
        let old = self.len();
        let last = old.div_ceil(size);
        let mut len = self.len_on_device()?;
        loop {
            if len == old || len < old && self.engine().is_changed(&self.inner, len / size..last)? {
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
        // From here on as in a cut: SeqCst, and before the pages behind it are looked for.
        self.inner.len.store(len, Ordering::SeqCst);
        drop(tail);
        self.resized(len);
        self.engine().discard(&self.inner, len.div_ceil(size)..last)?;
        // The page in which one of the two ends lies has zeros behind it.
        let end = len.min(old) / size;
        if self.engine().drop_clean(&self.inner, end..end + 1)? > 0
            && let Lookup::Found(mut pin) = self.lock(self.key(end), Call::Write(size as usize))
        {
            // Changed meanwhile: what others have cut off must not come back.
            let cut = len.saturating_sub(end * size).min(size) as usize;
            pin[cut..].fill(0);
            if pin.first_dirty() {
                self.engine()
                    .dirtied(self.inner.id, PageIndex(end), &[pin.frame()]);
            }
        }
        Ok(())
    }
}
