//! What transfers are made of, set aside when a cache is opened, so that cleaning memory never waits for memory.
//!
//! ```text
//!   the core's lists of frames ─► ranges of memory ─► Batch of requests ─► the device's queue and ring
//!        (core `io.rs`)            `sys/segment.rs`     given back when     (`device/uring.rs`: slots,
//!                                  back when the        it was handed in     made with the ring)
//!                                  request is dropped
//! ```
//!
//! Dillon 2000: I/O has the memory that it needs, and nothing else can take it. What is here is never freed, so a page
//! that has to be written is not held up when others use up the machine's memory. More than was set aside, at a
//! time, is allocated from the system as usual; the figures are far above what a device has in its queue.

use crate::device::Request;
use crate::files::FileInner;
use crate::sys::segment::Ranges;
use millpond_core::units::{FrameNo, PageKey};
use parking_lot::Mutex;
use std::sync::Arc;

/// Threads that hand requests in at the same time: more than a machine has processors, most often.
const BATCHES: usize = 8;
/// Requests of one: more than a step of the core comes to, as a rule.
const REQUESTS: usize = 32;
/// Transfers between their start and their end for which tables have room from the start: more than any queue.
pub(super) const TRANSFERS: usize = 1024;
/// Requests of more than one range of memory, at a time.
const LISTS: usize = 32;
/// Ranges of one: a write of 1 MiB with no two pages side by side.
const RANGES: usize = 256;

/// Pages of regions that a step samples or writes: a batch of reclaim, as a rule.
pub(super) const MARKED: usize = 1024;

/// Pages of regions that a step leaves for after the core lock.
#[derive(Default)]
pub(super) struct Marked {
    pub(super) sampled: Vec<PageKey>,
    pub(super) written: Vec<(PageKey, FrameNo)>,
    /// Room for those of `sampled` that are moved.
    pub(super) held: Vec<(u64, FrameNo)>,
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

/// Requests of one step, and their files.
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

/// What is set aside.
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

    /// Lists for pages of regions, unless it has them.
    pub(super) fn lend(&self, marked: &mut Marked) {
        if marked.sampled.capacity() == 0 {
            *marked = self.marked.lock().pop().unwrap_or_else(Marked::with_room);
        }
    }

    /// Takes them back, when what was in them is done.
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

    /// Takes a batch back that was handed in.
    pub(super) fn give_back(&self, mut batch: Batch) {
        batch.requests.clear();
        batch.files.clear();
        let mut batches = self.batches.lock();
        if batches.len() < BATCHES {
            batches.push(batch);
        }
    }
}
