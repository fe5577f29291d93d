//! Requests at the disk, and the bytes that are on their way.

use super::memory::PAGE;
use millpond_core::units::{Bytes, Instant};
use millpond_sim::disk::{HddParameters, Model, ModelCompletion, ModelParameterError, ModelRequest};

/// The purpose of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum For {
    /// A reader, which waits for it.
    Reader(u32),
    /// The daemon's writing; whether it goes to swap.
    Laundry(bool),
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) whose: For,
    pub(super) frames: Vec<u32>,
    /// Frames that the write itself needs.
    pub(super) own_frames: Vec<u32>,
    pub(super) bytes: Bytes,
}

/// The disk.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) model: Model,
    requests: Vec<Option<Request>>,
    unused: Vec<u32>,
    done: Vec<ModelCompletion>,
    in_transit: u64,
    pub(super) in_transit_max: u64,
}

impl Disk {
    pub(super) fn new(parameters: HddParameters) -> Result<Disk, ModelParameterError> {
        Ok(Disk {
            model: Model::hdd(parameters)?,
            requests: Vec::new(),
            unused: Vec::new(),
            done: Vec::new(),
            in_transit: 0,
            in_transit_max: 0,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_transit == 0
    }

    pub(super) fn in_transit(&self) -> u64 {
        self.in_transit
    }

    pub(super) fn submit(&mut self, now: Instant, write: bool, offset: u64, request: Request) {
        self.in_transit += request.bytes.0;
        self.in_transit_max = self.in_transit_max.max(self.in_transit);
        let len = request.bytes.0 as u32;
        let id = self.unused.pop().unwrap_or_else(|| {
            self.requests.push(None);
            (self.requests.len() - 1) as u32
        });
        self.requests[id as usize] = Some(request);
        self.model.submit(
            now,
            ModelRequest {
                id: id.into(),
                write,
                offset,
                len,
            },
        );
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.model.next_event()
    }

    /// Appends what has ended by `now`.
    pub(super) fn advance(&mut self, now: Instant, ended: &mut Vec<Request>) {
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(now, &mut done);
        for completion in done.drain(..) {
            if let Some(request) = self.requests[completion.id as usize].take() {
                self.unused.push(completion.id as u32);
                self.in_transit -= request.bytes.0;
                ended.push(request);
            }
        }
        self.done = done;
    }
}

/// The bytes of this many pages.
pub(super) fn bytes(pages: usize) -> Bytes {
    Bytes(pages as u64 * PAGE)
}
