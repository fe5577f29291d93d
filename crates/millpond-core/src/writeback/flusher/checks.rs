//! Invariants of the flusher, at any time and when it is idle: asserted by tests and the simulator.

use super::{Flusher, Queues};
use crate::units::{FileId, PageCount};

impl Flusher {
    /// For a flusher that no caller needs: no page is dirty, and no queue keeps a file.
    ///
    /// # Panics
    /// If something is left.
    pub fn assert_idle(&self) {
        assert_eq!(self.dirty, PageCount(0), "dirty pages");
        assert_eq!(self.failed, PageCount(0), "pages that can't be written");
        self.queues.iter().for_each(Queues::assert_empty);
        for work in self.files.iter().flatten() {
            assert!(work.is_idle(), "{work:?}");
        }
    }

    /// Re-derives the totals and the order.
    ///
    /// # Panics
    /// If one is wrong.
    pub fn validate(&self) {
        let (mut dirty, mut in_backoff, mut failed) = (0, 0, 0);
        for (at, work) in self.files.iter().enumerate() {
            let Some(work) = work else { continue };
            let file = FileId(at as u32);
            let queues = &self.queues[work.device.index()];
            work.dirty.validate();
            work.validate_failed(file);
            work.validate_log_blocked(file);
            dirty += work.dirty.len() + work.backoff.len() + work.log_blocked.len() + work.retry_ready.len();
            in_backoff += work.backoff.len();
            failed += work.backoff.len() + work.retried.len();
            assert_eq!(
                queues.order.contains(&(work.order_key, file)),
                !work.dirty.is_empty(),
                "{file:?} in the order"
            );
            assert_eq!(
                self.in_pass.contains(&file),
                work.pass.is_some(),
                "{file:?} in a pass"
            );
            assert_eq!(
                queues.passes.contains(&file),
                work.pass_queued,
                "{file:?} among the passes"
            );
            assert_eq!(
                queues.retry_ready.contains(&file),
                work.retry_ready_queued,
                "{file:?} among the retry-ready"
            );
            assert_eq!(
                queues.reclaim_flagged.contains(&file),
                work.reclaim_flagged_queued,
                "{file:?} among the reclaim-flagged"
            );
            work.reclaim_flagged.validate();
            let clean = work
                .reclaim_flagged
                .iter()
                .find(|&page| !work.dirty.contains(page));
            assert_eq!(clean, None, "{file:?}: reclaim-flagged, but not dirty");
            if let Some(pass) = &work.pass {
                pass.todo.validate();
                for io in &pass.waiting {
                    assert!(
                        work.in_transit.contains(io),
                        "{file:?} waits for {io:?}, which is not in transit"
                    );
                }
            } else {
                assert!(work.next_tickets.is_empty(), "{file:?} has requests but no pass");
            }
        }
        assert_eq!(self.dirty.0, dirty, "dirty pages in all");
        assert_eq!(self.in_backoff.0, in_backoff, "pages in backoff in all");
        assert_eq!(self.failed.0, failed, "pages that can't be written in all");
        assert_eq!(
            self.queues.iter().map(|queues| queues.order.len()).sum::<usize>(),
            self.files
                .iter()
                .flatten()
                .filter(|w| !w.dirty.is_empty())
                .count()
        );
    }
}
