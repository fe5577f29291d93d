//! Pages of regions that come: faults served, pages read.
//!
//! ```text
//!   soft fault   Out: moved in with those behind it, uses noted     no lock but for a page that is hard to find
//!   first touch  core lock: a frame ─► zeros, moved in
//!   swap-in      core lock: a frame ─► read, compared with its checksum, moved in ─► ReadDone
//!   ahead        the same by the device, and left in its frame, where its first use is seen
//! ```
//!
//! How they leave is in `leave.rs`.

use super::transfers::{Kind, Transfer};
use super::{Core, Deferred, Shared};
use crate::device::{Device, Request, Warning};
use crate::error::Result;
use crate::region::{Ahead, At, RegionInner, Regions};
use crate::sys::exchange::InHand;
use crate::table::Load;
use crate::trace::What;
use millpond_core::event::{Event, Intent, IoError, IoId, Reason};
use millpond_core::frame::FrameTable;
use millpond_core::readahead::fault_around;
use millpond_core::swap::SlotNo;
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// How long a thread waits at most for a page that another has in hand before it looks again: nobody forgets to announce
/// it, so this is for the day when somebody does.
const SETTLED_WAIT: Duration = Duration::from_millis(100);

/// Pages that are asked for at a time with [`RegionAdvice::WillNeed`](crate::RegionAdvice::WillNeed): 1 MiB.
const AHEAD_BATCH: u64 = 256;

/// Pages that are being read from their slots: they follow one another.
pub(crate) struct SwapRead {
    pub(super) io: IoId,
    pub(super) region: Arc<RegionInner>,
    /// The first.
    pub(super) page: u64,
    pub(super) slot: SlotNo,
    pub(super) reason: Reason,
    pub(super) loads: Vec<Load>,
}

/// A page that we hold, on its way back from its frame.
struct Back<'a> {
    page: InHand<'a>,
    was_read_ahead: bool,
}

/// What has become of a fault.
pub(crate) enum Fault {
    /// Served, or somebody else does.
    Served,
    /// No frame can be had: again when memory is there, or after so long.
    NoFrame(Duration),
}

impl Shared {
    /// The regions, whose pages the caller knows.
    pub(super) fn regions(&self) -> &Regions {
        self.regions.as_ref().expect("there is a region")
    }

    /// A thread has touched a page that is not there. `may_read`: the calling thread may read it itself; else the device
    /// does it in the background.
    pub(crate) fn region_fault(&self, region: &Arc<RegionInner>, page: u64, may_read: bool) -> Fault {
        let noted = self.note(region.id, (page, 1), What::Region);
        let fault = self.serve_fault(region, page, may_read);
        if matches!(fault, Fault::NoFrame(_)) {
            // It comes again.
            std::mem::forget(noted);
        }
        fault
    }

    fn serve_fault(&self, region: &Arc<RegionInner>, page: u64, may_read: bool) -> Fault {
        let pages = &region.pages;
        loop {
            match pages.at(page) {
                // A fault that somebody else has served meanwhile.
                At::In => {
                    if pages.take(page, &[At::In]).is_some() {
                        self.regions().exchange.restore(&region.memory, page);
                        self.settle(region, page, At::In);
                        return Fault::Served;
                    }
                }
                At::Poisoned => {
                    self.regions().exchange.wake(&region.memory, page);
                    return Fault::Served;
                }
                At::Out => {
                    if pages.take(page, &[At::Out]).is_some() {
                        self.soft_fault(region, page);
                        return Fault::Served;
                    }
                }
                At::Held | At::Writing => {
                    if pages.want(page) {
                        return Fault::Served;
                    }
                }
                At::Nowhere => {
                    if let Some(fault) = self.miss(region, page, may_read) {
                        return fault;
                    }
                }
            }
        }
    }

    /// A page that we hold comes back from its frame, and those behind it that whoever touched it will come to.
    fn soft_fault(&self, region: &RegionInner, page: u64) {
        let ahead = region.pages.ahead(page);
        let mut count = region.around.lock().touched(PageIndex(page));
        if ahead.was_read {
            count = count.max(fault_around::TOGETHER);
        }
        let in_hand = |page, ahead: Ahead| Back {
            page: InHand {
                memory: &region.memory,
                page,
                frame: self.frame_of(region, page),
            },
            was_read_ahead: ahead.was_read,
        };
        let mut pages = vec![in_hand(page, ahead)];
        let behind = page + 1..region.pages.len().min(page + count);
        pages.extend(behind.filter_map(|page| Some(in_hand(page, region.pages.take_with_another(page)?))));
        let follows = |a: &Back<'_>, b: &Back<'_>| {
            (b.page.page, b.page.frame.0) == (a.page.page + 1, a.page.frame.0 + 1)
        };
        pages
            .chunk_by(follows)
            .for_each(|run| self.come_back(region, run));
        if ahead.is_mark {
            let mut deferred = Deferred::default();
            {
                let mut core = self.core();
                // Whoever touched the page went on when it landed, and may have dropped the region since.
                if !region.closed.load(Ordering::Relaxed) {
                    let (file, at) = (region.id, PageIndex(page));
                    self.step(&mut core, Event::ReadAheadDue { file, at }, &mut deferred);
                }
            }
            self.finish(&mut deferred);
        }
    }

    /// Pages that follow one another, as do their frames, come back: the first of them, and of the others what the kernel
    /// moves at once.
    fn come_back(&self, region: &RegionInner, run: &[Back<'_>]) {
        let pages: Vec<_> = run.iter().map(|back| back.page).collect();
        let moved = self.regions().exchange.move_in_run(&pages);
        let (came, stayed) = run.split_at(moved);
        for back in came {
            // The first use of one that was read ahead is what it was read for: no use is noted of it, as none is of a page
            // whose fault read it. That it is in its region says that it had one.
            if !back.was_read_ahead {
                self.table.note_use(back.page.frame);
            }
            self.landed(region, back.page.page);
        }
        stayed
            .iter()
            .for_each(|back| self.settle(region, back.page.page, At::Out));
        let hits = came.iter().filter(|back| back.was_read_ahead).count() as u64;
        self.regions().ahead_hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// A page is in its region again. Moving it there has woken whoever sleeps for it; who serves its own faults waits
    /// elsewhere.
    fn landed(&self, region: &RegionInner, page: u64) {
        if region.pages.put(page, At::In) {
            region.settled.announce();
        }
    }

    /// A thread serves its own touch of a page that is not there. `false`: the page is lost.
    pub(crate) fn region_touched(&self, region: &Arc<RegionInner>, page: u64) -> bool {
        let began = std::time::Instant::now();
        loop {
            let (settled, memory) = (region.settled.count(), self.memory_gate.count());
            match region.pages.at(page) {
                At::Poisoned => return false,
                At::Held | At::Writing => {
                    if region.pages.want(page) {
                        region.settled.wait(settled, SETTLED_WAIT);
                    }
                }
                At::In | At::Out | At::Nowhere => {
                    let Fault::NoFrame(at_most) = self.region_fault(region, page, true) else {
                        return true;
                    };
                    self.look();
                    if began.elapsed() > self.patience() {
                        self.give_up_fault(region, page);
                    } else {
                        self.memory_gate.wait(memory, at_most);
                    }
                }
            }
        }
    }

    /// The frame of a page that we hold.
    pub(super) fn frame_of(&self, region: &RegionInner, page: u64) -> FrameNo {
        let key = PageKey::new(region.id, PageIndex(page));
        self.table.frame_of(key).unwrap_or_else(|| {
            let mut core = self.core();
            let found = self.table.locked(&mut core.turn).lookup(key);
            found.unwrap_or_else(|| panic!("{key:?} is held and has no frame"))
        })
    }

    /// A page that has no frame gets one. `None`: it has one by now.
    fn miss(&self, region: &Arc<RegionInner>, page: u64, may_read: bool) -> Option<Fault> {
        let mut deferred = Deferred::default();
        {
            let mut core = self.core();
            if region.closed.load(Ordering::Relaxed) {
                return Some(Fault::Served);
            }
            if region.pages.at(page) != At::Nowhere {
                return None;
            }
            let event = Event::Fault {
                file: region.id,
                first: PageIndex(page),
                count: 1,
                intent: Intent::Read,
            };
            self.step(&mut core, event, &mut deferred);
            if !may_read && let Some(read) = deferred.swap_read.take() {
                self.read_later(&mut core, read, &mut deferred);
            }
        }
        let granted = std::mem::take(&mut deferred.granted);
        let read = deferred.swap_read.take();
        self.finish(&mut deferred);
        for mut load in granted {
            self.table.load_bytes(&mut load).fill(0);
            let (memory, frame) = (&*region.memory, self.table.loading_frame(&load));
            self.regions().exchange.move_in(&InHand { memory, page, frame });
            self.table.finish_load_dirty(load);
            self.landed(region, page);
        }
        if let Some(read) = read {
            self.read_now(read);
        }
        Some(match deferred.wait {
            None => Fault::Served,
            Some(at_most) => Fault::NoFrame(Duration::from_nanos(at_most.0)),
        })
    }

    fn swap_request(&self, read: &mut SwapRead, token: u64) -> Request {
        let reason = read.reason;
        let (file, slot) = self.regions().place(read.slot);
        self.read_request((token, reason), &file, slot, &mut read.loads)
    }

    /// Reads a page on this thread.
    fn read_now(&self, mut read: SwapRead) {
        let request = self.swap_request(&mut read, 0);
        let dart = self.dart("device");
        let result = self.device.transfer(&request);
        drop(dart);
        drop(request);
        let mut deferred = Deferred::default();
        self.swapped_in(read, result, &mut deferred);
        self.finish(&mut deferred);
    }

    /// Has a page read by the device.
    pub(super) fn read_later(&self, core: &mut Core, mut read: SwapRead, deferred: &mut Deferred) {
        let (io, first) = (read.io, PageIndex(read.page));
        let request = self.swap_request(&mut read, u64::from(io.0));
        let (file, _) = self.regions().place(read.slot);
        deferred.batch(self).push(file.clone(), request);
        let kind = Kind::SwapIn(read);
        core.transfers.insert(io, Transfer { file, first, kind });
    }

    /// A page that was never touched has got a frame, if it is one of a region: it is ours until it is filled.
    pub(super) fn hold_granted(&self, file: FileId, first: PageIndex) {
        if let Some(region) = self.regions.as_ref().and_then(|regions| regions.of(file)) {
            let taken = region.pages.take(first.0, &[At::Nowhere]);
            assert_eq!(taken, Some(At::Nowhere), "{first:?} was granted");
        }
    }

    /// The same of pages that are to be read.
    pub(super) fn hold_read(
        &self,
        io: IoId,
        reason: Reason,
        key: PageKey,
        slot: SlotNo,
        loads: Vec<Load>,
    ) -> SwapRead {
        let (file, page) = (key.file(), key.index().0);
        let region = self.regions().of(file);
        let region = region.unwrap_or_else(|| panic!("{file:?} is no region"));
        for page in (page..).take(loads.len()) {
            let taken = region.pages.take(page, &[At::Nowhere]);
            assert_eq!(taken, Some(At::Nowhere), "page {page} of {file:?} is to be read");
            let was_read = reason == Reason::ReadAhead;
            let is_mark = false;
            region.pages.note_ahead(page, Ahead { was_read, is_mark });
        }
        SwapRead {
            io,
            region,
            page,
            slot,
            reason,
            loads,
        }
    }

    /// Whoever touches this page of a region first asks for more; if it is not on its way, nobody does.
    pub(super) fn mark_ahead(&self, region: &RegionInner, page: u64) {
        if region.pages.at(page) == At::Held {
            let (was_read, is_mark) = (false, true);
            region.pages.note_ahead(page, Ahead { was_read, is_mark });
        }
    }

    /// Frames were added: they get their memory at once, and can be exchanged.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn exchange_frames(&self, frames: Range<u32>) -> io::Result<()> {
        let Some(regions) = &self.regions else {
            return Ok(());
        };
        self.table.memory().populate(frames.clone());
        regions.exchange.add_frames(frames)
    }

    /// A frame has given its memory back. Where the arena is exchanged with regions nothing of it may be missing.
    pub(super) fn keep_whole(&self, frame: FrameNo) {
        if let Some(regions) = &self.regions {
            regions.exchange.fill(frame);
        }
    }

    /// Pages were read from their slots, or could not be. One that was touched goes there if it is what was written, else
    /// whoever touches it gets `SIGBUS`. Those read ahead wait in their frames; if one of them is wrong they all go, and
    /// whoever touches one has it read again.
    pub(super) fn swapped_in(&self, mut read: SwapRead, result: io::Result<usize>, deferred: &mut Deferred) {
        let wrong = self.wrong(&mut read, result);
        let SwapRead {
            io,
            region,
            page,
            slot,
            reason,
            loads,
        } = read;
        let pages = page..page + loads.len() as u64;
        if let Some(why) = wrong {
            let mut core = self.core();
            for load in loads {
                self.table.locked(&mut core.turn).fail_load(load);
            }
            if reason == Reason::Fault {
                let why = format!("slot {} of the swap file can't be read: {why}", slot.0);
                self.lose(&region, page, &why, deferred);
            }
            let result = Err(IoError(libc::EIO));
            self.step(&mut core, Event::ReadDone { io, result }, deferred);
            if reason != Reason::Fault {
                pages.for_each(|page| self.settle(&region, page, At::Nowhere));
            }
            return;
        }
        // Where its first use will be seen.
        let mut to = At::Out;
        for (load, page) in loads.into_iter().zip(page..) {
            if reason == Reason::Fault {
                let (memory, frame) = (&*region.memory, self.table.loading_frame(&load));
                self.regions().exchange.move_in(&InHand { memory, page, frame });
                to = At::In;
            }
            self.table.finish_load(load);
        }
        self.step(&mut self.core(), Event::ReadDone { io, result: Ok(()) }, deferred);
        // Not before the core knows: who discards pages discards none that is loading.
        pages.for_each(|page| self.settle(&region, page, to));
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

    /// Nobody will have the page's content any more: whoever touches it gets `SIGBUS`. The page is loading or nowhere, and
    /// nobody else's.
    fn lose(&self, region: &RegionInner, page: u64, why: &str, deferred: &mut Deferred) {
        let regions = self.regions();
        let why = why.to_owned();
        deferred.warnings.push(Warning::PageLost {
            page,
            why: why.clone(),
        });
        if let Err(error) = regions.exchange.poison(&region.memory, page) {
            // Anything else it could get would be wrong data.
            self.poison(format!(
                "page {page} of a region is lost ({why}) and can't be marked: {error}"
            ));
        }
        self.settle(region, page, At::Poisoned);
    }

    /// No frame could be had for a page for as long as a call waits at most.
    pub(crate) fn give_up_fault(&self, region: &RegionInner, page: u64) {
        let mut deferred = Deferred::default();
        let core = self.core();
        if region.pages.take(page, &[At::Nowhere]).is_some() {
            let frames = core.manager.derived().frames.0;
            let why = format!(
                "no frame of {frames} became free for it: drop page guards, mend the swap file or raise the memory budget"
            );
            self.lose(region, page, &why, &mut deferred);
        }
        drop(core);
        self.finish(&mut deferred);
    }

    /// Reads pages of the region that are in their slots, in the background, as far as there is memory for them.
    pub(crate) fn region_ahead(&self, region: &RegionInner, pages: Range<u64>) -> Result<()> {
        let mut at = pages.start;
        while at < pages.end {
            self.poison.check()?;
            let mut deferred = Deferred::default();
            let count;
            {
                let mut core = self.core();
                let is_away = |page: &u64| {
                    region.pages.at(*page) == At::Nowhere
                        && core.manager.has_slot(region.id, PageIndex(*page))
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
                self.step(&mut core, event, &mut deferred);
            }
            let came = deferred.ahead;
            self.finish(&mut deferred);
            if came < count {
                break;
            }
            at += count;
        }
        Ok(())
    }
}
