//! Rights to a frame's bytes, as values. Dropping one ends the right.

use super::Table;
use crate::frames::hazard::Hazard;
use millpond_core::units::FrameNo;
use std::sync::Arc;

/// What keeps a table alive for a pin: a borrow, or a share of its owner.
///
/// [`Holder::table`] gives the same table every time; a pin's memory depends on it.
pub(crate) trait Holder {
    /// The memory of the table's frames.
    type Memory;

    /// The table.
    fn table(&self) -> &Table<Self::Memory>;

    /// Whether a pin that is dropped is given back: not in a forked child, where no thread waits for it and
    /// the thread that held a lock of the table is gone.
    #[inline]
    fn gives_back(&self) -> bool {
        true
    }
}

impl<M> Holder for &Table<M> {
    type Memory = M;

    #[inline]
    fn table(&self) -> &Table<M> {
        self
    }
}

impl<M> Holder for Arc<Table<M>> {
    type Memory = M;

    #[inline]
    fn table(&self) -> &Table<M> {
        self
    }
}

/// A frame (low 32 bits) and how it is held for reading (above): 0 counted, else a hazard slot's number
/// and 1.
///
/// One number, so that a borrowed pin is two and comes back from a call in two registers. A pin that is
/// returned through memory in pieces and moved as a whole stops the processor from working ahead (a load
/// cannot be forwarded from several stores): measured, pin, read and unpin took 30 ns instead of 17 for
/// pages in the processor's cache, and about 230 instead of 130 for pages in memory.
#[derive(Clone, Copy)]
pub(super) struct Grip(u64);

impl Grip {
    #[inline]
    pub(super) fn counted(frame: FrameNo) -> Grip {
        Grip(u64::from(frame.0))
    }

    #[inline]
    pub(super) fn with_hazard(frame: FrameNo, hazard: Hazard) -> Grip {
        Grip(u64::from(frame.0) | (u64::from(hazard.0) + 1) << 32)
    }

    #[inline]
    pub(super) fn frame(self) -> FrameNo {
        FrameNo(self.0 as u32)
    }

    #[inline]
    pub(super) fn hazard(self) -> Option<Hazard> {
        match self.0 >> 32 {
            0 => None,
            number => Some(Hazard((number - 1) as u16)),
        }
    }
}

/// The right to read a page, with others (T1). May be sent to another thread and dropped there.
#[must_use]
pub(crate) struct SharedPin<H: Holder> {
    holder: H,
    grip: Grip,
}

impl<H: Holder> SharedPin<H> {
    #[inline]
    pub(super) fn new(holder: H, grip: Grip) -> SharedPin<H> {
        SharedPin { holder, grip }
    }

    /// The table of the page.
    #[inline]
    pub(crate) fn table(&self) -> &Table<H::Memory> {
        self.holder.table()
    }

    /// The page's frame.
    #[inline]
    pub(crate) fn frame(&self) -> FrameNo {
        self.grip.frame()
    }

    /// The page.
    pub(crate) fn key(&self) -> millpond_core::units::PageKey {
        self.table().index.key(self.frame())
    }

    /// The hazard that pins it, if one does.
    #[inline]
    pub(crate) fn hazard(&self) -> Option<Hazard> {
        self.grip.hazard()
    }
}

impl<M> SharedPin<&Table<M>> {
    /// The same pin by a count: a thread's hazards are for what it holds itself, and not for long.
    pub(crate) fn counted(self) -> Self {
        let (table, key) = (self.holder, self.key());
        match self.grip.hazard() {
            None => self,
            // Without being polite: a writer that waits for this pin would wait for the other.
            Some(_) => match table.grip_counted(self.frame(), key, false) {
                Ok(grip) => SharedPin::new(table, grip),
                Err(_) => self,
            },
        }
    }

    /// The same pin, which keeps its table alive through `holder`.
    ///
    /// # Panics
    /// If that is another table.
    pub(crate) fn hold_by<H: Holder<Memory = M>>(self, holder: H) -> SharedPin<H> {
        assert!(
            std::ptr::eq(self.table(), holder.table()),
            "the holder of another cache"
        );
        SharedPin {
            holder,
            grip: std::mem::ManuallyDrop::new(self).grip,
        }
    }
}

impl<H: Holder> Drop for SharedPin<H> {
    #[inline]
    fn drop(&mut self) {
        if self.holder.gives_back() {
            self.holder.table().ungrip(self.grip);
        }
    }
}

/// The right to change a page, alone (T2). May be sent to another thread and dropped there.
#[must_use]
pub(crate) struct ExclusivePin<H: Holder> {
    holder: H,
    claim: Claim,
}

/// A frame (low 32 bits) and whether its page was clean (bit 32). One number for the same reason as
/// [`Grip`].
#[derive(Clone, Copy)]
pub(super) struct Claim(u64);

impl Claim {
    #[inline]
    pub(super) fn new(frame: FrameNo, first_dirty: bool) -> Claim {
        Claim(u64::from(frame.0) | u64::from(first_dirty) << 32)
    }
}

impl<H: Holder> ExclusivePin<H> {
    #[inline]
    pub(super) fn new(holder: H, claim: Claim) -> ExclusivePin<H> {
        ExclusivePin { holder, claim }
    }

    /// The table of the page.
    #[inline]
    pub(crate) fn table(&self) -> &Table<H::Memory> {
        self.holder.table()
    }

    /// The page's frame.
    #[inline]
    pub(crate) fn frame(&self) -> FrameNo {
        FrameNo(self.claim.0 as u32)
    }

    /// The page.
    #[cfg(test)]
    pub(crate) fn key(&self) -> millpond_core::units::PageKey {
        self.table().index.key(self.frame())
    }

    /// What keeps the table alive.
    pub(crate) fn holder(&self) -> &H {
        &self.holder
    }

    /// Whether the page was clean before: the owner must report it dirty (T6).
    #[inline]
    pub(crate) fn first_dirty(&self) -> bool {
        self.claim.0 >> 32 != 0
    }
}

impl<M> ExclusivePin<&Table<M>> {
    /// As [`SharedPin::hold_by`].
    ///
    /// # Panics
    /// If that is another table.
    pub(crate) fn hold_by<H: Holder<Memory = M>>(self, holder: H) -> ExclusivePin<H> {
        assert!(
            std::ptr::eq(self.table(), holder.table()),
            "the holder of another cache"
        );
        ExclusivePin {
            holder,
            claim: std::mem::ManuallyDrop::new(self).claim,
        }
    }
}

impl<H: Holder> Drop for ExclusivePin<H> {
    #[inline]
    fn drop(&mut self) {
        if self.holder.gives_back() {
            self.holder.table().release(self.frame());
        }
    }
}

/// The right to fill a frame with its page (T3). It has no holder, because it may wait in a device's
/// queue; give it back to its table: [`Table::finish_load`] and its kin, or
/// [`fail_load`](super::LockedTable::fail_load).
#[must_use = "a load that nobody ends keeps everybody waiting"]
#[derive(Debug)]
pub(crate) struct Load {
    pub(super) frame: FrameNo,
    pub(super) table: usize,
}
