//! Pages that may not be written yet: they leave the index of what to write until the driver says that they may.
//!
//! ```text
//!   dirty ── the flusher meets it, it may not be written ──► held ── Released ──► dirty
//! ```
//!
//! So a page costs the flusher one look each time that it is released, however many wait beside it and for however long.
//! A request for durability goes on waiting for the held pages that it found.

use super::super::file::FileWork;
use super::Flusher;
use crate::units::{FileId, Instant, PageCount, PageIndex};

impl Flusher {
    /// The page, which was to be written, may not be before [`Flusher::released`].
    pub fn hold(&mut self, file: FileId, page: PageIndex) {
        self.remove(file, page);
        let work = self.work(file);
        work.held.insert(page);
        if let Some(pass) = &mut work.pass
            && pass.todo.remove(page)
        {
            pass.held.insert(page);
        }
        self.dirty += PageCount(1);
    }

    /// Those of the pages that are held may be written now.
    pub fn released(&mut self, now: Instant, file: FileId, pages: &[PageIndex]) {
        for &page in pages {
            let work = self.work(file);
            if !work.held.contains(page) {
                continue;
            }
            if let Some(pass) = &mut work.pass
                && pass.held.remove(page)
            {
                pass.todo.insert(page);
                pass.progress = true;
            }
            self.remove(file, page);
            self.insert(now, file, page);
        }
        self.queue_pass(file);
    }
}

impl FileWork {
    pub(super) fn validate_held(&self, file: FileId) {
        self.held.validate();
        for page in self.held.iter() {
            assert!(
                !self.dirty.contains(page) && !self.parked.contains(page),
                "{page:?} of {file:?} is held and tried"
            );
        }
        let Some(pass) = &self.pass else { return };
        pass.held.validate();
        for page in pass.held.iter() {
            assert!(
                self.held.contains(page) && !pass.todo.contains(page),
                "{page:?} of {file:?} holds up a request and is not held"
            );
        }
    }
}
