//! Pages of regions that are read from their slots of the swap file.
//!
//! One that a thread waits for is read by that thread, or handed to the device if the thread has others to serve; those read
//! ahead are the device's, and stay in their frames, where their first use is seen.

use super::coming::SwapRead;
use super::{Engine, Outbox};
use crate::device::Device;
use crate::error::Result;
use crate::memory::{At, RegionInner};
use crate::sys::arena::exchange::InHand;
use millpond_core::event::{Event, Intent};
use millpond_core::io::{IoError, Reason};
use millpond_core::units::PageIndex;
use std::io;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Pages that are asked for at a time with [`RegionAdvice::WillNeed`](crate::RegionAdvice::WillNeed): 1 MiB.
const AHEAD_BATCH: u64 = 256;

impl Engine {
    /// Reads a page on this thread.
    pub(super) fn read_now(&self, mut read: SwapRead) {
        let request = self.swap_request(&mut read, 0);
        let poisons = self.poison_on_panic("device");
        let result = self.device.transfer(&request);
        drop(poisons);
        drop(request);
        drop(self.swapped_in(read, result, self.outbox()));
    }

    /// Pages were read from their slots, or could not be. One that was touched goes into its region if it is what was
    /// written; else a thread that touches it gets `SIGBUS`. Those read ahead wait in their frames. If one of them is
    /// wrong they all go, and a thread that touches one has it read again. The outbox is emptied by the caller, who may have
    /// other pages in hand.
    pub(super) fn swapped_in<'a>(
        &'a self,
        mut read: SwapRead,
        result: io::Result<usize>,
        outbox: Outbox<'a>,
    ) -> Outbox<'a> {
        let wrong = self.wrong(&mut read, result);
        let SwapRead {
            io,
            region,
            page,
            slot,
            reason,
            access,
            loads,
        } = read;
        let pages = page..page + loads.len() as u64;
        if let Some(why) = wrong {
            let mut core = outbox.lock();
            for load in loads {
                self.table.locked(&mut core.token).fail_load(load);
            }
            if reason == Reason::Fault {
                let why = format!("slot {} of the swap file can't be read: {why}", slot.0);
                core.lose(&region, page, why);
            }
            let result = Err(IoError(libc::EIO));
            core.step(Event::ReadDone { io, result });
            if reason != Reason::Fault {
                pages.for_each(|page| self.regions().settle(&region, page, At::Absent));
            }
            return core.unlock();
        }
        // Where its first use will be seen, unless it is one that was touched.
        let (mut to, mut stayed) = (At::Cached, Vec::new());
        for (load, page) in loads.into_iter().zip(page..) {
            region.pages.note_same(page);
            if reason == Reason::Fault {
                let (memory, frame) = (&*region.memory, self.table.loading_frame(&load));
                to = At::Mapped;
                if !self
                    .regions()
                    .bring(&region, &InHand { memory, page, frame }, access)
                {
                    stayed.push(page);
                }
            }
            self.table.finish_load(load);
        }
        let mut core = outbox.lock();
        core.step(Event::ReadDone { io, result: Ok(()) });
        let outbox = core.unlock();
        // Not before the core knows: a thread that discards pages discards none that is loading. The last page first: a
        // thread that waits for the first one, as most do, brings back with it what is there behind it.
        for page in pages.rev() {
            if stayed.contains(&page) {
                self.stays_out(&region, page);
                continue;
            }
            self.regions().settle(&region, page, to);
            if to == At::Mapped {
                self.enqueue_double(&region, page, true);
            }
        }
        outbox
    }

    /// What is wrong with pages that were read.
    fn wrong(&self, read: &mut SwapRead, result: io::Result<usize>) -> Option<String> {
        let SwapRead { region, loads, .. } = read;
        let size = self.page_size.bytes() as usize;
        match result {
            Ok(len) if len != loads.len() * size => return Some(format!("only {len} bytes were read")),
            Ok(_) => {}
            Err(error) => return Some(error.to_string()),
        }
        let sums = loads.iter_mut().zip(read.page..);
        let mut sums =
            sums.map(|(load, page)| (xxh3_64(self.table.load_bytes(load)), region.pages.sum(page)));
        let is_wrong = sums.any(|(is, was)| is != was);
        is_wrong.then(|| "it is not what was written there".to_owned())
    }

    /// Reads pages of the region that are in their slots, in the background, as far as there is memory for them.
    pub(crate) fn region_ahead(&self, region: &RegionInner, pages: Range<u64>) -> Result<()> {
        let mut at = pages.start;
        while at < pages.end {
            self.call_flags.check()?;
            let (count, answer);
            {
                let mut core = self.core();
                let is_away = |page: &u64| {
                    region.pages.at(*page) == At::Absent && core.manager.has_slot(region.id, PageIndex(*page))
                };
                let most = pages.end.min(at + AHEAD_BATCH);
                count = (at..most).take_while(is_away).count() as u64;
                if count == 0 {
                    at += 1;
                    continue;
                }
                let event = Event::Fault {
                    file: region.id,
                    first: PageIndex(at),
                    count: count as u32,
                    intent: Intent::Prefetch,
                };
                answer = core.step(event);
            }
            if answer.ahead < count {
                break;
            }
            at += count;
        }
        Ok(())
    }
}
