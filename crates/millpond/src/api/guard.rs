//! Page guards: pins as values.

mod owned;

pub use owned::{OwnedPageMut, OwnedPageRef};

use crate::error::{Error, Result};
use crate::files::FileInner;
use crate::frames::own::{Kind, OwnGuard};
use crate::frames::table::{ExclusivePin, SharedPin, Table};
use crate::sys::arena::Arena;
use millpond_core::units::{PageIndex, PageKey};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A page pinned for reading. Its bytes do not move and no thread changes them while the guard lives.
///
/// Dereferences to the page's bytes, up to the end of the file at the time of pinning. Any number of threads may read a
/// page concurrently. A thread that wants to change the page waits for all of them, so keep guards short-lived. A call
/// of the same thread that would wait for the guard fails with [`Error::OwnGuard`](crate::Error::OwnGuard):
/// [`File::page_mut`](crate::File::page_mut) of the page, a write to it, an append if it is the last page. Pinning and
/// dropping together take about 20 ns for a page in memory, allocate nothing and take no lock.
#[must_use = "dropping a guard unpins its page"]
pub struct PageRef<'a> {
    // In this order: no thread is noted for a page that is no longer pinned.
    own: OwnGuard,
    pin: SharedPin<&'a Table<Arena>>,
    len: usize,
}

impl<'a> PageRef<'a> {
    #[inline]
    pub(crate) fn new(pin: SharedPin<&'a Table<Arena>>, len: usize, key: PageKey) -> PageRef<'a> {
        let own = OwnGuard::of_pin(pin.table(), pin.hazard(), key);
        PageRef { own, pin, len }
    }
}

impl Deref for PageRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.own.is_used();
        &self.pin[..self.len]
    }
}

impl AsRef<[u8]> for PageRef<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRef({} bytes)", self.len)
    }
}

/// A page locked for writing. No other thread sees it while the guard lives.
///
/// Dereferences mutably to the page's bytes, up to the end of the file. The page is dirty as soon as it is locked. It
/// is not written to its file until the guard is dropped, and a sync waits for that.
#[must_use = "dropping a guard unlocks its page"]
pub struct PageMut<'a> {
    own: OwnGuard,
    pin: ExclusivePin<&'a Table<Arena>>,
    len: usize,
    file: &'a FileInner,
    page: u64,
}

impl<'a> PageMut<'a> {
    pub(crate) fn new(
        pin: ExclusivePin<&'a Table<Arena>>,
        len: usize,
        file: &'a FileInner,
        page: u64,
    ) -> PageMut<'a> {
        let kind = Kind {
            changes: true,
            is_owned: false,
        };
        let own = OwnGuard::new(pin.table(), PageKey::new(file.id, PageIndex(page)), kind);
        PageMut {
            own,
            pin,
            len,
            file,
            page,
        }
    }

    /// Declares that the page's bytes depend on record `n` of the file's log: the page is not written to the file until
    /// the log is durable up to `n`. Call it after the record has its number and before the guard is dropped. A page
    /// keeps the largest number set since it was last written. Costs a map lookup under a lock of the file.
    ///
    /// A page that is changed without a new order keeps its current order. If a page's order keeps rising ahead of the
    /// durable log, writeback blocks changes of the page for one advance of the log.
    ///
    /// # Errors
    /// [`Error::NoLog`] if the file was opened without [`OpenOptions::log`](crate::OpenOptions::log).
    pub fn set_order(&mut self, n: u64) -> Result<()> {
        set_order(self.file, self.page, n)
    }
}

/// # Errors
/// [`Error::NoLog`].
fn set_order(file: &FileInner, page: u64, n: u64) -> Result<()> {
    let Some(held) = &file.writeback_rules.held else {
        return Err(Error::NoLog {
            path: file.path.clone(),
        });
    };
    held.raise(page, n);
    Ok(())
}

impl Deref for PageMut<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.own.is_used();
        &self.pin[..self.len]
    }
}

impl DerefMut for PageMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.own.is_used();
        &mut self.pin[..self.len]
    }
}

impl AsRef<[u8]> for PageMut<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for PageMut<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageMut({} bytes)", self.len)
    }
}
