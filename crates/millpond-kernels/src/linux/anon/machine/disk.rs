//! A modelled disk with pages on their way.

use millpond_core::units::Instant;
use millpond_sim::disk::{Model, ModelCompletion, ModelParameterError, ModelParameters, ModelRequest};

const PAGE: u64 = 4096;

/// A transfer of pages that lie side by side.
#[derive(Debug, Default)]
pub(super) struct Transfer {
    pub(super) is_write: bool,
    pub(super) frames: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Disk {
    model: Model,
    transfers: Vec<Transfer>,
    free: Vec<u32>,
    next: Instant,
    writes: u32,
    done: Vec<ModelCompletion>,
}

impl Disk {
    pub(super) fn new(parameters: &ModelParameters) -> Result<Disk, ModelParameterError> {
        Ok(Disk {
            model: Model::new(parameters)?,
            transfers: Vec::new(),
            free: Vec::new(),
            next: Instant::NEVER,
            writes: 0,
            done: Vec::new(),
        })
    }

    /// The time of its next event.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Writes that it has not ended.
    pub(super) fn writes(&self) -> u32 {
        self.writes
    }

    /// Pages go to or come from `place`, a page number of the disk.
    pub(super) fn submit(&mut self, now: Instant, is_write: bool, place: u64, frames: &[u32]) {
        let id = self.free.pop().unwrap_or(self.transfers.len() as u32);
        if id as usize == self.transfers.len() {
            self.transfers.push(Transfer::default());
        }
        let transfer = &mut self.transfers[id as usize];
        transfer.is_write = is_write;
        transfer.frames.extend_from_slice(frames);
        self.writes += u32::from(is_write);
        let request = ModelRequest {
            id: id.into(),
            write: is_write,
            offset: place * PAGE,
            len: (frames.len() as u64 * PAGE) as u32,
        };
        self.model.submit(now, request);
        self.next = self.model.next_event().unwrap_or(Instant::NEVER);
    }

    /// Takes what is finished by `now`.
    pub(super) fn advance(&mut self, now: Instant, finished: &mut Vec<Transfer>) {
        self.model.advance(now, &mut self.done);
        for completion in self.done.drain(..) {
            let transfer = std::mem::take(&mut self.transfers[completion.id as usize]);
            self.writes -= u32::from(transfer.is_write);
            finished.push(transfer);
            self.free.push(completion.id as u32);
        }
        self.next = self.model.next_event().unwrap_or(Instant::NEVER);
    }
}
