//! Memory for transfers, set aside when a cache is opened, so that cleaning memory never waits for memory.
//!
//! ```text
//!   the core's lists of frames ─► ranges of memory ─► Batch of requests ─► the device's queue and ring
//!        (core `io.rs`)            `sys/segment.rs`     given back when     (`device/uring.rs`: slots,
//!                                  back when the        it was handed in     made with the ring)
//!                                  request is dropped
//! ```
//!
//! Dillon 2000: I/O has the memory that it needs, and nothing else can take it. This memory is never freed, so writing a
//! page is not delayed when others use up the machine's memory. If more is needed at once, the system allocates it as usual;
//! the figures are far above what a device has in its queue.

use super::unmap::HeldPage;
use crate::device::Request;
use crate::files::FileInner;
use crate::sys::segment::Ranges;
use millpond_core::units::{FrameNo, PageKey};
use parking_lot::Mutex;
use std::sync::Arc;

/// The number of threads that hand in requests at the same time: usually more than the machine has processors.
const BATCHES: usize = 8;
/// The number of requests of one thread: usually more than a step of the core makes.
const REQUESTS: usize = 32;
/// The number of unfinished transfers for which tables have room from the start: more than any queue has.
pub(super) const TRANSFERS: usize = 1024;
/// The number of concurrent requests with more than one range of memory.
const LISTS: usize = 32;
/// The number of ranges of one request: a write of 1 MiB with no two adjacent pages.
const RANGES: usize = 256;

/// The number of pages of regions that a step samples or writes: usually a batch of reclaim.
pub(super) const MARKED: usize = 1024;

/// Pages of regions that a step leaves for after the unlock.
#[derive(Default)]
pub(super) struct Marked {
    pub(super) sampled: Vec<PageKey>,
    pub(super) written: Vec<(PageKey, FrameNo)>,
    /// Room for the pages of `sampled` that are in hand.
    pub(super) held: Vec<HeldPage>,
}

impl Marked {
    fn with_room() -> Marked {
        Marked {
            sampled: Vec::with_capacity(MARKED),
            written: Vec::with_capacity(MARKED),
            held: Vec::with_capacity(MARKED),
        }
    }
}

/// The requests of one step, and their files.
pub(super) struct Batch {
    pub(super) requests: Vec<Request>,
    pub(super) files: Vec<Arc<FileInner>>,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            requests: Vec::with_capacity(REQUESTS),
            files: Vec::with_capacity(REQUESTS),
        }
    }

    pub(super) fn push(&mut self, file: Arc<FileInner>, request: Request) {
        self.files.push(file);
        self.requests.push(request);
    }
}

/// The memory that is set aside.
pub(super) struct Mempool {
    batches: Mutex<Vec<Batch>>,
    marked: Mutex<Vec<Marked>>,
    pub(super) ranges: Arc<Ranges>,
}

impl Mempool {
    pub(super) fn new() -> Mempool {
        Mempool {
            batches: Mutex::new((0..BATCHES).map(|_| Batch::new()).collect()),
            marked: Mutex::new(Vec::with_capacity(BATCHES)),
            ranges: Ranges::new(LISTS, RANGES),
        }
    }

    /// Gives `marked` lists for pages of regions, unless it has them.
    pub(super) fn lend(&self, marked: &mut Marked) {
        if marked.sampled.capacity() == 0 {
            *marked = self.marked.lock().pop().unwrap_or_else(Marked::with_room);
        }
    }

    /// Takes the lists back after their work is done.
    pub(super) fn take_back(&self, marked: &mut Marked) {
        if marked.sampled.capacity() > 0 {
            let lists = std::mem::take(marked);
            let mut all = self.marked.lock();
            if all.len() < BATCHES {
                all.push(lists);
            }
        }
    }

    pub(super) fn batch(&self) -> Batch {
        self.batches.lock().pop().unwrap_or_else(Batch::new)
    }

    /// Takes a batch back after it was handed in.
    pub(super) fn give_back(&self, mut batch: Batch) {
        batch.requests.clear();
        batch.files.clear();
        let mut batches = self.batches.lock();
        if batches.len() < BATCHES {
            batches.push(batch);
        }
    }
}
