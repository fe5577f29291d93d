//! The destination of transfers: a modeled disk, or memory at a cost per page.

use super::RegionError;
use crate::disk::{Model, ModelRequest};
use crate::swap::Swap;
use millpond_core::event::Event;
use millpond_core::io::IoId;
use millpond_core::units::{DeviceNo, FileId, FrameNo, Instant, Nanos, PageCount};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// A transfer of pages that lie side by side.
pub(super) struct Transfer {
    pub(super) io: IoId,
    pub(super) is_write: bool,
    pub(super) frames: Vec<FrameNo>,
}

/// The location of transfers under way.
pub(super) struct Disk {
    /// `None`: in memory, at this cost a page.
    model: Option<Model>,
    page: Nanos,
    transfers: BTreeMap<u64, Transfer>,
    /// In memory: the end of each.
    ends: BTreeMap<(Instant, u64), ()>,
    next_id: u64,
}

/// The disk has a swap file of this many slots.
pub(super) fn swap_added(slots: PageCount) -> Event<'static> {
    Event::SwapAdded {
        slots,
        priority: 0,
        device: DeviceNo(0),
    }
}

/// It has a file of this many pages.
pub(super) fn opened(file: FileId, pages: PageCount) -> Event<'static> {
    Event::Opened {
        file,
        pages,
        device: DeviceNo(0),
    }
}

impl Disk {
    pub(super) fn new(swap: &Swap) -> Result<Disk, RegionError> {
        let (model, page) = match swap {
            Swap::Memory(page) => (None, *page),
            Swap::Disk(parameters) => (
                Some(Model::new(parameters).map_err(RegionError::Disk)?),
                Nanos::ZERO,
            ),
        };
        Ok(Disk {
            model,
            page,
            transfers: BTreeMap::new(),
            ends: BTreeMap::new(),
            next_id: 0,
        })
    }

    pub(super) fn submit(&mut self, now: Instant, place: u64, transfer: Transfer) {
        let (id, pages) = (self.next_id, transfer.frames.len() as u64);
        self.next_id += 1;
        match &mut self.model {
            None => {
                self.ends.insert((now + Nanos(self.page.0 * pages), id), ());
            }
            Some(model) => model.submit(
                now,
                ModelRequest {
                    id,
                    write: transfer.is_write,
                    offset: place * PAGE,
                    len: (pages * PAGE) as u32,
                },
            ),
        }
        self.transfers.insert(id, transfer);
    }

    pub(super) fn next(&self) -> Instant {
        match &self.model {
            None => self.ends.keys().next().map_or(Instant::NEVER, |&(at, _)| at),
            Some(model) => model.next_event().unwrap_or(Instant::NEVER),
        }
    }

    pub(super) fn advance(&mut self, now: Instant) -> Vec<Transfer> {
        let mut ids = Vec::new();
        match &mut self.model {
            None => {
                while let Some((&(at, id), ())) = self.ends.first_key_value()
                    && at <= now
                {
                    self.ends.pop_first();
                    ids.push(id);
                }
            }
            Some(model) => {
                let mut done = Vec::new();
                model.advance(now, &mut done);
                ids.extend(done.iter().map(|completion| completion.id));
            }
        }
        ids.iter().filter_map(|id| self.transfers.remove(id)).collect()
    }
}
