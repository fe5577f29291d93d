//! The location of the region's pages, as in the engine's `memory/pages.rs`, and the frames that the core asks about.
//!
//! A use or change of a mapped page is not seen. When the core asks for its uses, the page is unmapped after the step;
//! its next touch is a soft fault, which counts. When the page is to be evicted, it is compared with its slot.

use millpond_core::frame::{ACCESSES_MAX, BeginWrite, FrameTable};
use millpond_core::readahead::fault_around::{FaultAround, TOGETHER};
use millpond_core::units::{FileId, FrameNo, PageIndex, PageKey};

/// The number of the region; that of the file is one more.
pub(super) const REGION: FileId = FileId(0);

/// The location of a page of the region, or of the file: in memory or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Absent,
    Loading,
    Mapped,
    Cached,
    Writing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) at: At,
    pub(super) frame: FrameNo,
    /// It is not what its slot holds.
    pub(super) differs: bool,
    /// It was read ahead, and not touched since.
    pub(super) ahead: bool,
    pub(super) uses: u8,
}

/// Pages of the region, then those of the file.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) pages: Vec<Page>,
    /// How many are the region's.
    pub(super) of_region: usize,
    keys: Vec<PageKey>,
    around: FaultAround,
    /// Pages whose uses were asked for.
    sampled: Vec<u32>,
    /// Frames that were offered as clean and are not.
    pub(super) changed: Vec<FrameNo>,
    /// Pages that were read ahead and left without being touched.
    pub(super) wasted: u64,
}

impl Frames {
    pub(super) fn new(frames: usize, of_region: usize, of_file: usize) -> Frames {
        let page = Page {
            at: At::Absent,
            frame: FrameNo(0),
            differs: false,
            ahead: false,
            uses: 0,
        };
        Frames {
            pages: vec![page; of_region + of_file],
            of_region,
            keys: vec![PageKey::NONE; frames],
            around: FaultAround::default(),
            sampled: Vec::new(),
            changed: Vec::new(),
            wasted: 0,
        }
    }

    pub(super) fn number(&self, key: PageKey) -> usize {
        let page = key.index().0 as usize;
        match key.file() {
            REGION => page,
            _ => self.of_region + page,
        }
    }

    pub(super) fn number_of(&self, frame: FrameNo) -> usize {
        self.number(self.keys[frame.index()])
    }

    pub(super) fn key_of(&self, number: usize) -> PageKey {
        match number < self.of_region {
            true => PageKey::new(REGION, PageIndex(number as u64)),
            false => PageKey::new(FileId(1), PageIndex((number - self.of_region) as u64)),
        }
    }

    pub(super) fn enter(&mut self, key: PageKey, frame: FrameNo, at: At) {
        let number = self.number(key);
        self.keys[frame.index()] = key;
        let page = &mut self.pages[number];
        assert_eq!(page.at, At::Absent, "page {number}");
        (page.at, page.frame, page.uses) = (at, frame, 0);
    }

    /// A page comes back from its frame, and those behind it that the same task will come to, but marks.
    pub(super) fn move_in(&mut self, number: usize, is_mark: impl Fn(usize) -> bool) {
        let was_read_ahead = self.pages[number].ahead;
        self.come_back(number);
        let mut count = self.around.touched(PageIndex(number as u64)) as usize;
        if was_read_ahead {
            count = count.max(TOGETHER as usize);
        }
        for number in number + 1..self.of_region.min(number + count) {
            if self.pages[number].at == At::Cached && !is_mark(number) {
                self.come_back(number);
            }
        }
    }

    /// The first use of a page that was read ahead is what it was read for, and not noted.
    fn come_back(&mut self, number: usize) {
        let page = &mut self.pages[number];
        page.at = At::Mapped;
        if !std::mem::take(&mut page.ahead) {
            self.note_use(number);
        }
    }

    /// A hit, or a soft fault.
    pub(super) fn note_use(&mut self, number: usize) {
        let uses = &mut self.pages[number].uses;
        *uses = (*uses + 1).min(ACCESSES_MAX);
    }

    /// Moves out what was sampled.
    pub(super) fn sample(&mut self) {
        for number in self.sampled.drain(..) {
            let page = &mut self.pages[number as usize];
            if page.at == At::Mapped {
                page.at = At::Cached;
            }
        }
    }

    fn page(&mut self, frame: FrameNo) -> &mut Page {
        let number = self.number_of(frame);
        &mut self.pages[number]
    }
}

impl FrameTable for Frames {
    fn key(&self, frame: FrameNo) -> PageKey {
        self.keys[frame.index()]
    }

    fn lookup(&self, key: PageKey) -> Option<FrameNo> {
        if key.file() == REGION && key.index().0 >= self.of_region as u64 {
            return None;
        }
        let page = &self.pages[self.number(key)];
        (page.at != At::Absent).then_some(page.frame)
    }

    fn test_and_clear_accessed(&mut self, frame: FrameNo) -> u8 {
        if self.keys[frame.index()] == PageKey::NONE {
            return 0;
        }
        let number = self.number_of(frame);
        if self.pages[number].at == At::Mapped && number < self.of_region {
            self.sampled.push(number as u32);
        }
        std::mem::take(&mut self.pages[number].uses)
    }

    fn tracks_accesses(&self, frame: FrameNo) -> bool {
        let number = self.number_of(frame);
        number >= self.of_region || self.pages[number].at != At::Mapped
    }

    fn evict(&mut self, frames: &mut Vec<FrameNo>) {
        let mut changed = std::mem::take(&mut self.changed);
        frames.retain(|&frame| {
            let page = self.page(frame);
            if !matches!(page.at, At::Mapped | At::Cached) || page.uses > 0 {
                return false;
            }
            if page.differs {
                page.at = At::Cached;
                changed.push(frame);
                return false;
            }
            self.wasted += u64::from(std::mem::take(&mut self.page(frame).ahead));
            self.page(frame).at = At::Absent;
            self.keys[frame.index()] = PageKey::NONE;
            true
        });
        self.changed = changed;
    }

    fn begin_write(&mut self, frame: FrameNo) -> BeginWrite {
        let page = self.page(frame);
        if !matches!(page.at, At::Mapped | At::Cached) || page.uses > 0 {
            return BeginWrite::Busy;
        }
        (page.at, page.differs) = (At::Writing, false);
        BeginWrite::Begun
    }
}
