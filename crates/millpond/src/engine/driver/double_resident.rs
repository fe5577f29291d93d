//! Double-resident pages of regions: how a page comes to a thread that waits for it, and is in two places for a while.
//!
//! ```text
//!   read into its frame ─► copied into its region: double ─┬─ others have come: its copy in the region goes  ─► Cached
//!   back from its frame ─► copied into its region: double ─┼─ others have come: its copy in the frame goes   ─► Mapped
//!                                                          └─ written: that in the frame is old, goes soon   ─► Mapped
//! ```
//!
//! To move a page makes each processor that runs the process forget where it was, by an interrupt: 12 us with a second
//! thread running instead of 1.1 us, in a virtual machine, and it would have to be moved once in and once out. To put a
//! copy where nothing was makes no processor forget anything (2.3 us), and one system call gives back the second
//! memories of many pages (1 us a page). A thread that only reads a page gets it *write-protected*, so that both
//! memories stay equal and either may go; a write of it is a fault that opens it. One that is write-protected and no
//! longer double-resident becomes so again when it is to leave, so what is only read is never moved.
//!
//! A page that was read and is write-protected stays double-resident until 128 others have come, and then is where
//! its uses are seen: a touch of it is a soft fault, and without one it leaves from there without a copy. Of one that came back from its
//! frame the next use is seen when replacement asks for it. All second memories together are one frame in 80, and 192 at
//! most; they are out of the budget (`memory/double_resident.rs`).

use super::leave::Leaving;
use super::{CallBack, Engine};
use crate::memory::{At, Pages, RegionInner, Residence};
use crate::sys::arena::exchange::{Copy, Exchange, InHand};
use crate::sys::uffd::Access;
use millpond_core::mutation::{self, Mutation};
use millpond_core::units::{FrameNo, PageIndex, PageKey};

/// Which memory of a page that leaves its region is given up, if it has two.
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

/// Makes a page that leaves its region double-resident, if it is write-protected: it need not be moved then. It takes
/// memory, so it is not called under the core lock.
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

/// The page, which we hold in its region and which is to leave it, has given up that memory. Whether it is out; else it is
/// to be moved.
pub(super) fn leave_double(pages: &Pages, page: u64) -> bool {
    let is_out = end_double(pages, page);
    if !is_out {
        // The program may have had the kernel drop it.
        pages.note_changed(page);
    }
    is_out
}

/// The page, which we hold in its region, has given up one memory. Whether it is out.
fn end_double(pages: &Pages, page: u64) -> bool {
    let Residence {
        is_double,
        is_protected,
    } = pages.residence(page);
    // If it stays, because it is pinned, it is still write-protected.
    pages.note_residence(
        page,
        Residence {
            is_double: false,
            is_protected,
        },
    );
    is_double && is_protected
}

/// Pages of regions in two places.
#[derive(Clone, Copy)]
pub(crate) struct Doubles<'a> {
    engine: &'a Engine,
}

impl<'a> Doubles<'a> {
    pub(crate) fn of(engine: &'a Engine) -> Doubles<'a> {
        Doubles { engine }
    }

    /// A page that a thread has touched stays in its frame, since the system has no memory. A thread that waits for it
    /// touches it again, and so on until there is some.
    pub(super) fn stays_out(self, region: &RegionInner, page: u64) {
        let engine = self.engine;
        engine.warn_no_memory(page);
        engine.regions().settle(region, page, At::Cached);
        engine.regions().exchange.wake(&region.memory, page);
    }

    /// A page has been brought, `is_new` to replacement. The pages whose turn it is now give up one of their memories.
    /// New ones that could not be written give up the one in the region, where their uses are not seen. The caller must
    /// not have the core lock.
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

    /// Pages whose turn it is give up one of their memories.
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
                // Others have it, or had a moment ago.
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

    /// A thread has come for a page that we hold in its region: it is write-protected, or was brought meanwhile.
    pub(super) fn come_late(self, region: &RegionInner, page: u64, access: Access) {
        let engine = self.engine;
        let (exchange, residence) = (&engine.regions().exchange, region.pages.residence(page));
        if access == Access::Read || !residence.is_protected {
            if exchange.restore(&region.memory, page) {
                // What is in its frame, if anything is, has nothing to do with it any more.
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
            // The thread that was woken comes again.
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

    /// Of pages that we hold in their region and that are to leave it, those that are write-protected become double-resident.
    pub(super) fn make_doubles(self, region: &RegionInner, held: &[(u64, FrameNo)]) {
        let engine = self.engine;
        let memory = &*region.memory;
        for &(page, frame) in held {
            let page = InHand { memory, page, frame };
            make_double(&engine.regions().exchange, &region.pages, &page);
        }
    }

    /// Of pages that we hold in their region, those that are in two places give up one. What remains is to be moved.
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
