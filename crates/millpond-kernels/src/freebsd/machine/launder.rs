//! Writing a page with its neighbours, and whose frames are whose.

use super::disk::{For, Request, bytes};
use super::memory::{DIRTY, LAP, PAGE, WRITING};
use super::scheduler::Machine;
use crate::freebsd::cluster;

/// The purpose of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// A process that runs.
    Ordinary,
    /// A write on its way.
    Io,
}

/// The result for a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cleaned {
    /// It is in transit, with this many pages.
    Started(u64),
    /// Too many are on their way to swap: the daemon waits.
    MustWait,
    /// There is no frame for the write, or no slot.
    Impossible,
}

impl Machine {
    /// Rules R2 and R3: I/O takes frames to the last one, all else stops at a severe shortage. Without them all stop at
    /// the same point.
    pub(super) fn may_take(&self, purpose: Purpose) -> bool {
        let available = self.memory.available();
        match purpose {
            Purpose::Ordinary if self.options.rules.io_reserve => available > self.targets.severe,
            Purpose::Ordinary | Purpose::Io => available.0 > 0,
        }
    }

    /// Writes the page in `frame` with its neighbours on `queue`; on the inactive queue they go to the warm end.
    pub(super) fn clean(&mut self, frame: u32, queue: usize) -> Cleaned {
        let trigger = self.memory.frames[frame as usize];
        let object = &self.memory.objects[trigger.object as usize];
        let is_swap = object.place.is_none();
        if is_swap && self.daemon.swap_writes >= self.options.swap_writes_max {
            return Cleaned::MustWait;
        }
        let is_candidate = |page: u64| {
            let Some(&neighbour) = object.frames.get(page as usize) else {
                return false;
            };
            let state = self.memory.frames.get(neighbour as usize);
            state.is_some_and(|s| s.flags & DIRTY != 0 && !s.is_busy() && s.is_on(queue))
        };
        let most = self.options.rules.cluster_pages.into();
        let pages = cluster::around(trigger.page.into(), most, is_candidate);
        let Some(own_frames) = self.frames_of_a_write() else {
            return Cleaned::Impossible;
        };
        let frames: Vec<u32> = pages
            .clone()
            .map(|page| object_frame(&self.memory.objects, trigger.object, page))
            .collect();
        let offset = match self.memory.objects[trigger.object as usize].place {
            Some(place) => Some(place + pages.start * PAGE),
            None => self.slots_for(trigger.object, pages.start as u32, frames.len()),
        };
        let Some(offset) = offset else {
            own_frames
                .into_iter()
                .for_each(|frame| self.memory.give_frame(frame));
            return Cleaned::Impossible;
        };
        for &frame in &frames {
            let state = &mut self.memory.frames[frame as usize];
            state.flags = state.flags & !(DIRTY | LAP) | WRITING;
            state.count = trigger.count;
            if queue == super::memory::INACTIVE {
                self.memory.enqueue(frame, queue);
            }
        }
        let count = frames.len() as u64;
        self.counters.clusters += 1;
        self.counters.pageouts += count;
        self.noted.written(self.now, count);
        if is_swap {
            self.counters.swapped_out += count;
            self.daemon.swap_writes += 1;
        }
        let request = Request {
            whose: For::Laundry(is_swap),
            bytes: bytes(frames.len()),
            frames,
            own_frames,
        };
        self.disk.submit(self.now, true, offset, request);
        Cleaned::Started(count)
    }

    /// The frames that a write needs until it has ended; `None` if there are none.
    fn frames_of_a_write(&mut self) -> Option<Vec<u32>> {
        let mut frames = Vec::new();
        for _ in 0..self.options.frames_per_write {
            let frame = self
                .may_take(Purpose::Io)
                .then(|| self.memory.take_frame())
                .flatten();
            let Some(frame) = frame else {
                frames.into_iter().for_each(|frame| self.memory.give_frame(frame));
                return None;
            };
            frames.push(frame);
        }
        Some(frames)
    }

    /// New slots in swap, consecutive where possible; returns the first. A run that breaks is still written as one:
    /// that costs a seek less than in reality.
    fn slots_for(&mut self, object: u32, first: u32, count: usize) -> Option<u64> {
        let mut place = None;
        for page in first..first + count as u32 {
            let slot = self.memory.new_slot(object, page)?;
            place.get_or_insert(u64::from(slot) * PAGE);
        }
        place
    }
}

fn object_frame(objects: &[super::memory::Object], object: u32, page: u64) -> u32 {
    objects[object as usize].frames[page as usize]
}
