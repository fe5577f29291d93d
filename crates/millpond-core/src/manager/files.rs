//! Files and regions by number, and what the manager keeps for each.

use super::anonymous::Slots;
use crate::page::PageKind;
use crate::readahead::ReadAhead;
use crate::reuse::Reuse;
use crate::units::{DeviceNo, FileId, FrameNo, PageCount, PageIndex};
use alloc::vec::Vec;

/// What the manager keeps for a file or region.
#[derive(Clone, Debug)]
pub(super) struct FileState {
    pub(super) pages: PageCount,
    /// Where it is; of a region its slots say it.
    pub(super) device: DeviceNo,
    pub(super) readahead: ReadAhead,
    /// The page that last got a frame, and which: the next one is placed behind it.
    pub(super) last_grant: Option<(PageIndex, FrameNo)>,
    /// How its pages leave and come back.
    pub(super) reuse: Reuse,
    /// Where its pages are in the swap file, if it is a region.
    pub(super) slots: Option<Slots>,
}

/// All files and regions.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    list: Vec<Option<FileState>>,
    regions: u32,
}

impl Files {
    pub(super) fn open(
        &mut self,
        file: FileId,
        pages: PageCount,
        device: DeviceNo,
        slots: Option<Slots>,
    ) -> &mut FileState {
        let at = file.0 as usize;
        if at >= self.list.len() {
            self.list.resize_with(at + 1, || None);
        }
        self.regions += u32::from(slots.is_some());
        self.list[at].insert(FileState {
            pages,
            device,
            readahead: ReadAhead::default(),
            last_grant: None,
            reuse: Reuse::default(),
            slots,
        })
    }

    /// Closes the file. Returns what was kept for it.
    pub(super) fn close(&mut self, file: FileId) -> FileState {
        let closed = self.list[file.0 as usize].take();
        let closed = closed.expect("the file is open");
        self.regions -= u32::from(closed.slots.is_some());
        closed
    }

    /// A file that is open.
    pub(super) fn of(&mut self, file: FileId) -> &mut FileState {
        self.list[file.0 as usize].as_mut().expect("the file is open")
    }

    pub(super) fn get(&self, file: FileId) -> Option<&FileState> {
        self.list.get(file.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut FileState> {
        self.list.get_mut(file.0 as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FileId, &FileState)> {
        let numbered = (0..).map(FileId).zip(&self.list);
        numbered.filter_map(|(file, state)| Some((file, state.as_ref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FileState> {
        self.list.iter_mut().flatten()
    }

    pub(super) fn regions(&self) -> u32 {
        self.regions
    }

    /// Whether this is the number of a region.
    #[inline]
    pub(super) fn is_region(&self, file: FileId) -> bool {
        self.regions > 0 && self.get(file).is_some_and(|state| state.slots.is_some())
    }

    pub(super) fn kind(&self, file: FileId) -> PageKind {
        match self.is_region(file) {
            true => PageKind::Anonymous,
            false => PageKind::File,
        }
    }

    /// The slots of a region.
    pub(super) fn slots(&mut self, region: FileId) -> &mut Slots {
        self.of(region).slots.as_mut().expect("it is a region")
    }
}
