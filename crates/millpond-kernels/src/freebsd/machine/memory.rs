//! Frames, the queues that they are on, and what they hold.

use super::options::MachineOptions;
use millpond_core::list::Lists;
use millpond_core::swap::{SlotNo, SwapSlots};
use millpond_core::units::{FrameNo, PageCount, PageSize};

pub(super) const INACTIVE: usize = 0;
pub(super) const ACTIVE: usize = 1;
pub(super) const CACHE: usize = 2;
pub(super) const LAUNDRY: usize = 3;
const NO_QUEUE: u8 = 255;

/// Its copy on disk is older.
pub(super) const DIRTY: u8 = 1;
/// A mapping has used it.
pub(super) const USED: u8 = 2;
/// It is being read.
pub(super) const READING: u8 = 4;
/// It is being written.
pub(super) const WRITING: u8 = 8;
/// It was met dirty.
pub(super) const LAP: u8 = 16;

pub(super) const NONE: u32 = u32::MAX;
pub(super) const PAGE: u64 = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) object: u32,
    pub(super) page: u32,
    pub(super) flags: u8,
    pub(super) count: u8,
    queue: u8,
}

impl Frame {
    pub(super) fn is_busy(&self) -> bool {
        self.flags & (READING | WRITING) != 0
    }

    pub(super) fn is_on(&self, queue: usize) -> bool {
        usize::from(self.queue) == queue
    }
}

/// The owner of pages: a file, or a process's own memory.
#[derive(Debug)]
pub(super) struct Object {
    /// Its offset on the disk; `None`: its pages go to swap.
    pub(super) place: Option<u64>,
    /// The frame of each page.
    pub(super) frames: Vec<u32>,
    /// The slot in swap of each page.
    slots: Vec<u32>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) frames: Vec<Frame>,
    pub(super) queues: Lists<4>,
    free: Vec<u32>,
    pub(super) objects: Vec<Object>,
    swap: SwapSlots,
    next_place: u64,
}

impl Memory {
    pub(super) fn new(options: &MachineOptions) -> Memory {
        let pages = options.memory.to_pages(PageSize::KIB_4).0 - options.kernel.0;
        let frame = Frame {
            object: NONE,
            page: 0,
            flags: 0,
            count: 0,
            queue: NO_QUEUE,
        };
        Memory {
            frames: vec![frame; pages as usize],
            queues: Lists::new(pages as usize),
            free: (0..pages as u32).rev().collect(),
            objects: Vec::new(),
            swap: SwapSlots::new(options.swap.to_pages(PageSize::KIB_4)),
            next_place: options.swap.0,
        }
    }

    /// Adds an owner of `pages` pages; a file follows the one before it on the disk.
    pub(super) fn add_object(&mut self, pages: u64, is_file: bool) -> u32 {
        let place = is_file.then_some(self.next_place);
        if is_file {
            self.next_place += pages * PAGE;
        }
        self.objects.push(Object {
            place,
            frames: vec![NONE; pages as usize],
            slots: if is_file {
                Vec::new()
            } else {
                vec![NONE; pages as usize]
            },
        });
        (self.objects.len() - 1) as u32
    }

    /// Free pages and those that are instantly free.
    pub(super) fn available(&self) -> PageCount {
        PageCount(self.free.len() as u64 + self.queues.len(CACHE))
    }

    pub(super) fn len(&self, queue: usize) -> PageCount {
        PageCount(self.queues.len(queue))
    }

    /// A frame for a page; the oldest of the cache queue if none is free.
    pub(super) fn take(&mut self, object: u32, page: u32, flags: u8) -> Option<u32> {
        let frame = self.take_frame()?;
        self.frames[frame as usize] = Frame {
            object,
            page,
            flags,
            count: 0,
            queue: NO_QUEUE,
        };
        self.objects[object as usize].frames[page as usize] = frame;
        Some(frame)
    }

    /// A frame for nothing in particular.
    pub(super) fn take_frame(&mut self) -> Option<u32> {
        if let Some(frame) = self.free.pop() {
            return Some(frame);
        }
        let frame = self.queues.cold(CACHE)?.0;
        self.forget(frame);
        Some(frame)
    }

    /// Takes a frame off its queue and from what it holds.
    fn forget(&mut self, frame: u32) {
        self.unqueue(frame);
        let Frame { object, page, .. } = std::mem::replace(
            &mut self.frames[frame as usize],
            Frame {
                object: NONE,
                page: 0,
                flags: 0,
                count: 0,
                queue: NO_QUEUE,
            },
        );
        if object != NONE {
            self.objects[object as usize].frames[page as usize] = NONE;
        }
    }

    pub(super) fn give_frame(&mut self, frame: u32) {
        self.forget(frame);
        self.free.push(frame);
    }

    fn unqueue(&mut self, frame: u32) {
        let queue = std::mem::replace(&mut self.frames[frame as usize].queue, NO_QUEUE);
        if queue != NO_QUEUE {
            self.queues.remove(queue.into(), FrameNo(frame));
        }
    }

    /// Puts a frame at the warm end of a queue.
    pub(super) fn enqueue(&mut self, frame: u32, queue: usize) {
        self.unqueue(frame);
        self.queues.push_warm(queue, FrameNo(frame));
        self.frames[frame as usize].queue = queue as u8;
    }

    /// Puts a frame at the cold end.
    pub(super) fn enqueue_cold(&mut self, frame: u32, queue: usize) {
        self.unqueue(frame);
        self.queues.push_cold(queue, FrameNo(frame));
        self.frames[frame as usize].queue = queue as u8;
    }

    pub(super) fn frame_of(&self, object: u32, page: u32) -> Option<u32> {
        let frame = self.objects[object as usize].frames[page as usize];
        (frame != NONE).then_some(frame)
    }

    pub(super) fn slot(&self, object: u32, page: u32) -> Option<u32> {
        let slot = *self.objects[object as usize].slots.get(page as usize)?;
        (slot != NONE).then_some(slot)
    }

    pub(super) fn drop_slot(&mut self, object: u32, page: u32) {
        if let Some(slot) = self.objects[object as usize].slots.get_mut(page as usize)
            && *slot != NONE
        {
            self.swap.give(SlotNo(std::mem::replace(slot, NONE)));
        }
    }

    /// A new slot for a page that is to be written. `None`: swap is full.
    pub(super) fn new_slot(&mut self, object: u32, page: u32) -> Option<u32> {
        self.drop_slot(object, page);
        let slot = self.swap.take()?.0;
        self.objects[object as usize].slots[page as usize] = slot;
        Some(slot)
    }

    /// Pages whose copy is older than they are.
    pub(super) fn dirty(&self) -> u64 {
        let dirty = self.frames.iter().filter(|frame| frame.flags & DIRTY != 0);
        dirty.count() as u64
    }

    /// Derives lengths anew, and looks whether every page is where its object says.
    pub(super) fn validate(&self) {
        self.queues.validate();
        for (n, frame) in self.frames.iter().enumerate().filter(|(_, f)| f.object != NONE) {
            let back = self.objects[frame.object as usize].frames[frame.page as usize];
            assert_eq!(back as usize, n, "{frame:?}");
        }
        let queued: u64 = (0..4).map(|queue| self.queues.len(queue)).sum();
        let unqueued = self.frames.iter().filter(|f| f.queue == NO_QUEUE).count() as u64;
        assert_eq!(queued + unqueued, self.frames.len() as u64);
    }
}
