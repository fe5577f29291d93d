//! Log-blocked pages: they may not be written before their log record is durable. They leave the index of pages to
//! write until the driver releases them.
//!
//! ```text
//!   dirty ── the flusher meets it, it may not be written ──► log-blocked ── Released ──► retry-ready: next
//! ```
//!
//! A page costs the flusher one visit per release, however many pages wait and for however long. A sync keeps waiting
//! for the log-blocked pages that it found. Released pages are written before anything that no caller has asked for,
//! and without their neighbors: the page's turn had come when it was met, by its file's age or because too much was
//! dirty; its neighbors' turn has not.

use super::super::file::FileWork;
use super::Flusher;
use crate::units::{FileId, PageCount, PageIndex};
use crate::writeback::SyncTicket;

impl Flusher {
    /// The page, which was to be written, may not be before [`Flusher::released`].
    pub fn block_on_log(&mut self, file: FileId, page: PageIndex) {
        self.remove(file, page);
        let work = self.work(file);
        work.log_blocked.insert(page);
        if let Some(pass) = &mut work.pass
            && pass.todo.remove(page)
        {
            pass.log_blocked.insert(page);
        }
        self.dirty += PageCount(1);
    }

    /// Those of the log-blocked pages may be written now.
    pub fn released(&mut self, file: FileId, pages: &[PageIndex]) {
        let work = self.work(file);
        for &page in pages {
            if !work.log_blocked.remove(page) {
                continue;
            }
            work.retry_ready.insert(page);
            if let Some(pass) = &mut work.pass
                && pass.log_blocked.remove(page)
            {
                pass.todo.insert(page);
                (pass.progress, pass.log_blocked_told) = (true, false);
            }
        }
        self.queue_retry_ready(file);
        self.queue_pass(file);
    }

    /// The callers that wait for a pass of which only log-blocked pages are left; reported once each time that this
    /// happens.
    pub fn newly_log_blocked(&mut self, file: FileId) -> &[SyncTicket] {
        let Some(pass) = &mut self.work(file).pass else {
            return &[];
        };
        let is_log_blocked = pass.todo.is_empty() && pass.waiting.is_empty() && !pass.log_blocked.is_empty();
        let is_news = is_log_blocked && !core::mem::replace(&mut pass.log_blocked_told, is_log_blocked);
        if is_news { &pass.tickets } else { &[] }
    }

    pub(super) fn queue_retry_ready(&mut self, file: FileId) {
        let work = self.work(file);
        if !work.retry_ready.is_empty() && !work.retry_ready_queued {
            work.retry_ready_queued = true;
            self.queues_of(file).retry_ready.push_back(file);
        }
    }
}

impl FileWork {
    /// Whether none of its pages waits to be written, for any reason.
    pub(super) fn is_clean(&self) -> bool {
        let sets = [&self.dirty, &self.log_blocked, &self.retry_ready];
        sets.iter().all(|pages| pages.is_empty()) && !self.has_trouble()
    }

    pub(super) fn validate_log_blocked(&self, file: FileId) {
        self.log_blocked.validate();
        self.retry_ready.validate();
        let others = [&self.dirty, &self.backoff, &self.retry_ready];
        for page in self.log_blocked.iter() {
            let is_alone = others.iter().all(|pages| !pages.contains(page));
            assert!(is_alone, "{page:?} of {file:?} is held and tried");
        }
        for page in self.retry_ready.iter() {
            let is_alone = !self.dirty.contains(page) && !self.backoff.contains(page);
            assert!(is_alone, "{page:?} of {file:?} is tried twice");
        }
        let Some(pass) = &self.pass else { return };
        pass.log_blocked.validate();
        for page in pass.log_blocked.iter() {
            assert!(
                self.log_blocked.contains(page) && !pass.todo.contains(page),
                "{page:?} of {file:?} holds up a request and is not held"
            );
        }
    }
}
