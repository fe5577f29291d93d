//! Reclaim-flagged pages: dirty pages that reclaim met while clean ones were scarce.
//!
//! They are written in file order, each with the dirty neighbors that fit one write, and nothing else of their file is
//! written with them. (Dillon 2000: the cost of a page is getting there, and its neighbors are free; but a page written
//! too early may be written for nothing.) Several files take turns until none has such pages left.

use super::{Flusher, Job, Source};
use crate::io::Reason;
use crate::units::{FileId, PageCount, PageIndex};

impl Flusher {
    /// Reclaim wants this dirty page to be clean: it is next, with its neighbors. `true` if that is new.
    pub fn flag(&mut self, file: FileId, page: PageIndex) -> bool {
        let work = self.work(file);
        // Only dirty pages are flagged. Where nothing can be had the scan asks for the same ones again and again.
        if work.reclaim_flagged.contains(page) || !work.dirty.contains(page) {
            return false;
        }
        work.reclaim_flagged.insert(page);
        work.reclaim_flagged_progress |= page < work.reclaim_flagged_from;
        self.queue_reclaim_flagged(file);
        true
    }

    /// The file's turn among those with wanted pages.
    pub(super) fn queue_reclaim_flagged(&mut self, file: FileId) {
        let work = self.work(file);
        if !work.reclaim_flagged.is_empty() && !work.reclaim_flagged_queued {
            work.reclaim_flagged_queued = true;
            self.queues_of(file).reclaim_flagged.push_back(file);
        }
    }

    /// The next of them, or the first of its neighbors.
    pub(super) fn reclaim_flagged_job(&mut self, at: usize, write_max: PageCount) -> Option<Job> {
        while let Some(&file) = self.queues[at].reclaim_flagged.front() {
            let work = self.work(file);
            if let Some(page) = work.reclaim_flagged.next(work.reclaim_flagged_from) {
                // Its neighbors go with it for the price of one: those before it as well, to where a write would begin
                // (FreeBSD, `vm_pageout_cluster`), but not again what was passed over.
                let start = PageIndex(page.0 / write_max.0 * write_max.0).max(work.reclaim_flagged_from);
                let first = PageIndex(page.0 - work.dirty.contiguous_before(page, page.0 - start.0));
                return Some(Job {
                    small_fsync: false,
                    file,
                    reason: Reason::Reclaim,
                    first,
                    max: u64::MAX,
                    source: Source::ReclaimFlagged,
                });
            }
            // The end. What is left is in other hands, until a write ends or a tick comes, or was wanted meanwhile.
            (work.reclaim_flagged_from, work.reclaim_flagged_queued) = (PageIndex(0), false);
            let goes_on = core::mem::take(&mut work.reclaim_flagged_progress);
            self.queues[at].reclaim_flagged.pop_front();
            if goes_on {
                self.queue_reclaim_flagged(file);
            }
        }
        None
    }
}
