//! The simulator's frames: what the engine keeps in atomic words, in plain arrays.

use millpond_core::frame::{FrameTable, USES_MAX};
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};

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
    /// For each file, the frame of each page up to the last that ever had one.
    table: Vec<Vec<Option<FrameNo>>>,
    resident: u64,
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
        let before = self.place(key).replace(frame);
        assert_eq!(
            before, None,
            "{key:?} has a frame and was given another, {frame:?}"
        );
        self.resident += 1;
    }

    fn place(&mut self, key: PageKey) -> &mut Option<FrameNo> {
        let (file, page) = (key.file().0 as usize, key.index().0 as usize);
        if file >= self.table.len() {
            self.table.resize_with(file + 1, Vec::new);
        }
        let pages = &mut self.table[file];
        if page >= pages.len() {
            pages.resize(page + 1, None);
        }
        &mut pages[page]
    }

    /// Takes a page out of the table.
    pub fn remove(&mut self, frame: FrameNo) {
        let state = &mut self.frames[frame.index()];
        state.uses = 0;
        let key = state.key;
        assert_eq!(self.place(key).take(), Some(frame), "{key:?}");
        self.resident -= 1;
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
        self.resident
    }

    /// The pages of `file` that are in memory from page `first` on, in order.
    pub fn pages(&self, file: FileId, first: u64) -> impl Iterator<Item = (PageKey, FrameNo)> {
        let pages = self.table.get(file.0 as usize).map_or(&[][..], Vec::as_slice);
        let numbered = (0..).map(PageIndex).zip(pages).skip(first as usize);
        numbered.filter_map(move |(page, &frame)| Some((PageKey::new(file, page), frame?)))
    }
}

impl FrameTable for SimFrames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.frames[frame.index()].key
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        let pages = self.table.get(key.file().0 as usize)?;
        *pages.get(key.index().0 as usize)?
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
