//! Page guards: pins as values.

use crate::sys::arena::Arena;
use crate::table::{ExclusivePin, SharedPin, Table};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A page, pinned for reading: its bytes stay where they are and nobody changes them while this lives.
///
/// Dereferences to the page's bytes up to the end of the file as it was when the page was pinned. Many may read a page
/// at a time; whoever wants to change it waits for them all, so keep it short, and don't ask for [`PageMut`] of a page
/// of which the same thread holds a `PageRef`: it would wait for itself. Pinning and dropping take about
/// 20 ns together when the page is in memory, allocate nothing and take no lock.
#[must_use = "dropping a guard unpins its page"]
pub struct PageRef<'a> {
    pub(crate) pin: SharedPin<&'a Table<Arena>>,
    pub(crate) len: usize,
}

impl Deref for PageRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.pin[..self.len]
    }
}

impl fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRef({} bytes)", self.len)
    }
}

/// A page, locked for changing it: nobody else sees it while this lives.
///
/// Dereferences mutably to the page's bytes up to the end of the file. The page is dirty from the moment it is locked; it
/// is not written to its file before the guard is dropped, and a sync waits for that.
#[must_use = "dropping a guard unlocks its page"]
pub struct PageMut<'a> {
    pub(crate) pin: ExclusivePin<&'a Table<Arena>>,
    pub(crate) len: usize,
}

impl Deref for PageMut<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.pin[..self.len]
    }
}

impl DerefMut for PageMut<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pin[..self.len]
    }
}

impl fmt::Debug for PageMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageMut({} bytes)", self.len)
    }
}
