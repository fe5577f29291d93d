//! The simulator's frames: what the engine keeps in atomic words, in plain arrays.

use millpond_core::frame::{FrameTable, USES_MAX};
use millpond_core::units::{FrameNo, PageKey};
use std::collections::HashMap;

/// What a frame holds.
#[derive(Clone, Copy, Debug)]
pub struct SimFrame {
    /// The page.
    pub key: PageKey,
    /// How often it was used since the scan last looked.
    pub uses: u8,
    /// Its content is on the way from the device.
    pub loading: bool,
    /// Changed since the core last heard of it being clean.
    pub dirty: bool,
    /// A user holds on to it.
    pub pins: u32,
    /// Which version of the page's content it holds: counts the writes to the page.
    pub version: u64,
}

const EMPTY: SimFrame = SimFrame {
    key: PageKey::NONE,
    uses: 0,
    loading: false,
    dirty: false,
    pins: 0,
    version: 0,
};

/// All frames of a world.
#[derive(Debug, Default)]
pub struct SimFrames {
    frames: Vec<SimFrame>,
    table: HashMap<PageKey, FrameNo>,
    /// Pages that left the table in the last step, with the version that was lost with them.
    pub evicted: Vec<(PageKey, u64)>,
}

impl SimFrames {
    /// Enters a frame for a page.
    ///
    /// # Panics
    /// If the page has a frame: the core granted it twice.
    pub fn enter(&mut self, key: PageKey, frame: FrameNo, loading: bool) {
        if frame.index() >= self.frames.len() {
            self.frames.resize(frame.index() + 1, EMPTY);
        }
        self.frames[frame.index()] = SimFrame {
            key,
            loading,
            ..EMPTY
        };
        let before = self.table.insert(key, frame);
        assert_eq!(
            before, None,
            "{key:?} has a frame and was given another, {frame:?}"
        );
    }

    /// Takes a page out of the table.
    pub fn remove(&mut self, frame: FrameNo) {
        let state = &mut self.frames[frame.index()];
        state.uses = 0;
        assert_eq!(self.table.remove(&state.key), Some(frame), "{:?}", state.key);
    }

    /// The frame's state.
    pub fn frame(&mut self, frame: FrameNo) -> &mut SimFrame {
        &mut self.frames[frame.index()]
    }

    /// A hit.
    pub fn touch(&mut self, frame: FrameNo) {
        let uses = &mut self.frames[frame.index()].uses;
        *uses = (*uses + 1).min(USES_MAX);
    }

    /// How many pages are in memory.
    pub fn resident(&self) -> u64 {
        self.table.len() as u64
    }

    /// The pages of the table, in the order of their frames.
    pub fn pages(&self) -> Vec<(PageKey, FrameNo)> {
        let mut pages: Vec<_> = self.table.iter().map(|(&key, &frame)| (key, frame)).collect();
        pages.sort_unstable_by_key(|&(_, frame)| frame);
        pages
    }
}

impl FrameTable for SimFrames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.frames[frame.index()].key
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        self.table.get(&key).copied()
    }

    fn take_uses(&mut self, frame: FrameNo) -> u8 {
        self.frames
            .get_mut(frame.index())
            .map_or(0, |state| std::mem::take(&mut state.uses))
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        frames.retain(|frame| {
            let state = &self.frames[frame.index()];
            state.pins == 0 && !state.dirty && !state.loading
        });
        for &frame in frames.iter() {
            let state = self.frames[frame.index()];
            self.evicted.push((state.key, state.version));
            self.remove(frame);
        }
    }

    fn begin_write(&mut self, frame: FrameNo) -> bool {
        let state = &mut self.frames[frame.index()];
        state.pins == 0 && std::mem::take(&mut state.dirty)
    }
}
