//! Pages of regions that come: faults served, pages read.
//!
//! ```text
//!   soft fault   Out: moved in, a use noted                         no lock but for a page that is hard to find
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
use crate::region::{At, RegionInner, Regions, swap};
use crate::sys::exchange::InHand;
use crate::table::Load;
use millpond_core::event::{Event, Intent, IoError, IoId, Reason};
use millpond_core::frame::FrameTable;
use millpond_core::swap::SlotNo;
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// A page that is being read from its slot.
pub(crate) struct SwapRead {
    pub(super) io: IoId,
    pub(super) region: Arc<RegionInner>,
    pub(super) page: u64,
    pub(super) slot: SlotNo,
    pub(super) reason: Reason,
    pub(super) load: Load,
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
        let pages = &region.pages;
        loop {
            match pages.at(page) {
                // A fault that somebody else has served meanwhile, or will when it is poisoned.
                At::In | At::Poisoned => {
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

    /// A page that we hold comes back from its frame.
    fn soft_fault(&self, region: &RegionInner, page: u64) {
        let frame = self.frame_of(region, page);
        let memory = &region.memory;
        self.regions().exchange.move_in(&InHand { memory, page, frame });
        self.table.note_use(frame);
        // Moving it in has woken whoever wanted it.
        let _ = region.pages.put(page, At::In);
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
            // Moving it in has woken whoever wanted it.
            let _ = region.pages.put(page, At::In);
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
        let file = &self.regions().swap;
        let slot = swap::page_of(read.slot);
        self.read_request((token, reason), file, slot, std::slice::from_mut(&mut read.load))
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
        let file = self.regions().swap.clone();
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

    /// The same of a page that is to be read.
    pub(super) fn hold_read(
        &self,
        io: IoId,
        reason: Reason,
        key: PageKey,
        slot: SlotNo,
        load: Load,
    ) -> SwapRead {
        let (file, page) = (key.file(), key.index().0);
        let region = self.regions().of(file);
        let region = region.unwrap_or_else(|| panic!("{file:?} is no region"));
        let taken = region.pages.take(page, &[At::Nowhere]);
        assert_eq!(taken, Some(At::Nowhere), "{key:?} is to be read");
        SwapRead {
            io,
            region,
            page,
            slot,
            reason,
            load,
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

    /// A page was read from its slot, or could not be: it goes where it was touched if it is what was written, else
    /// whoever touches it gets `SIGBUS`.
    pub(super) fn swapped_in(&self, mut read: SwapRead, result: io::Result<usize>, deferred: &mut Deferred) {
        let bytes = self.table.load_bytes(&mut read.load);
        let wrong = match result {
            Ok(len) if len != bytes.len() => Some(format!("only {len} bytes were read")),
            Ok(_) if xxh3_64(bytes) != read.region.pages.sum(read.page) => {
                Some("it is not what was written there".to_owned())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        let SwapRead {
            io,
            region,
            page,
            slot,
            reason,
            load,
        } = read;
        if let Some(why) = wrong {
            let mut core = self.core();
            self.table.locked(&mut core.turn).fail_load(load);
            self.lose(
                &region,
                page,
                &format!("slot {} of the swap file can't be read: {why}", slot.0),
                deferred,
            );
            let error = IoError(libc::EIO);
            return self.step(
                &mut core,
                Event::ReadDone {
                    io,
                    result: Err(error),
                },
                deferred,
            );
        }
        let mut to = At::In;
        if reason == Reason::Fault {
            let (memory, frame) = (&*region.memory, self.table.loading_frame(&load));
            self.regions().exchange.move_in(&InHand { memory, page, frame });
        } else {
            // Where its first use will be seen.
            to = At::Out;
        }
        self.table.finish_load(load);
        self.step(&mut self.core(), Event::ReadDone { io, result: Ok(()) }, deferred);
        // Not before the core knows: who discards pages discards none that is loading.
        self.settle(&region, page, to);
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
        if region.pages.put(page, At::Poisoned) {
            regions.exchange.wake(&region.memory, page);
        }
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
        for page in pages {
            self.poison.check()?;
            let mut deferred = Deferred::default();
            {
                let mut core = self.core();
                if region.pages.at(page) != At::Nowhere || !core.manager.has_slot(region.id, PageIndex(page))
                {
                    continue;
                }
                let event = Event::Fault {
                    file: region.id,
                    first: PageIndex(page),
                    count: 1,
                    intent: Intent::Prefetch,
                };
                self.step(&mut core, event, &mut deferred);
            }
            let is_none = deferred.ahead == 0;
            self.finish(&mut deferred);
            if is_none {
                break;
            }
        }
        Ok(())
    }
}
