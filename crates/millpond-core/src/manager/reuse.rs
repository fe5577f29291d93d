//! Reports to `reuse` how pages leave and come back, by file and by kind.

use super::Manager;
use crate::admission::Form;
use crate::page::PageKind;
use crate::reuse::{Reuse, ReuseFigures, Turnover};
use crate::units::{FileId, FrameNo, Instant, PageCount};

/// What is known of all files together.
#[derive(Clone, Debug)]
pub(super) struct State {
    turnover: Turnover,
    of_files: Reuse,
    of_regions: Reuse,
}

impl State {
    pub(super) fn new(frames: PageCount) -> State {
        State {
            turnover: Turnover::new(frames),
            of_files: Reuse::default(),
            of_regions: Reuse::default(),
        }
    }

    /// A page gets a frame.
    #[inline]
    pub(super) fn came(&mut self, frame: FrameNo, now: Instant) {
        self.turnover.came(frame, now);
    }

    fn of(&mut self, kind: PageKind) -> &mut Reuse {
        match kind {
            PageKind::File => &mut self.of_files,
            PageKind::Anonymous => &mut self.of_regions,
        }
    }

    pub(super) fn metadata_bytes(&self) -> u64 {
        self.turnover.metadata_bytes()
    }
}

impl<A: Form> Manager<A> {
    /// A missing page was asked for; `distance` if it left a shadow.
    pub(super) fn note_refault(&mut self, file: FileId, distance: Option<PageCount>, now: Instant) {
        let Some(distance) = distance else {
            return;
        };
        let (frames, kind) = (self.derived.frames, self.kind_of(file));
        let away = self.reuse.turnover.away(distance, now);
        self.reuse.of(kind).refaulted(distance, frames, away);
        self.file(file).reuse.refaulted(distance, frames, away);
    }

    /// Pages are read.
    pub(super) fn note_missed(&mut self, file: FileId, pages: u64) {
        let kind = self.kind_of(file);
        // Pages of a region come to be in memory: all that is read of it was there before.
        let len = match kind {
            PageKind::File => self.file(file).pages,
            PageKind::Anonymous => PageCount(0),
        };
        let forgotten = self.file(file).reuse.missed(pages, len);
        self.reuse.of(kind).one_missed(pages, forgotten);
    }

    /// A page was evicted.
    pub(super) fn note_evicted(&mut self, frame: FrameNo, file: FileId, now: Instant) {
        let kind = self.kind_of(file);
        let age = self.reuse.turnover.evicted(frame, now);
        self.reuse.of(kind).evicted(age);
        // The last pages of a file that was closed may outlive it.
        if let Some(Some(state)) = self.files.get_mut(file.0 as usize) {
            state.reuse.evicted(age);
        }
    }

    /// Memory has another size.
    pub(super) fn resize_reuse(&mut self, now: Instant) {
        let known = PageCount(self.states.len() as u64);
        self.reuse.turnover.resized(self.derived.frames, known, now);
        let files = self.files.iter_mut().flatten().map(|file| &mut file.reuse);
        files
            .chain([&mut self.reuse.of_files, &mut self.reuse.of_regions])
            .for_each(Reuse::resized);
    }

    fn kind_of(&self, file: FileId) -> PageKind {
        match self.is_region(file) {
            true => PageKind::Anonymous,
            false => PageKind::File,
        }
    }

    /// How pages of the file leave and come back, since it was opened; nothing if it is not open.
    pub fn reuse_of(&self, file: FileId) -> ReuseFigures {
        let state = self.files.get(file.0 as usize).and_then(Option::as_ref);
        state.map_or_else(ReuseFigures::default, |state| {
            state.reuse.figures(self.derived.frames)
        })
    }

    /// The same of all files, or of all regions, those that are gone included.
    pub fn reuse_of_kind(&self, kind: PageKind) -> ReuseFigures {
        let reuse = match kind {
            PageKind::File => &self.reuse.of_files,
            PageKind::Anonymous => &self.reuse.of_regions,
        };
        reuse.figures(self.derived.frames)
    }
}
