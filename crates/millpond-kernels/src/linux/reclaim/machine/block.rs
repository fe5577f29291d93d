//! The block layer of the time: a queue of 128 writes, congestion, and the disk behind it.
//!
//! ```text
//!   submitters ──► 128 requests ──► elevator: reads first, then writes upwards ──► drive (4 writes at a time)
//!        ▲ wait in turn when it is full                                               │
//!        └──────────────── woken, with a batch of 32 requests ◄───────────────────────┘
//! ```
//!
//! A thread that finds the queue full waits for its turn (`get_request_wait`), the background reclaimer as well. That is
//! what a write from the end of the list cost.

use super::options::MachineOptions;
use crate::linux::reclaim::congestion::{Change, Congestion, REQUESTS_MAX};
use millpond_core::units::{Instant, Nanos};
use millpond_sim::disk::{Model, ModelCompletion, ModelParameterError, ModelRequest};
use millpond_sim::look::DiskLook;
use std::collections::{BTreeSet, VecDeque};

/// Requests that a woken thread may put in without waiting again (`BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;
/// The queue's length beyond which even they wait: one and a half.
const OVERFULL: u32 = REQUESTS_MAX * 3 / 2;

/// A transfer of pages that lie side by side on the disk.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) is_write: bool,
    pub(super) is_swap: bool,
    offset: u64,
    pub(super) frames: Vec<u32>,
}

const PAGE: u64 = 4096;

/// A write that has waited this long goes out of its turn (`fifo_expire_async` of CFQ: a quarter of a second),
const EXPIRED: Nanos = Nanos::from_millis(250);
/// once in this many writes (`fifo_batch` of the deadline scheduler).
const EXPIRY_LOOKED_AT_EVERY: u32 = 16;

/// The queue and the disk.
#[derive(Debug)]
pub(super) struct Block {
    model: Model,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Writes that the drive has not got, by place; and by age.
    writes: BTreeSet<(u64, u32)>,
    oldest: VecDeque<(Instant, u64, u32)>,
    dispatched: u32,
    reads: VecDeque<u32>,
    writes_out: u32,
    in_drive: u32,
    /// While a thread waits for the drive, no further writes go to it: CFQ's preference for what is waited for.
    reads_in_drive: u32,
    position: u64,
    drive_writes_max: u32,
    pages_max: usize,
    congestion: Congestion,
    /// Threads that wait for a request, in their order.
    waiters: VecDeque<usize>,
    batching: [u32; 8],
    next: Instant,
    done: Vec<ModelCompletion>,
    /// The last swap write that can still grow.
    swap_tail: Option<u32>,
}

impl Block {
    pub(super) fn new(options: &MachineOptions) -> Result<Block, ModelParameterError> {
        Ok(Block {
            model: Model::hdd(options.disk)?,
            requests: Vec::new(),
            free: Vec::new(),
            writes: BTreeSet::new(),
            oldest: VecDeque::new(),
            dispatched: 0,
            reads: VecDeque::new(),
            writes_out: 0,
            in_drive: 0,
            reads_in_drive: 0,
            position: 0,
            drive_writes_max: options.drive_writes_max,
            pages_max: (options.request_max.0 / PAGE) as usize,
            congestion: Congestion::new(REQUESTS_MAX),
            waiters: VecDeque::new(),
            batching: [0; 8],
            next: Instant::NEVER,
            done: Vec::new(),
            swap_tail: None,
        })
    }

    /// Pages of one request at most.
    pub(super) fn pages_max(&self) -> u64 {
        self.pages_max as u64
    }

    pub(super) fn is_congested(&self) -> bool {
        self.congestion.is_on()
    }

    /// The time of the disk's next event.
    pub(super) fn next_event(&self) -> Instant {
        self.next
    }

    /// Whether `thread` may queue a write now. If not it waits in line, and is woken.
    pub(super) fn has_room(&mut self, thread: usize) -> bool {
        let in_line = self.waiters.iter().position(|&waiter| waiter == thread);
        let has = if self.batching[thread] > 0 {
            self.writes_out < OVERFULL
        } else {
            self.writes_out < REQUESTS_MAX && in_line.is_none_or(|place| place == 0) && {
                in_line.is_some() || self.waiters.is_empty()
            }
        };
        match (has, in_line) {
            (true, Some(place)) => {
                self.waiters.remove(place);
                self.batching[thread] = BATCH_REQUESTS;
            }
            (false, None) => self.waiters.push_back(thread),
            _ => {}
        }
        has
    }

    /// `thread` wants no request after all.
    pub(super) fn leave_line(&mut self, thread: usize) {
        self.waiters.retain(|&waiter| waiter != thread);
    }

    /// Whether a swap write at `offset` would join a waiting one.
    pub(super) fn can_merge_swap(&self, offset: u64) -> bool {
        self.swap_tail
            .and_then(|id| self.requests[id as usize].as_ref())
            .is_some_and(|r| {
                r.offset + r.frames.len() as u64 * PAGE == offset && r.frames.len() < self.pages_max
            })
    }

    /// Joins it.
    pub(super) fn merge_swap(&mut self, frame: u32) {
        if let Some(id) = self.swap_tail
            && let Some(request) = &mut self.requests[id as usize]
        {
            request.frames.push(frame);
        }
    }

    /// Puts in a transfer. For a write, [`Block::has_room`] has said yes to `thread`.
    pub(super) fn submit(
        &mut self,
        now: Instant,
        thread: usize,
        (is_write, is_swap): (bool, bool),
        offset: u64,
        frames: Vec<u32>,
    ) {
        let request = Some(Request {
            is_write,
            is_swap,
            offset,
            frames,
        });
        let id = match self.free.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                id
            }
            None => {
                self.requests.push(request);
                (self.requests.len() - 1) as u32
            }
        };
        if is_write {
            self.batching[thread] = self.batching[thread].saturating_sub(1);
            self.writes_out += 1;
            let _ = self.congestion.update(self.writes_out);
            self.writes.insert((offset, id));
            self.oldest.push_back((now, offset, id));
            if is_swap {
                self.swap_tail = Some(id);
            }
        } else {
            self.reads.push_back(id);
        }
        self.dispatch(now);
    }

    /// Upwards from the last one; but periodically the one that has waited longest, if it has waited long.
    fn next_write(&mut self, now: Instant) -> Option<(u64, u32)> {
        self.dispatched += 1;
        if self.dispatched.is_multiple_of(EXPIRY_LOOKED_AT_EVERY) {
            while let Some(&(since, offset, id)) = self.oldest.front() {
                if !self.writes.contains(&(offset, id)) {
                    self.oldest.pop_front();
                } else if now.since(since) > EXPIRED {
                    return Some((offset, id));
                } else {
                    break;
                }
            }
        }
        let upwards = self.writes.range((self.position, 0)..).next();
        upwards.or_else(|| self.writes.iter().next()).copied()
    }

    fn dispatch(&mut self, now: Instant) {
        loop {
            let id = if let Some(id) = self.reads.pop_front() {
                self.reads_in_drive += 1;
                id
            } else if self.in_drive < self.drive_writes_max && self.reads_in_drive == 0 {
                let Some(key) = self.next_write(now) else {
                    break;
                };
                self.writes.remove(&key);
                self.in_drive += 1;
                if self.swap_tail == Some(key.1) {
                    self.swap_tail = None;
                }
                key.1
            } else {
                break;
            };
            let Some(request) = &self.requests[id as usize] else {
                continue;
            };
            // what is of no page is a block of the file system's log
            let len = (request.frames.len().max(1) as u64 * PAGE) as u32;
            if request.is_write {
                self.position = request.offset + u64::from(len);
            }
            self.model.submit(
                now,
                ModelRequest {
                    id: id.into(),
                    write: request.is_write,
                    offset: request.offset,
                    len,
                },
            );
        }
        self.next = self.model.next_event().unwrap_or(Instant::NEVER);
    }

    /// Lets the disk work until `now`, and appends what it has finished. Answers whether congestion ended.
    pub(super) fn advance(&mut self, now: Instant, finished: &mut Vec<Request>) -> bool {
        let mut done = std::mem::take(&mut self.done);
        self.model.advance(now, &mut done);
        let mut ended = false;
        for completion in done.drain(..) {
            let id = completion.id as u32;
            let Some(request) = self.requests[id as usize].take() else {
                continue;
            };
            self.free.push(id);
            if request.is_write {
                self.writes_out -= 1;
                self.in_drive -= 1;
                ended |= self.congestion.update(self.writes_out) == Change::Ended;
            } else {
                self.reads_in_drive -= 1;
            }
            finished.push(request);
        }
        self.done = done;
        self.dispatch(now);
        ended
    }

    /// The disk's activity, and the requests waiting for it.
    pub(super) fn look(&self) -> DiskLook {
        DiskLook {
            queued_writes: self.writes.len() as u64,
            queued_reads: self.reads.len() as u64,
            ..self.model.look()
        }
    }

    /// The thread whose turn it is, if there is room for it.
    pub(super) fn next_waiter(&self) -> Option<usize> {
        let first = *self.waiters.front()?;
        (self.writes_out < REQUESTS_MAX).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::reclaim::System;

    fn block() -> Block {
        Block::new(&MachineOptions::new(System::Linux3_0)).unwrap_or_else(|e| panic!("{e}"))
    }

    fn write(block: &mut Block, thread: usize, n: u64) {
        block.submit(Instant(0), thread, (true, false), n * 4096, vec![n as u32]);
    }

    #[test]
    fn a_task_that_finds_the_queue_full_waits_in_line_and_then_has_a_batch() {
        let mut block = block();
        for n in 0..u64::from(REQUESTS_MAX) {
            assert!(block.has_room(0));
            write(&mut block, 0, n);
        }
        assert!(block.is_congested() && !block.has_room(0) && !block.has_room(1));
        assert_eq!(block.next_waiter(), None, "there is no room yet");
        let mut finished = Vec::new();
        while finished.is_empty() {
            block.advance(block.next_event(), &mut finished);
        }
        assert_eq!(block.next_waiter(), Some(0));
        assert!(!block.has_room(1), "it is not its turn");
        assert!(block.has_room(0));
        for n in 0..u64::from(BATCH_REQUESTS) {
            assert!(block.has_room(0), "{n} of the batch");
            write(&mut block, 0, 1000 + n);
        }
        assert!(!block.has_room(0));
    }

    #[test]
    fn swap_writes_of_neighbouring_slots_are_one_request() {
        let mut block = block();
        // keep the drive busy, so that the swap write waits
        (0..16).for_each(|n| write(&mut block, 0, 1_000_000 + n));
        block.submit(Instant(0), 0, (true, true), 4096, vec![1]);
        assert!(block.can_merge_swap(8192) && !block.can_merge_swap(12_288));
        block.merge_swap(2);
        let mut finished = Vec::new();
        while block.next_event() < Instant::NEVER {
            block.advance(block.next_event(), &mut finished);
        }
        let swapped: Vec<_> = finished
            .iter()
            .filter(|r| r.is_swap)
            .map(|r| r.frames.clone())
            .collect();
        assert_eq!(swapped, [vec![1, 2]]);
    }
}
