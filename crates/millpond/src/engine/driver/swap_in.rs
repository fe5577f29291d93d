//! Reads pages of regions from their slots in the swap file.
//!
//! A page that a thread waits for is read by that thread, or by the device if the thread has other faults to serve. The
//! device reads ahead; those pages stay in their frames, where their first use is seen.

use super::coming::SwapRead;
use super::{CoreGuard, Doubles, Engine, Outbox};
use crate::device::Device;
use crate::memory::At;
use crate::sys::arena::exchange::InHand;
use millpond_core::event::Event;
use millpond_core::io::{IoError, Reason};
use std::io;
use xxhash_rust::xxh3::xxh3_64;

/// Pages that come from their slots.
#[derive(Clone, Copy)]
pub(super) struct SwapIn<'a> {
    engine: &'a Engine,
}

impl<'a> SwapIn<'a> {
    pub(super) fn of(engine: &'a Engine) -> SwapIn<'a> {
        SwapIn { engine }
    }

    /// Reads a page on this thread.
    pub(super) fn read_now(self, mut read: SwapRead) {
        let engine = self.engine;
        let request = read.request(engine, 0);
        let poisons = engine.poison_on_panic("device");
        let result = engine.device.transfer(&request);
        drop(poisons);
        drop(request);
        drop(self.swapped_in(read, result, engine.outbox()));
    }

    /// Ends a read from the slots, successful or not. A page that was touched goes into its region if its content is what was
    /// written; else a touch of it is `SIGBUS`. Pages read ahead wait in their frames. If one of them is wrong, all are
    /// dropped, and the next touch reads the page again. The caller empties the outbox, because it may have other pages in
    /// hand.
    pub(super) fn swapped_in(
        self,
        mut read: SwapRead,
        result: io::Result<usize>,
        outbox: Outbox<'a>,
    ) -> Outbox<'a> {
        let engine = self.engine;
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
            let mut core = CoreGuard::lock(outbox);
            for load in loads {
                engine.table.locked(&mut core.token).fail_load(load);
            }
            if reason == Reason::Fault {
                let why = format!("slot {} of the swap file can't be read: {why}", slot.0);
                core.lose(&region, page, why);
            }
            let result = Err(IoError(libc::EIO));
            core.step(Event::ReadDone { io, result });
            if reason != Reason::Fault {
                pages.for_each(|page| engine.spaces().settle(&region, page, At::Absent));
            }
            return core.unlock();
        }
        // There its first use will be seen, unless it was already touched.
        let (mut to, mut stayed) = (At::Cached, Vec::new());
        for (load, page) in loads.into_iter().zip(page..) {
            region.pages.note_same(page);
            if reason == Reason::Fault {
                let (memory, frame) = (&*region.memory, engine.table.loading_frame(&load));
                to = At::Mapped;
                if !engine
                    .spaces()
                    .bring(&region, &InHand { memory, page, frame }, access)
                {
                    stayed.push(page);
                }
            }
            engine.table.finish_load(load);
        }
        let mut core = CoreGuard::lock(outbox);
        core.step(Event::ReadDone { io, result: Ok(()) });
        let outbox = core.unlock();
        // Only after the core knows: a thread that discards pages leaves out those that are loading. The last page comes first:
        // a thread that waits for the first one, as most do, brings back the pages behind it together with it.
        for page in pages.rev() {
            if stayed.contains(&page) {
                Doubles::of(engine).stays_out(&region, page);
                continue;
            }
            engine.spaces().settle(&region, page, to);
            if to == At::Mapped {
                Doubles::of(engine).enqueue(&region, page, true);
            }
        }
        outbox
    }

    /// Returns what is wrong with the pages that were read.
    fn wrong(self, read: &mut SwapRead, result: io::Result<usize>) -> Option<String> {
        let engine = self.engine;
        let SwapRead { region, loads, .. } = read;
        let size = engine.page_size.bytes() as usize;
        match result {
            Ok(len) if len != loads.len() * size => return Some(format!("only {len} bytes were read")),
            Ok(_) => {}
            Err(error) => return Some(error.to_string()),
        }
        let sums = loads.iter_mut().zip(read.page..);
        let mut sums =
            sums.map(|(load, page)| (xxh3_64(engine.table.load_bytes(load)), region.pages.sum(page)));
        let is_wrong = sums.any(|(is, was)| is != was);
        is_wrong.then(|| "it is not what was written there".to_owned())
    }
}
