//! Pages of regions that come.
//!
//! ```text
//!   soft fault   Cached: copied in, or moved with those behind it, uses noted; no lock but for a page that is hard to find
//!   first touch  core lock: a frame ─► zeros, copied in
//!   swap-in      core lock: a frame ─► read, compared with its checksum, copied in ─► ReadDone
//!   ahead        the same by the device, and left in its frame, where its first use is seen
//! ```
//!
//! How a step takes them in hand is in `coming.rs`, how they leave in `unmap.rs` and `evict.rs`.

use super::swap_in::SwapIn;
use super::touch::Try;
use super::{By, Doubles, Engine, Fault, Wait};
use crate::memory::{Ahead, At, SpaceInner};
use crate::sys::arena::exchange::InHand;
use crate::sys::uffd::Access;
use millpond_core::event::{Event, Intent};
use millpond_core::readahead::fault_around;
use millpond_core::units::PageIndex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A page that we hold, on its way back from its frame.
struct Back<'a> {
    page: InHand<'a>,
    was_read_ahead: bool,
}

/// Faults of a region, served.
#[derive(Clone, Copy)]
pub(crate) struct RegionFaults<'a> {
    engine: &'a Engine,
    region: &'a Arc<SpaceInner>,
}

impl<'a> RegionFaults<'a> {
    pub(crate) fn of(engine: &'a Engine, region: &'a Arc<SpaceInner>) -> RegionFaults<'a> {
        RegionFaults { engine, region }
    }

    /// A page that we hold comes back from its frame, with those behind it that the touching thread will come to.
    pub(super) fn soft_fault(self, page: u64, access: Access) {
        let RegionFaults { engine, region } = self;
        let ahead = region.pages.ahead(page);
        let mut count = region.around.lock().touched(PageIndex(page));
        if ahead.was_read {
            count = count.max(fault_around::TOGETHER);
        }
        let in_hand = |page, ahead: Ahead| Back {
            page: InHand {
                memory: &region.memory,
                page,
                frame: engine.frame_of(region, page),
            },
            was_read_ahead: ahead.was_read,
        };
        let mut pages = vec![in_hand(page, ahead)];
        let behind = page + 1..region.pages.len().min(page + count);
        pages.extend(behind.filter_map(|page| Some(in_hand(page, region.pages.take_with_another(page)?))));
        self.come_back(&pages, access);
        if ahead.is_mark {
            let mut core = engine.core();
            // The thread that touched the page went on when it landed, and may have dropped the region since.
            if !region.closed.load(Ordering::Relaxed) {
                let (file, at) = (region.id, PageIndex(page));
                core.step(Event::ReadAheadDue { file, at });
            }
        }
    }

    /// Pages that we hold come back: the first of them, and of the others what the kernel moves at once.
    fn come_back(self, pages: &[Back<'_>], access: Access) {
        let RegionFaults { engine, region } = self;
        let in_hand: Vec<_> = pages.iter().map(|back| back.page).collect();
        let exchange = &engine.spaces().exchange;
        let (mut left, mut hits) = (pages, 0);
        while let [first, ..] = left {
            let hands = &in_hand[pages.len() - left.len()..];
            let run;
            (run, left) = left.split_at(exchange.run(hands));
            let moved = match run {
                [_] => engine.spaces().bring(region, &first.page, access).into(),
                _ => exchange.move_in_run(&hands[..run.len()]),
            };
            let (came, stayed) = run.split_at(moved);
            for back in came {
                // The first use of one that was read ahead is what it was read for: no use is noted of it, as none is of a
                // page whose fault read it. That it is in its region says that it had one.
                match back.was_read_ahead {
                    true => hits += 1,
                    false => engine.table.note_use(back.page.frame),
                }
                // A thread that was woken when the page came may wait again, to write to a write-protected page.
                engine.spaces().settle(region, back.page.page, At::Mapped);
                Doubles::of(engine).enqueue(region, back.page.page, false);
            }
            let settled = usize::from(moved == 0);
            stayed[..settled]
                .iter()
                .for_each(|back| Doubles::of(engine).stays_out(region, back.page.page));
            stayed[settled..]
                .iter()
                .for_each(|back| engine.spaces().settle(region, back.page.page, At::Cached));
        }
        engine.spaces().ahead_hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// A page that has no frame gets one.
    pub(super) fn miss(self, page: u64, access: Access, by: By) -> Try {
        let RegionFaults { engine, region } = self;
        let mut answer;
        {
            let mut core = engine.core();
            if region.closed.load(Ordering::Relaxed) {
                return Try::Over(Fault::Served);
            }
            if region.pages.at(page) != At::Absent {
                return Try::Again;
            }
            let event = Event::Fault {
                file: region.id,
                first: PageIndex(page),
                count: 1,
                intent: Intent::Read,
            };
            answer = core.step(event);
            if let Some(read) = &mut answer.swap_read {
                read.access = access;
            }
            if by == (By::Handler { is_last: false })
                && let Some(read) = answer.swap_read.take()
            {
                core.read_later(read);
            }
        }
        for mut load in answer.granted {
            engine.table.load_bytes(&mut load).fill(0);
            let (memory, frame) = (&*region.memory, engine.table.loading_frame(&load));
            let is_in = engine
                .spaces()
                .bring(region, &InHand { memory, page, frame }, access);
            engine.table.finish_load_dirty(load);
            match is_in {
                true => {
                    engine.spaces().settle(region, page, At::Mapped);
                    Doubles::of(engine).enqueue(region, page, true);
                }
                false => Doubles::of(engine).stays_out(region, page),
            }
        }
        if let Some(read) = answer.swap_read {
            SwapIn::of(engine).read_now(read);
        }
        Try::Over(match answer.wait {
            None => Fault::Served,
            Some(at_most) => Fault::Later(Wait::Frame(Duration::from_nanos(at_most.0))),
        })
    }

    /// No frame could be had for a page for as long as a call waits at most.
    pub(super) fn give_up_fault(self, page: u64) -> Fault {
        let RegionFaults { engine, region } = self;
        let mut core = engine.core();
        if region.pages.take(page, &[At::Absent]).is_some() {
            let frames = core.manager.derived().frames.0;
            let why = format!(
                "no frame of {frames} became free for it: drop page guards, mend the swap file or raise the memory budget"
            );
            core.lose(region, page, why);
        }
        Fault::Served
    }
}
