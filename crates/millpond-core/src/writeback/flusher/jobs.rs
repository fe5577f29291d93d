//! Which pages are next, from the five sources in order.

use super::{Flusher, Job, OrderKey, Source};
use crate::io::Reason;
use crate::units::{DeviceNo, FileId, Instant, PageCount, PageIndex};

/// Why pages are written for which no caller has asked.
fn background(blocked: bool) -> Reason {
    if blocked {
        Reason::DirtierBlocked
    } else {
        Reason::Background
    }
}

impl Flusher {
    /// What should be written next to the device. `over_background`: more is dirty than the limit allows. `blocked`: a
    /// dirtier waits. `write_max`: what one write takes, at least a page.
    pub fn job(
        &mut self,
        device: DeviceNo,
        now: Instant,
        over_background: bool,
        blocked: bool,
        write_max: PageCount,
    ) -> Option<Job> {
        let at = device.index();
        if at >= self.queues.len() {
            return None;
        }
        self.pass_job(at)
            .or_else(|| self.reclaim_flagged_job(at, write_max))
            .or_else(|| self.retry_ready_job(at, blocked))
            .or_else(|| self.order_job(at, now, over_background, blocked))
            .or_else(|| self.write_behind_job(at, blocked))
    }

    fn pass_job(&mut self, at: usize) -> Option<Job> {
        while let Some(&file) = self.queues[at].passes.front() {
            let work = self.work(file);
            if let Some(pass) = &mut work.pass {
                if let Some(first) = pass.todo.next(pass.cursor) {
                    return Some(Job {
                        small_fsync: pass.small_fsync,
                        file,
                        reason: Reason::Sync,
                        first,
                        max: u64::MAX,
                        source: Source::Pass,
                    });
                }
                // The search has come to the end. What it passed over was in other hands; look again if
                // anything has moved, else wait until a write ends or a tick comes.
                if !pass.todo.is_empty() && core::mem::take(&mut pass.progress) {
                    pass.cursor = PageIndex(0);
                    continue;
                }
            }
            work.pass_queued = false;
            self.queues[at].passes.pop_front();
        }
        None
    }

    fn retry_ready_job(&mut self, at: usize, blocked: bool) -> Option<Job> {
        while let Some(&file) = self.queues[at].retry_ready.front() {
            let work = self.work(file);
            if let Some(first) = work.retry_ready.next(work.retry_ready_from) {
                return Some(Job {
                    small_fsync: false,
                    file,
                    reason: background(blocked),
                    first,
                    max: u64::MAX,
                    source: Source::RetryReady,
                });
            }
            // What is left is in other hands. A tick comes back to it.
            (work.retry_ready_from, work.retry_ready_queued) = (PageIndex(0), false);
            self.queues[at].retry_ready.pop_front();
        }
        None
    }

    fn order_job(&mut self, at: usize, now: Instant, over_background: bool, blocked: bool) -> Option<Job> {
        let reason = background(blocked);
        // Each file is moved behind the others at most once in a search.
        for _ in 0..self.queues[at].order.len() {
            let &(order_key, file) = self.queues[at].order.first()?;
            let is_due = self.work(file).hurry || order_key.since + self.options.expire <= now;
            if !over_background && !is_due {
                return None;
            }
            if let Some(first) = self.next_in_slice(file) {
                return Some(Job {
                    small_fsync: false,
                    file,
                    reason,
                    first,
                    max: u64::MAX,
                    source: Source::Order,
                });
            }
            // Behind the others. Pages that are overdue when the slice is used up stay so (Linux: on `b_more_io`,
            // for this round); what is left because it is in other hands, or was not due yet, starts anew (Linux:
            // `redirty_tail`).
            let slice = self.slice_pages();
            let stays_due = is_due && self.work(file).slice_left == 0;
            self.work(file).hurry &= stays_due;
            let since = if stays_due {
                Instant(now.0.saturating_sub(self.options.expire.0))
            } else {
                now
            };
            self.queues[at].order.remove(&(order_key, file));
            let order_key = OrderKey {
                since,
                number: self.order_keys,
            };
            self.order_keys += 1;
            let work = self.work(file);
            (work.order_key, work.slice_left) = (order_key, slice);
            self.queues[at].order.insert((order_key, file));
        }
        None
    }

    /// The next dirty page of a file whose slice is not used up.
    fn next_in_slice(&mut self, file: FileId) -> Option<PageIndex> {
        let work = self.work(file);
        if work.slice_left == 0 {
            return None;
        }
        if let Some(first) = work.dirty.next(work.cursor) {
            return Some(first);
        }
        // The end. From the start again, unless nothing has moved since it was there last.
        core::mem::take(&mut work.progress)
            .then(|| work.dirty.next(PageIndex(0)))
            .flatten()
    }

    fn write_behind_job(&mut self, at: usize, blocked: bool) -> Option<Job> {
        while let Some(&file) = self.queues[at].write_behind.front() {
            let work = self.work(file);
            let next = work
                .dirty
                .next(work.write_behind.from)
                .filter(|&p| p < work.write_behind.until);
            if let Some(first) = next {
                let max = work.write_behind.until.0 - first.0;
                return Some(Job {
                    small_fsync: false,
                    file,
                    reason: background(blocked),
                    first,
                    max,
                    source: Source::WriteBehind,
                });
            }
            work.write_behind.from = work.write_behind.from.max(work.write_behind.until);
            work.write_behind_queued = false;
            self.queues[at].write_behind.pop_front();
        }
        None
    }
}
