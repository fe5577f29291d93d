//! Page guards that keep their file open: `'static`, for callers that can't borrow the file.
//!
//! ```text
//!   PageRef       pin ──► table, borrowed from the file      by a hazard of the thread, or counted in the page's word
//!   OwnedPageRef  pin ──► Opened ──► cache ──► table         counted
//! ```
//!
//! However a page is pinned, the pin has the same effect on a thread that wants the page (T1 in `table.rs`): a count is
//! in the page's word, and a hazard is cleared by whichever thread drops it (H5 in `hazard.rs`). So these guards may
//! move to other threads, as borrowed ones may. The per-thread record of guards serves error detection only (`own.rs`).

use super::{PageMut, PageRef, set_order};
use crate::api::opened::Opened;
use crate::error::Result;
use crate::frames::own::{Kind, OwnGuard};
use crate::frames::table::{ExclusivePin, SharedPin, Table};
use crate::sys::arena::Arena;
use millpond_core::units::{PageIndex, PageKey};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page pinned for reading, like a [`PageRef`], that borrows nothing: it keeps its file open, and so its cache alive.
///
/// It may move to another thread and stay there: in a `bytes::Bytes` without a copy, an iterator, or an async task.
/// [`File::page_owned`](crate::File::page_owned) returns it. Pinning and dropping take about twice as long as for a
/// `PageRef`, because both write the page's word and a count of the file, which all threads share.
///
/// While the guard lives, the page stays in memory, even if the budget shrinks. No thread changes it, and the same
/// calls wait as for a `PageRef`. The file counts as open. If the guard is dropped as the last of the file's handles
/// and owned guards, it closes the file as the last [`File`](crate::File) does, which writes dirty pages and may take
/// long. Where that is unacceptable, as on a thread of an async runtime, keep a `File`.
///
/// In a forked child, touching the page faults. Dropping the guard does nothing there.
///
/// ```
/// use bytes::Bytes;
/// # let folder = tempfile::tempdir()?;
/// # let cache = millpond::PageCache::builder().memory(2 << 20).build()?;
/// # let file = cache.open(folder.path().join("data"), millpond::OpenOptions::new().create(true))?;
/// file.write_at(b"head and body", 0)?;
/// let page = Bytes::from_owner(file.page_owned(0)?); // no copy: it is the page in the cache
/// let body = page.slice(9..);
/// drop((page, file, cache));
/// assert_eq!(body, "body"); // the file is closed when this is dropped
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a guard unpins its page"]
pub struct OwnedPageRef {
    // In this order: while the file is being closed, no thread is noted for a page that is not pinned any
    // more.
    own: OwnGuard,
    pin: SharedPin<Arc<Opened>>,
    len: usize,
}

impl OwnedPageRef {
    pub(crate) fn new(
        pin: SharedPin<&Table<Arena>>,
        len: usize,
        key: PageKey,
        opened: &Arc<Opened>,
    ) -> OwnedPageRef {
        let (changes, is_owned) = (false, true);
        let own = OwnGuard::new(pin.table(), key, Kind { changes, is_owned });
        let pin = pin.counted().hold_by(opened.clone());
        OwnedPageRef { own, pin, len }
    }

    /// It is for another thread, which has not used it yet.
    #[cfg(feature = "tokio")]
    pub(crate) fn hand_on(self) -> OwnedPageRef {
        self.own.hand_on();
        self
    }
}

impl PageRef<'_> {
    /// # Panics
    /// If `opened` is another cache's.
    pub(crate) fn into_owned(self, opened: &Arc<Opened>) -> OwnedPageRef {
        let PageRef { own, pin, len } = self;
        drop(own);
        let key = pin.key();
        OwnedPageRef::new(pin, len, key, opened)
    }
}

impl Deref for OwnedPageRef {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.own.is_used();
        &self.pin[..self.len]
    }
}

impl AsRef<[u8]> for OwnedPageRef {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for OwnedPageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedPageRef({} bytes)", self.len)
    }
}

/// A page locked for writing, like a [`PageMut`], that keeps its file open, as an [`OwnedPageRef`] does.
///
/// A sync of the file waits until the guard is dropped, and so does a thread that wants the page: don't hold it across
/// an `await`.
#[must_use = "dropping a guard unlocks its page"]
pub struct OwnedPageMut {
    own: OwnGuard,
    pin: ExclusivePin<Arc<Opened>>,
    len: usize,
    page: u64,
}

impl OwnedPageMut {
    /// As [`PageMut::set_order`].
    ///
    /// # Errors
    /// As [`PageMut::set_order`].
    pub fn set_order(&mut self, n: u64) -> Result<()> {
        set_order(&self.pin.holder().inner, self.page, n)
    }

    /// It is for another thread, which has not used it yet.
    #[cfg(feature = "tokio")]
    pub(crate) fn hand_on(self) -> OwnedPageMut {
        self.own.hand_on();
        self
    }
}

impl PageMut<'_> {
    /// # Panics
    /// If `opened` is another cache's.
    pub(crate) fn into_owned(self, opened: &Arc<Opened>) -> OwnedPageMut {
        let PageMut {
            own,
            pin,
            len,
            file,
            page,
        } = self;
        drop(own);
        let (changes, is_owned) = (true, true);
        let key = PageKey::new(file.id, PageIndex(page));
        let own = OwnGuard::new(pin.table(), key, Kind { changes, is_owned });
        let pin = pin.hold_by(opened.clone());
        OwnedPageMut { own, pin, len, page }
    }
}

impl Deref for OwnedPageMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.own.is_used();
        &self.pin[..self.len]
    }
}

impl DerefMut for OwnedPageMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.own.is_used();
        &mut self.pin[..self.len]
    }
}

impl AsRef<[u8]> for OwnedPageMut {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for OwnedPageMut {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for OwnedPageMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedPageMut({} bytes)", self.len)
    }
}
