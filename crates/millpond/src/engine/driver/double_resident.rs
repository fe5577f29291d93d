//! Double-resident pages: each was brought to a thread that waited for it, and is in two places for a while.
//!
//! ```text
//!   read into its frame ─► copied into its region: double ─┬─ others have come: its copy in the region goes  ─► Cached
//!   back from its frame ─► copied into its region: double ─┼─ others have come: its copy in the frame goes   ─► Mapped
//!                                                          └─ written: that in the frame is old, goes soon   ─► Mapped
//! ```
//!
//! Moving a page interrupts each processor that runs the process, to flush the address from its TLB: 12 us with a second
//! thread running instead of 1.1 us, in a virtual machine. And the page would be moved twice, in and out. Copying it to an
//! empty place flushes nothing (2.3 us), and one system call frees the second memories of many pages (1 us a page).
//! A thread that only reads a page gets it *write-protected*, so that both memories stay equal and either may go; a write
//! is a fault that opens the page. A write-protected page that is no longer double-resident becomes so again before it
//! leaves. So a page that is only read is never moved.
//!
//! A page that was read and is write-protected stays double-resident until 128 others have come. Then only its frame keeps
//! it, where its uses are seen: a touch is a soft fault, and without one the page leaves from there without a copy. The next
//! use of a page that came back from its frame is seen when replacement asks for it. All second memories together take one
//! frame in 80, and 192 at most, from the budget (`memory/double_resident.rs`).

use super::unmap::HeldPage;
use super::{Engine, Unmap};
use crate::memory::{At, Residence, Space, SpaceInner};
use crate::sys::uffd::Access;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{PageIndex, PageKey};

/// Double-resident pages of regions and mappings.
#[derive(Clone, Copy)]
pub(crate) struct Doubles<'a> {
    engine: &'a Engine,
}

impl<'a> Doubles<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Doubles<'a> {
        Doubles { engine }
    }

    /// Leaves a page that a thread has touched in its frame, because the system has no memory. The waiting thread touches it
    /// again until there is some.
    pub(super) fn stays_out(self, region: &SpaceInner, page: u64) {
        let engine = self.engine;
        engine.warn_no_memory(page);
        engine.spaces().settle(region, page, At::Cached);
        engine.spaces().exchange.wake(&region.memory, page);
    }

    /// Makes a write-protected page double-resident, so that it need not be moved. Takes memory, so it is not called under the
    /// core lock. Nothing changes if there is no memory for the copy, or the program has had the kernel drop the page.
    pub(super) fn make_double(self, page: &HeldPage) {
        let Residence {
            is_double,
            is_protected,
        } = page.residence();
        let exchange = &self.engine.spaces().exchange;
        if !is_double && is_protected && exchange.copy_out(&page.in_hand()) {
            page.note(Residence::double(true));
            if page.is_of_file() {
                self.engine.table.map_shared(page.frame);
            }
        }
    }

    /// Queues a page that was brought; `is_new`: it is new to replacement. The pages whose turn it is now give up one of their
    /// memories. New pages that no thread could write give up the one in the region or mapping, where their uses are not seen.
    /// The caller must not have the core lock.
    pub(super) fn enqueue(self, space: &SpaceInner, page: u64, is_new: bool) {
        let residence = space.pages.residence(page);
        if !residence.is_double {
            return;
        }
        let doubles = &self.engine.spaces().doubles;
        let are_new = is_new && residence.is_protected;
        let due = doubles.enqueue(PageKey::new(space.id, PageIndex(page)), are_new);
        self.part(due, are_new);
    }

    /// Makes the pages whose turn it is give up one of their memories. A page of a file whose frame is in use keeps both as
    /// long as a new one does: a thread that has pinned it may be about to touch it, and would fault again and again.
    fn part(self, due: Vec<PageKey>, are_new: bool) {
        let engine = self.engine;
        let spaces = engine.spaces();
        let (mut go, mut stay, mut later) = (Vec::with_capacity(due.len()), Vec::new(), Vec::new());
        for key in due {
            let (space, page) = (spaces.space(key.file()), key.index().0);
            let Some(space) = space.filter(|space| page < space.inner().pages.len()) else {
                continue;
            };
            let Some(page) = HeldPage::take(engine, &space, page) else {
                // Other threads have it, or had it a moment ago.
                if matches!(space.inner().pages.at(page), At::Busy | At::Mapped) {
                    spaces.doubles.enqueue_again(key);
                }
                continue;
            };
            let frame = page.frame;
            match (page.residence(), &space) {
                (Residence { is_double: false, .. }, _) => page.let_go(engine),
                (
                    Residence {
                        is_protected: true, ..
                    },
                    _,
                ) if are_new => go.push(page),
                (
                    Residence {
                        is_protected: true, ..
                    },
                    Space::File(_),
                ) if !engine.table.map_alone(frame) => {
                    later.push(page);
                }
                // A device reads the frame's memory.
                (
                    Residence {
                        is_protected: false, ..
                    },
                    _,
                ) if engine.table.word(frame).is_writeback() => {
                    page.let_go(engine);
                    spaces.doubles.enqueue_again(key);
                }
                _ => stay.push(page),
            }
        }
        Unmap::of(engine).unmap(&mut go);
        Unmap::of(engine).drop_frames(&stay);
        for page in go.iter().chain(&stay).chain(&later) {
            page.let_go(engine);
        }
        for page in later {
            self.enqueue(page.inner(), page.page, true);
        }
    }

    /// Serves a thread's fault for a page that we hold in its region: the page is write-protected, or was brought meanwhile.
    pub(super) fn come_late(self, region: &SpaceInner, page: u64, access: Access) {
        let engine = self.engine;
        let (exchange, residence) = (&engine.spaces().exchange, region.pages.residence(page));
        if access == Access::Read || !residence.is_protected {
            if exchange.restore(&region.memory, page) {
                // Content in its frame, if there is any, no longer concerns it.
                region.pages.note_residence(page, residence.opened());
            }
            return engine.spaces().settle(region, page, At::Mapped);
        }
        if !exchange.open(&region.memory, page) {
            // The thread that is woken faults again.
            return engine.spaces().settle(region, page, At::Mapped);
        }
        region.write_protect.note_written();
        if mutation::is(Mutation::OldTwinIsKept) {
            return engine.spaces().settle(region, page, At::Mapped);
        }
        region.pages.note_residence(page, residence.opened());
        engine.spaces().settle(region, page, At::Mapped);
        self.enqueue(region, page, false);
    }
}
