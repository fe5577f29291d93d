//! The simulator's frames: plain arrays of what the engine keeps in atomic words.

use millpond_core::frame::{ACCESSES_MAX, BeginWrite, FrameTable};
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};

/// The content of a frame.
#[derive(Clone, Copy, Debug)]
pub struct SimFrame {
    /// The page; [`PageKey::NONE`] if it is free.
    pub key: PageKey,
    /// How often it was used since the last scan.
    pub uses: u8,
    /// Its content is on the way from the device.
    pub loading: bool,
    /// Its content is on the way to the device.
    pub writing: bool,
    /// Changed since its last write began.
    pub dirty: bool,
    /// The number of readers that hold it.
    pub pins: u32,
    /// A process holds it to change it.
    pub exclusive: bool,
    /// The version of the page's content.
    pub version: u64,
}

const EMPTY: SimFrame = SimFrame {
    key: PageKey::NONE,
    uses: 0,
    loading: false,
    writing: false,
    dirty: false,
    pins: 0,
    exclusive: false,
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
    /// Enters a frame for a page, whose content is on its way, or is about to be made by its owner.
    ///
    /// # Panics
    /// If the page has a frame, or the frame a page: the core granted one of them twice.
    pub fn enter(&mut self, key: PageKey, frame: FrameNo, loading: bool) {
        if frame.index() >= self.frames.len() {
            self.frames.resize(frame.index() + 1, EMPTY);
        }
        let old = self.frames[frame.index()].key;
        assert!(old == PageKey::NONE, "{frame:?} of {old:?} was given to {key:?}");
        self.frames[frame.index()] = SimFrame {
            key,
            loading,
            exclusive: !loading,
            ..EMPTY
        };
        let before = self.place(key).replace(frame);
        assert_eq!(
            before, None,
            "{key:?} has a frame and was given another, {frame:?}"
        );
        self.resident += 1;
    }

    /// Enters `frames` for the pages of `file` from `first` on, as [`SimFrames::enter`] does it.
    ///
    /// # Panics
    /// As `enter`.
    pub fn enter_all(&mut self, file: FileId, first: PageIndex, frames: &[FrameNo], loading: bool) {
        for (n, &frame) in (0..).zip(frames) {
            self.enter(PageKey::new(file, first.after(n)), frame, loading);
        }
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
        let key = std::mem::replace(&mut self.frames[frame.index()], EMPTY).key;
        assert_eq!(self.place(key).take(), Some(frame), "{key:?}");
        self.resident -= 1;
    }

    /// The frame's state, to be changed.
    pub fn frame(&mut self, frame: FrameNo) -> &mut SimFrame {
        &mut self.frames[frame.index()]
    }

    /// The frame's state.
    pub fn state(&self, frame: FrameNo) -> &SimFrame {
        self.frames.get(frame.index()).unwrap_or(&EMPTY)
    }

    /// A hit.
    pub fn touch(&mut self, frame: FrameNo) {
        let uses = &mut self.frames[frame.index()].uses;
        *uses = (*uses + 1).min(ACCESSES_MAX);
    }

    /// The number of pages in memory.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// The pages of `file` that are in memory from page `first` on, in order.
    pub fn pages(&self, file: FileId, first: u64) -> impl Iterator<Item = (PageKey, FrameNo)> {
        let pages = self.table.get(file.0 as usize).map_or(&[][..], Vec::as_slice);
        let numbered = (0..).map(PageIndex).zip(pages).skip(first as usize);
        numbered.filter_map(move |(page, &frame)| Some((PageKey::new(file, page), frame?)))
    }

    /// All frames that ever held a page.
    pub fn all(&self) -> impl Iterator<Item = (FrameNo, &SimFrame)> {
        (0..).map(FrameNo).zip(&self.frames)
    }
}

impl FrameTable for SimFrames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.state(frame).key
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        let pages = self.table.get(key.file().0 as usize)?;
        *pages.get(key.index().0 as usize)?
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        self.frames
            .get_mut(frame.index())
            .map_or(0, |state| std::mem::take(&mut state.uses))
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        frames.retain(|frame| {
            let state = &self.frames[frame.index()];
            state.pins == 0 && !state.exclusive && !state.dirty && !state.loading && !state.writing
        });
        for &frame in frames.iter() {
            let state = self.frames[frame.index()];
            self.evicted.push((state.key, state.version));
            self.remove(frame);
        }
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        let state = &mut self.frames[frame.index()];
        assert!(
            !state.writing,
            "{frame:?} is being written and is to be written: {state:?}"
        );
        if state.exclusive || !state.dirty {
            return BeginWrite::Busy;
        }
        (state.dirty, state.writing) = (false, true);
        BeginWrite::Begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reclaim met one in the step that granted it, at the cold end of a pool that had just grown (swarm, seed 340).
    #[test]
    fn a_frame_that_was_never_entered_holds_no_page() {
        let mut frames = SimFrames::default();
        frames.enter(PageKey::new(FileId(1), PageIndex(0)), FrameNo(3), true);
        assert_eq!(frames.key(FrameNo(2)), PageKey::NONE);
        assert_eq!(frames.key(FrameNo(4)), PageKey::NONE);
    }
}
