//! Double-resident pages of regions: a page is brought to the thread that waits for it, and is in two places for a while.
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

use super::leave::Leaving;
use super::{CallBack, Engine};
use crate::memory::{At, Pages, RegionInner, Residence};
use crate::sys::arena::exchange::{Copy, Exchange, InHand};
use crate::sys::uffd::Access;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};

/// Returns which memory is given up when a page leaves its region, if it has two.
pub(super) fn copy_of<'a>(pages: &Pages, page: InHand<'a>) -> Option<Copy<'a>> {
    match pages.residence(page.page) {
        Residence { is_double: false, .. } => None,
        Residence {
            is_protected: true, ..
        } => Some(Copy::InRegion(page)),
        Residence {
            is_protected: false, ..
        } => Some(Copy::InFrame(page)),
    }
}

/// Makes a write-protected page that leaves its region double-resident, so that it need not be moved. Takes memory, so it is
/// not called under the core lock.
fn make_double(exchange: &Exchange, pages: &Pages, page: &InHand<'_>) {
    let Residence {
        is_double,
        is_protected,
    } = pages.residence(page.page);
    if !is_double && is_protected && exchange.copy_out(page) {
        let is_double = true;
        pages.note_residence(
            page.page,
            Residence {
                is_double,
                is_protected,
            },
        );
    }
}

/// Notes that a page which leaves its region, and which we hold there, has given up one memory. Returns whether the page is
/// out; else it must be moved.
pub(super) fn leave_double(pages: &Pages, page: u64) -> bool {
    let is_out = end_double(pages, page);
    if !is_out {
        // The program may have had the kernel drop it.
        pages.note_changed(page);
    }
    is_out
}

/// Notes that a page which we hold in its region has given up one memory. Returns whether the page is out.
fn end_double(pages: &Pages, page: u64) -> bool {
    let Residence {
        is_double,
        is_protected,
    } = pages.residence(page);
    // If the page stays, because it is pinned, it is still write-protected.
    pages.note_residence(
        page,
        Residence {
            is_double: false,
            is_protected,
        },
    );
    is_double && is_protected
}

/// Double-resident pages of regions.
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
    pub(super) fn stays_out(self, region: &RegionInner, page: u64) {
        let engine = self.engine;
        engine.warn_no_memory(page);
        engine.regions().settle(region, page, At::Cached);
        engine.regions().exchange.wake(&region.memory, page);
    }

    /// Queues a page that was brought; `is_new`: it is new to replacement. The pages whose turn it is now give up one of their
    /// memories. New pages that no thread could write give up the one in the region, where their uses are not seen. The
    /// caller must not have the core lock.
    pub(super) fn enqueue_double(self, region: &RegionInner, page: u64, is_new: bool) {
        let engine = self.engine;
        let residence = region.pages.residence(page);
        if !residence.is_double {
            return;
        }
        let doubles = &engine.regions().doubles;
        let are_new = is_new && residence.is_protected;
        let due = doubles.enqueue(PageKey::new(region.id, PageIndex(page)), are_new);
        self.part(due, are_new);
    }

    /// Makes the pages whose turn it is give up one of their memories.
    pub(super) fn part(self, due: Vec<PageKey>, are_new: bool) {
        let engine = self.engine;
        let doubles = &engine.regions().doubles;
        let due = CallBack::of(engine).part_mapped(due, are_new);
        if due.is_empty() {
            return;
        }
        let mut held = Vec::with_capacity(due.len());
        for key in due {
            let (page, region) = (key.index().0, engine.regions().of(key.file()));
            let Some(region) = region.filter(|region| page < region.pages.len()) else {
                continue;
            };
            match region.pages.take(page, &[At::Mapped]) {
                Some(_) if region.pages.residence(page).is_double => {
                    let frame = engine.frame_of(&region, page);
                    held.push(Leaving { region, page, frame });
                }
                Some(_) => engine.regions().settle(&region, page, At::Mapped),
                // Other threads have it, or had it a moment ago.
                None if matches!(region.pages.at(page), At::Busy | At::Mapped) => doubles.enqueue_again(key),
                None => {}
            }
        }
        let goes_out = |page: &Leaving| are_new && page.region.pages.residence(page.page).is_protected;
        let copies = held.iter().map(|page| match goes_out(page) {
            true => Copy::InRegion(page.in_hand()),
            false => Copy::InFrame(page.in_hand()),
        });
        engine.regions().exchange.drop_copies(copies);
        for page in held {
            let to = if goes_out(&page) { At::Cached } else { At::Mapped };
            end_double(&page.region.pages, page.page);
            engine.regions().settle(&page.region, page.page, to);
        }
    }

    /// Serves a thread's fault for a page that we hold in its region: the page is write-protected, or was brought meanwhile.
    pub(super) fn come_late(self, region: &RegionInner, page: u64, access: Access) {
        let engine = self.engine;
        let (exchange, residence) = (&engine.regions().exchange, region.pages.residence(page));
        if access == Access::Read || !residence.is_protected {
            if exchange.restore(&region.memory, page) {
                // Content in its frame, if there is any, no longer concerns it.
                let is_protected = false;
                region.pages.note_residence(
                    page,
                    Residence {
                        is_protected,
                        ..residence
                    },
                );
            }
            return engine.regions().settle(region, page, At::Mapped);
        }
        if !exchange.open(&region.memory, page) {
            // The thread that is woken faults again.
            return engine.regions().settle(region, page, At::Mapped);
        }
        region.write_protect.note_written();
        if mutation::is(Mutation::OldTwinIsKept) {
            return engine.regions().settle(region, page, At::Mapped);
        }
        let is_protected = false;
        region.pages.note_residence(
            page,
            Residence {
                is_protected,
                ..residence
            },
        );
        engine.regions().settle(region, page, At::Mapped);
        self.enqueue_double(region, page, false);
    }

    /// Makes the write-protected ones of these pages double-resident. We hold them in their region, and they are to leave it.
    pub(super) fn make_doubles(self, region: &RegionInner, held: &[(u64, FrameNo)]) {
        let engine = self.engine;
        let memory = &*region.memory;
        for &(page, frame) in held {
            let page = InHand { memory, page, frame };
            make_double(&engine.regions().exchange, &region.pages, &page);
        }
    }

    /// Makes the double-resident ones of these pages, which we hold in their region, give up one memory. The others must be
    /// moved.
    pub(super) fn drop_one_copy(self, region: &RegionInner, held: &mut Vec<(u64, FrameNo)>) {
        let engine = self.engine;
        let in_hand = |&(page, frame): &(u64, FrameNo)| InHand {
            memory: &region.memory,
            page,
            frame,
        };
        let exchange = &engine.regions().exchange;
        let copies = held
            .iter()
            .filter_map(|page| copy_of(&region.pages, in_hand(page)));
        exchange.drop_copies(copies);
        held.retain(|&(page, _)| {
            let is_out = leave_double(&region.pages, page);
            if is_out {
                engine.regions().settle(region, page, At::Cached);
            }
            !is_out
        });
    }
}
