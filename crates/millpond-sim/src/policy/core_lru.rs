//! The core's [`Lru`] with frames that hold only names: Millpond's rule, and Linux's.
//!
//! All pages belong to one file. Hits leave a use count that the scan collects, as in the engine.

use super::Policy;
use millpond_core::frame::{ACCESSES_MAX, BeginWrite, FrameTable};
use millpond_core::lru::{LinuxOptions, Lru, MillpondOptions, Replacement};
use millpond_core::units::{FileId, FrameNo, PageCount, PageIndex, PageKey};

/// No frame.
const NONE: u32 = u32::MAX;

pub(super) struct CoreLru {
    lru: Lru,
    frames: Frames,
    free: Vec<FrameNo>,
    victims: Vec<FrameNo>,
}

struct Frames {
    keys: Vec<PageKey>,
    uses: Vec<u8>,
    /// The frame of each page.
    table: Vec<u32>,
}

fn key(page: u32) -> PageKey {
    PageKey::new(FileId(0), PageIndex(page.into()))
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.keys[frame.index()]
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        let frame = self.table.get(key.index().0 as usize).copied();
        frame.filter(|&frame| frame != NONE).map(FrameNo)
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        std::mem::take(&mut self.uses[frame.index()])
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        for frame in frames {
            let key = std::mem::replace(&mut self.keys[frame.index()], PageKey::NONE);
            self.table[key.index().0 as usize] = NONE;
        }
    }

    fn begin_write(&mut self, _: FrameNo) -> BeginWrite {
        // Nothing is dirty here.
        BeginWrite::Busy
    }
}

impl CoreLru {
    pub(super) fn millpond(pages: u32, frames: u32) -> CoreLru {
        CoreLru::new(Replacement::Millpond(MillpondOptions::default()), pages, frames)
    }

    pub(super) fn linux(pages: u32, frames: u32) -> CoreLru {
        CoreLru::new(Replacement::Linux(LinuxOptions::default()), pages, frames)
    }

    fn new(replacement: Replacement, pages: u32, frames: u32) -> CoreLru {
        CoreLru {
            lru: Lru::new(replacement, PageCount(frames.into())),
            frames: Frames {
                keys: vec![PageKey::NONE; frames as usize],
                uses: vec![0; frames as usize],
                table: vec![NONE; pages as usize],
            },
            free: (0..frames).rev().map(FrameNo).collect(),
            victims: Vec::with_capacity(1),
        }
    }

    fn free_frame(&mut self) -> FrameNo {
        loop {
            if let Some(frame) = self.free.pop() {
                return frame;
            }
            let scanned = self.lru.isolate(0, 1, &mut self.frames, &mut self.victims);
            assert!(
                scanned.scanned + scanned.refilled > 0,
                "full memory has something to look at"
            );
            for &frame in &self.victims {
                self.lru.evicted(frame, self.frames.key(frame));
            }
            self.frames.evict(&mut self.victims);
            self.free.append(&mut self.victims);
        }
    }
}

impl Policy for CoreLru {
    fn access(&mut self, page: u32) -> bool {
        let key = key(page);
        if let Some(frame) = self.frames.lookup(key) {
            let uses = &mut self.frames.uses[frame.index()];
            *uses = (*uses + 1).min(ACCESSES_MAX);
            return true;
        }
        let refault = self.lru.refault(key);
        let frame = self.free_frame();
        self.frames.keys[frame.index()] = key;
        self.frames.uses[frame.index()] = 0;
        self.frames.table[page as usize] = frame.0;
        self.lru.insert(frame, key, refault, true, &mut self.frames);
        false
    }
}
