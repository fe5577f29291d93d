//! Reports to `reuse` how pages leave and come back, by file and by kind.

use super::Manager;
use super::files::Files;
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

    /// A missing page was asked for that has left a shadow, at this distance. The pool has `frames`.
    pub(super) fn refaulted(
        &mut self,
        files: &mut Files,
        file: FileId,
        distance: PageCount,
        frames: PageCount,
        now: Instant,
    ) {
        let away = self.turnover.away(distance, now);
        self.of(files.kind(file)).refaulted(distance, frames, away);
        files.of(file).reuse.refaulted(distance, frames, away);
    }

    /// Pages are read.
    pub(super) fn missed(&mut self, files: &mut Files, file: FileId, pages: u64) {
        let kind = files.kind(file);
        let state = files.of(file);
        // Pages of a region come to be in memory: all that is read of it was there before.
        let len = match kind {
            PageKind::File => state.pages,
            PageKind::Anonymous => PageCount(0),
        };
        let forgotten = state.reuse.missed(pages, len);
        self.of(kind).one_missed(pages, forgotten);
    }

    /// A page was evicted.
    pub(super) fn evicted(&mut self, files: &mut Files, file: FileId, frame: FrameNo, now: Instant) {
        let age = self.turnover.evicted(frame, now);
        self.of(files.kind(file)).evicted(age);
        // The last pages of a file that was closed may outlive it.
        if let Some(state) = files.get_mut(file) {
            state.reuse.evicted(age);
        }
    }

    /// Memory has another size: `frames`, of which `known` have numbers.
    pub(super) fn resized(&mut self, files: &mut Files, frames: PageCount, known: PageCount, now: Instant) {
        self.turnover.resized(frames, known, now);
        let of_files = files.iter_mut().map(|file| &mut file.reuse);
        of_files
            .chain([&mut self.of_files, &mut self.of_regions])
            .for_each(Reuse::resized);
    }
}

impl<A: Form> Manager<A> {
    /// How pages of the file leave and come back, since it was opened; nothing if it is not open.
    pub fn reuse_of(&self, file: FileId) -> ReuseFigures {
        let state = self.files.get(file);
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
