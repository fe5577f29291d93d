//! The flusher: which file is next, and which of its pages.
//!
//! ```text
//!   1  passes            syncs: a caller waits for a file to be durable
//!   2  reclaim-flagged   reclaim is short of clean pages: those that it met, with their neighbors (Gorman 2011, patch 5)
//!   3  retry-ready       pages that were to be written before, and are allowed to be by now
//!   4  order             by the time of the first dirtied page, when more is dirty than the background limit
//!                        allows, or when that time is `expire` ago; a slice at a time
//!   5  write-behind      runs that a sequential writer has filled (Dillon 2000)
//! ```
//!
//! The flusher answers which write would be next ([`Flusher::job`]). The admission decides whether a write may be
//! issued now, and the manager finds out which of the pages can be written.

mod checks;
mod failed;
mod jobs;
mod log_blocked;
mod queues;
mod reclaim_flagged;

use super::file::{FileWork, OrderKey, SyncPass};
use super::{FlusherOptions, SMALL_FSYNC_MAX};
use crate::io::{IoError, IoId, Reason};
use crate::mutation::{self, Mutation};
use crate::units::{DeviceNo, FileId, Instant, PageCount, PageIndex, PageSize};
use crate::writeback::{PageRun, SyncTicket};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use queues::Queues;

/// Pages that should be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The file.
    pub file: FileId,
    /// Why.
    pub reason: Reason,
    /// The first page, which is dirty.
    pub first: PageIndex,
    /// The most pages to write from `first` on.
    pub max: u64,
    /// For a sync of few pages, as of a log: a caller waits for just these.
    pub small_fsync: bool,
    source: Source,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Pass,
    ReclaimFlagged,
    RetryReady,
    Order,
    WriteBehind,
}

/// A request for durability that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Which.
    pub ticket: SyncTicket,
    /// How.
    pub result: Result<(), IoError>,
    /// Its pass had few pages.
    pub small_fsync: bool,
}

/// The dirty pages of all files.
#[derive(Clone, Debug)]
pub struct Flusher {
    options: FlusherOptions,
    page_size: PageSize,
    files: Vec<Option<FileWork>>,
    /// The files that have a sync pass: few of those that are open.
    in_pass: BTreeSet<FileId>,
    /// By [`DeviceNo`].
    queues: Vec<Queues>,
    /// Counts the [`OrderKey`]s given out.
    order_keys: u64,
    /// Pages that are dirty; those of them that are left alone for a while; those that the device has refused, be they
    /// dirty or being written again.
    dirty: PageCount,
    in_backoff: PageCount,
    failed: PageCount,
}

impl Flusher {
    /// No files.
    pub fn new(options: FlusherOptions, page_size: PageSize) -> Flusher {
        Flusher {
            options,
            page_size,
            files: Vec::new(),
            in_pass: BTreeSet::new(),
            queues: Vec::new(),
            order_keys: 0,
            dirty: PageCount(0),
            in_backoff: PageCount(0),
            failed: PageCount(0),
        }
    }

    /// Takes other settings.
    pub fn retune(&mut self, options: FlusherOptions) {
        self.options = options;
    }

    /// Pages that are dirty.
    pub fn dirty(&self) -> PageCount {
        self.dirty
    }

    /// The number of the file's pages that are dirty or in transit: at most this many are not on the device.
    pub fn unwritten(&self, file: FileId) -> PageCount {
        let work = self.files.get(file.0 as usize).and_then(Option::as_ref);
        work.map_or(PageCount(0), FileWork::unwritten)
    }

    /// A file is there from now on, on this device.
    pub fn open(&mut self, file: FileId, device: DeviceNo) {
        let at = file.0 as usize;
        if at >= self.files.len() {
            self.files.resize_with(at + 1, || None);
        }
        assert!(self.files[at].is_none(), "{file:?} is open already");
        if device.index() >= self.queues.len() {
            self.queues.resize_with(device.index() + 1, Queues::default);
        }
        self.files[at] = Some(FileWork::new(device));
    }

    /// A file is dropped.
    ///
    /// # Panics
    /// If it has dirty pages or transfers in transit.
    pub fn close(&mut self, file: FileId) {
        let work = self.files[file.0 as usize]
            .take()
            .expect("closes a file that is open");
        assert!(
            work.is_clean() && work.in_transit.is_empty(),
            "{file:?} is closed with {work:?}"
        );
        self.queues[work.device.index()].close(file);
    }

    fn work(&mut self, file: FileId) -> &mut FileWork {
        self.files[file.0 as usize].as_mut().expect("the file is open")
    }

    /// Those of the file's device.
    fn queues_of(&mut self, file: FileId) -> &mut Queues {
        let device = self.work(file).device;
        &mut self.queues[device.index()]
    }

    fn insert(&mut self, now: Instant, file: FileId, page: PageIndex) {
        let (slice, order_key) = (
            self.slice_pages(),
            OrderKey {
                since: now,
                number: self.order_keys,
            },
        );
        let work = self.work(file);
        let first = work.dirty.is_empty();
        // Elsewhere: its write failed, or was not to be, before the word came that it had changed meanwhile.
        let elsewhere = [&work.backoff, &work.log_blocked, &work.retry_ready];
        if elsewhere.iter().any(|pages| pages.contains(page)) || !work.dirty.insert(page) {
            return;
        }
        work.progress = true;
        if first {
            (work.order_key, work.slice_left, work.cursor) = (order_key, slice, PageIndex(0));
            self.queues_of(file).order.insert((order_key, file));
            self.order_keys += 1;
        }
        self.dirty += PageCount(1);
    }

    fn remove(&mut self, file: FileId, page: PageIndex) {
        let work = self.work(file);
        if work.backoff.remove(page) {
            work.retried.insert(page);
            self.in_backoff -= PageCount(1);
        } else if work.dirty.remove(page) {
            work.reclaim_flagged.remove(page);
            if work.dirty.is_empty() {
                let key = (work.order_key, file);
                self.queues_of(file).order.remove(&key);
                self.work(file).hurry = false;
            }
        } else if !work.log_blocked.remove(page) && !work.retry_ready.remove(page) {
            return;
        }
        self.dirty -= PageCount(1);
    }

    fn slice_pages(&self) -> u64 {
        self.options.slice.to_pages(self.page_size).0.max(1)
    }

    /// `count` pages from `first` on became dirty. `write_max`: what one write to their device takes, at least a page.
    pub fn dirtied(
        &mut self,
        now: Instant,
        file: FileId,
        first: PageIndex,
        count: u64,
        write_max: PageCount,
    ) {
        for n in 0..count {
            self.insert(now, file, first.after(n));
        }
        if self.options.write_behind {
            let work = self.work(file);
            if work.note_sequential(first, count, write_max.0) && !work.write_behind_queued {
                work.write_behind_queued = true;
                self.queues_of(file).write_behind.push_back(file);
            }
        }
    }

    /// Dropped pages are not dirty either.
    pub fn discarded(&mut self, file: FileId, page: PageIndex) {
        self.remove(file, page);
        if let Some(pass) = &mut self.work(file).pass {
            pass.todo.remove(page);
            pass.log_blocked.remove(page);
        }
        self.no_more_failed(file, page);
    }

    /// A caller wants all that is dirty in the file now to be durable. Call [`Flusher::ended`] afterwards: it
    /// may be so already.
    pub fn sync(&mut self, file: FileId, ticket: SyncTicket) {
        self.work(file).next_tickets.push(ticket);
        self.queue_pass(file);
    }

    /// No caller waits for this now. Call [`Flusher::ended`] afterwards: others may have waited for its pass.
    pub fn sync_given_up(&mut self, file: FileId, ticket: SyncTicket) {
        let work = self.work(file);
        work.next_tickets.retain(|&other| other != ticket);
        if let Some(pass) = &mut work.pass {
            pass.tickets.retain(|&other| other != ticket);
            if pass.tickets.is_empty() {
                work.pass = None;
            }
        }
        self.queue_pass(file);
    }

    fn queue_pass(&mut self, file: FileId) {
        let small_fsync_max = SMALL_FSYNC_MAX.to_pages(self.page_size);
        let work = self.work(file);
        if !work.begin_pass(small_fsync_max) {
            self.in_pass.remove(&file);
            return;
        }
        let is_queued = core::mem::replace(&mut work.pass_queued, true);
        self.in_pass.insert(file);
        let work = self.work(file);
        if !is_queued {
            if work.pass.as_ref().is_some_and(|pass| pass.small_fsync) {
                self.queues_of(file).passes.push_front(file)
            } else {
                self.queues_of(file).passes.push_back(file)
            }
        }
    }

    /// Ends the file's pass if nothing is left to do for it, begins the next, and so on.
    pub fn ended(&mut self, file: FileId, mut each: impl FnMut(Ended)) {
        while let Some(pass) = self.work(file).end_pass() {
            let SyncPass {
                tickets,
                error,
                small_fsync,
                ..
            } = pass;
            for ticket in tickets {
                each(Ended {
                    ticket,
                    result: error.map_or(Ok(()), Err),
                    small_fsync,
                });
            }
            self.queue_pass(file);
        }
    }

    /// How many pages from the job's first on are dirty without a gap, at most `max`. What has failed and what has not
    /// are not written together.
    pub fn contiguous(&mut self, job: &Job, max: u64) -> u64 {
        let work = self.work(job.file);
        let max = work.alike(job.first, max.min(job.max));
        match (job.source, &work.pass) {
            (Source::Pass, Some(pass)) => pass.todo.contiguous(job.first, max),
            (Source::RetryReady, _) => work.retry_ready.contiguous(job.first, max),
            _ => work.dirty.contiguous(job.first, max),
        }
    }

    /// None of the job's `skip` pages can be written at this moment: the search continues after them.
    pub fn passed_over(&mut self, job: &Job, skip: u64) {
        self.advance(job, skip, false);
    }

    /// Pages of the file that were in other hands may be free, if it is still there.
    pub fn look_again(&mut self, file: FileId) {
        if let Some(Some(work)) = self.files.get_mut(file.0 as usize) {
            work.progress = true;
            self.queue_reclaim_flagged(file);
        }
    }

    /// A transfer of `count` pages from the job's first on was issued.
    pub fn issued(&mut self, job: &Job, io: IoId, count: u64) {
        for n in 0..count {
            self.remove(job.file, job.first.after(n));
        }
        let work = self.work(job.file);
        work.in_transit.push(io);
        work.in_transit_pages += PageCount(count);
        if let Some(pass) = &mut work.pass {
            let mut is_waited_for = false;
            for n in 0..count {
                is_waited_for |= pass.todo.remove(job.first.after(n));
            }
            if is_waited_for {
                pass.waiting.push(io);
            }
        }
        self.advance(job, count, true);
    }

    fn advance(&mut self, job: &Job, count: u64, issued: bool) {
        let behind = job.first.after(count);
        let work = self.work(job.file);
        match job.source {
            Source::Pass => {
                if let Some(pass) = &mut work.pass {
                    pass.cursor = behind;
                    pass.progress |= issued;
                }
            }
            Source::ReclaimFlagged => {
                work.reclaim_flagged_from = behind;
                work.reclaim_flagged_progress |= issued;
            }
            Source::Order => {
                work.cursor = behind;
                work.progress |= issued;
                work.slice_left = work.slice_left.saturating_sub(count);
            }
            Source::RetryReady => work.retry_ready_from = behind,
            Source::WriteBehind => work.write_behind.from = behind,
        }
    }

    /// The transfer of the pages has ended. If it failed they are dirty again.
    pub fn write_done(
        &mut self,
        now: Instant,
        file: FileId,
        io: IoId,
        pages: PageRun,
        result: Result<(), IoError>,
    ) {
        let work = self.work(file);
        work.in_transit.retain(|&i| i != io);
        work.in_transit_pages -= PageCount(pages.count);
        work.progress = true;
        let mut is_waited_for = false;
        if let Some(pass) = &mut work.pass {
            let waited = pass.waiting.len();
            pass.waiting.retain(|&i| i != io);
            is_waited_for = pass.waiting.len() < waited;
            pass.progress = true;
        }
        match result {
            Ok(()) => self.write_succeeded(now, file, pages),
            Err(error) => self.write_failed(now, file, pages, error, is_waited_for),
        }
        self.queue_pass(file);
    }

    /// Pages that were in other hands may be free now, and failed ones may be due for a retry.
    pub fn tick(&mut self, now: Instant) {
        for at in 0..self.files.len() {
            let Some(work) = self.files[at].as_mut().filter(|work| !work.is_idle()) else {
                continue;
            };
            work.progress = true;
            self.queue_retry_ready(FileId(at as u32));
            self.queue_reclaim_flagged(FileId(at as u32));
            let Some(work) = &mut self.files[at] else { continue };
            if let Some(pass) = &mut work.pass {
                pass.progress = true;
                if mutation::is(Mutation::PassNotResumed) {
                    continue;
                }
                self.queue_pass(FileId(at as u32));
            }
            self.probe(now, FileId(at as u32));
        }
    }

    /// Whether a caller waits for pages that can't be issued at this moment and aren't in transit: only
    /// a tick can bring it on.
    pub fn pass_needs_tick(&self) -> bool {
        let in_pass = self.in_pass.iter().map(|file| &self.files[file.0 as usize]);
        in_pass
            .flatten()
            .any(|w| w.pass.as_ref().is_some_and(|p| !p.todo.is_empty()) && !w.pass_queued)
    }

    /// Bytes that the indexes hold, about.
    pub fn metadata_bytes(&self) -> u64 {
        let files = self.files.capacity() * size_of::<Option<FileWork>>();
        let work = self.files.iter().flatten();
        files as u64 + work.map(FileWork::metadata_bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
