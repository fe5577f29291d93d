//! Pages whose write failed: which are retried, when, and how many at once.
//!
//! ```text
//!   a write fails ── several pages ──► tried again at once, half as many together
//!                 └─ one page ───────► backoff: left alone, dirty and readable, until
//!                                        its file's time has come (1 s, 2 s, 4 s ... 30 s): one page is tried, and
//!                                          if that can be written all of them, twice as many together each time;
//!                                        a caller asks for durability: all are tried;
//!                                        a caller needs the room that they take up: one is tried at once;
//!                                        they are given up
//! ```
//!
//! One bad page costs its neighbors only a few writes. A device that accepts nothing gets one request every 30 s. A
//! device that has space again receives everything within one more retry. Linux drops the content of such a page and
//! reports it once (`mapping_set_error`); FreeBSD keeps the page dirty and retries forever. These pages are counted
//! separately: writers of other files do not pause for them, and their own file accepts no more writes above a limit
//! ([`refuses`](crate::dirty::limits::refuses)).

use super::super::RETRY_MAX;
use super::super::file::{Failing, FileWork, OrderKey};
use super::Flusher;
use crate::dirty::index::PageSet;
use crate::io::IoError;
use crate::mutation::{self, Mutation};
use crate::units::{FileId, Instant, Nanos, PageCount, PageIndex};
use crate::writeback::PageRun;

impl Flusher {
    /// Pages that the device has refused alone and not taken since, of all files.
    pub fn failed(&self) -> PageCount {
        self.failed
    }

    /// Those of them that are not tried at the moment.
    pub fn in_backoff(&self) -> PageCount {
        self.in_backoff
    }

    /// How many pages of the file can't be written, and the device's last answer; `None` if none is known.
    pub fn failing(&self, file: FileId) -> Option<(PageCount, IoError)> {
        let work = self.files.get(file.0 as usize)?.as_ref()?;
        let error = work.failing?.error;
        let pages = PageCount(work.backoff.len() + work.retried.len());
        (pages > PageCount(0)).then_some((pages, error))
    }

    /// Whether the page is one of them.
    pub fn has_failed(&self, file: FileId, page: PageIndex) -> bool {
        let work = self.files.get(file.0 as usize).and_then(Option::as_ref);
        work.is_some_and(|work| work.has_failed(page))
    }

    /// The pages of the file that can't be written: those that are not tried at the moment, in order, then the others.
    pub fn failed_pages(&self, file: FileId) -> impl Iterator<Item = PageIndex> {
        let work = self.files.get(file.0 as usize).and_then(Option::as_ref);
        work.into_iter()
            .flat_map(|work| work.backoff.iter().chain(work.retried.iter()))
    }

    pub(super) fn write_failed(
        &mut self,
        now: Instant,
        file: FileId,
        pages: PageRun,
        error: IoError,
        is_waited_for: bool,
    ) {
        let retry = self.options.retry;
        let work = self.work(file);
        let failing = work.failing.get_or_insert(Failing {
            error,
            until: now + retry,
            span: retry,
            probe: PageIndex(0),
            together: u64::MAX,
        });
        failing.error = error;
        failing.together = failing.together.min((pages.count / 2).max(1));
        if pages.count == 1 {
            let is_new = !work.has_failed(pages.first);
            self.failed += PageCount(u64::from(is_new));
            return self.back_off(file, pages.first, error, is_waited_for);
        }
        for page in pages.iter() {
            let work = self.work(file);
            if !work.has_failed(page) {
                work.suspect.insert(page);
            }
            self.try_soon(now, file, page);
        }
        if let (true, Some(pass)) = (is_waited_for, &mut self.work(file).pass) {
            for page in pages.iter() {
                pass.todo.insert(page);
            }
        }
    }

    fn back_off(&mut self, file: FileId, page: PageIndex, error: IoError, is_waited_for: bool) {
        // It may have been changed, and be dirty, since its write began.
        self.remove(file, page);
        let work = self.work(file);
        work.retried.remove(page);
        work.suspect.remove(page);
        work.backoff.insert(page);
        if let (true, Some(pass)) = (is_waited_for, &mut work.pass)
            && !mutation::is(Mutation::SyncHidesError)
        {
            pass.error = Some(error);
        }
        self.in_backoff += PageCount(1);
        self.dirty += PageCount(1);
    }

    pub(super) fn write_succeeded(&mut self, now: Instant, file: FileId, pages: PageRun) {
        if self.work(file).failing.is_none() {
            return;
        }
        let work = self.work(file);
        let (suspect, retried) = (work.suspect.len(), work.retried.len());
        for page in pages.iter() {
            self.no_more_failed(file, page);
        }
        let retry = self.options.retry;
        let work = self.work(file);
        let Some(failing) = &mut work.failing else { return };
        if work.suspect.len() + work.retried.len() < suspect + retried {
            failing.together = failing.together.max(pages.count.saturating_mul(2));
        }
        if work.retried.len() < retried {
            // What the device has refused before it takes now: perhaps the rest as well.
            (failing.until, failing.span) = (now + retry, retry);
            let Some(first) = work.backoff.next(PageIndex(0)) else {
                return;
            };
            self.try_soon(now, file, first);
            // The others in one go: there may be hundreds of thousands.
            let work = self.work(file);
            let others = core::mem::take(&mut work.backoff);
            work.dirty.merge(&others);
            work.retried.merge(&others);
            self.in_backoff -= PageCount(others.len());
        }
    }

    /// The page, which is not in backoff, is written, or no more.
    pub(super) fn no_more_failed(&mut self, file: FileId, page: PageIndex) {
        let work = self.work(file);
        let had_failed = work.retried.remove(page);
        work.suspect.remove(page);
        if !work.has_trouble() {
            work.failing = None;
        }
        self.failed -= PageCount(u64::from(had_failed));
    }

    /// One of the pages in backoff is tried now, whatever its time; none of a file that is closed.
    pub fn retry(&mut self, now: Instant, file: FileId) {
        let span = self.options.retry;
        let work = self.files.get_mut(file.0 as usize).and_then(Option::as_mut);
        if let Some(failing) = work.and_then(|work| work.failing.as_mut()) {
            // Who asks may ask often, and that says nothing of the device: not doubled.
            (failing.until, failing.span) = (now, Nanos(span.0 / 2));
            self.probe(now, file);
        }
    }

    /// If it is time: one of the pages in backoff is tried.
    pub(super) fn probe(&mut self, now: Instant, file: FileId) {
        let work = self.work(file);
        let Some(failing) = work.failing.as_mut().filter(|failing| failing.until <= now) else {
            return;
        };
        let next = work.backoff.next(failing.probe);
        if let Some(page) = next.or_else(|| work.backoff.next(PageIndex(0))) {
            failing.probe = page.after(1);
            failing.span = Nanos((failing.span.0 * 2).min(RETRY_MAX.0));
            failing.until = now + failing.span;
            self.try_soon(now, file, page);
        }
    }

    /// The page is among those that may be written, in a file that is first and due.
    fn try_soon(&mut self, now: Instant, file: FileId, page: PageIndex) {
        self.remove(file, page);
        self.insert(now, file, page);
        let slice = self.slice_pages();
        let order_key = OrderKey {
            since: Instant(now.0.saturating_sub(self.options.expire.0)),
            number: self.order_keys,
        };
        let work = self.work(file);
        let old = work.order_key;
        work.hurry = true;
        if old.since > order_key.since {
            (work.order_key, work.slice_left) = (order_key, slice);
            self.order_keys += 1;
            let order = &mut self.queues_of(file).order;
            order.remove(&(old, file));
            order.insert((order_key, file));
        }
    }
}

impl FileWork {
    /// Pages with which something was wrong, each in one of the sets.
    fn trouble(&self) -> [&PageSet; 3] {
        [&self.backoff, &self.retried, &self.suspect]
    }

    pub(super) fn has_trouble(&self) -> bool {
        self.trouble().iter().any(|pages| !pages.is_empty())
    }

    /// Whether the device has refused the page on its own, and not accepted it since.
    fn has_failed(&self, page: PageIndex) -> bool {
        self.backoff.contains(page) || self.retried.contains(page)
    }

    /// How many pages from `first` on, at most `max`, are like it: failed, or not.
    pub(super) fn alike(&self, first: PageIndex, max: u64) -> u64 {
        let Some(failing) = &self.failing else { return max };
        let trouble = self.trouble();
        if trouble.iter().all(|pages| !pages.contains(first)) {
            let next = trouble.iter().filter_map(|pages| pages.next(first)).min();
            return next.map_or(max, |p| max.min(p.0 - first.0));
        }
        let (max, mut alike) = (max.min(failing.together), 0);
        while alike < max {
            let at = first.after(alike);
            let more = trouble.map(|pages| pages.contiguous(at, max - alike));
            match more.into_iter().max() {
                None | Some(0) => break,
                Some(more) => alike += more,
            }
        }
        alike
    }

    pub(super) fn validate_failed(&self, file: FileId) {
        self.trouble().iter().for_each(|pages| pages.validate());
        assert_eq!(self.failing.is_some(), self.has_trouble(), "{file:?} is failing");
        for page in self.backoff.iter() {
            let elsewhere = [&self.dirty, &self.retried, &self.suspect];
            assert!(
                elsewhere.iter().all(|pages| !pages.contains(page)),
                "{page:?} of {file:?} is in backoff and tried"
            );
        }
        for page in self.retried.iter() {
            assert!(
                !self.suspect.contains(page),
                "{page:?} of {file:?} has failed and is suspect"
            );
        }
    }
}
