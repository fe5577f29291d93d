//! The writers' company: readers, a log, checkpoints, a scan.
//!
//! Each runs on a thread of its own from before the writers begin until the end, and notes what was under way in
//! between, with its whole length.

use super::data::{AlignedBuf, Content, PAGE, WRITE_MAX, is_stamped};
use super::phase::{Actor, CACHED_READS, CHECKPOINT_FILE_BYTES, CHECKPOINT_PAGES, hot_pages};
use super::record::{Logged, Read, Scanned};
use super::{Axboe2016, READ_FILE, Run};
use crate::error::{LabError, Result};
use crate::storage::{Access, Served, StorageFile};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// The number that the log's pages carry.
pub(crate) const LOG_FILE: u64 = READ_FILE - 1;
/// The number that the pages of the database carry.
pub(crate) const CHECKPOINT_FILE: u64 = READ_FILE - 2;
/// The log begins anew here, as logs do.
pub(crate) const LOG_BYTES: u64 = 64 << 20;
/// Pages of a log's record, at most.
pub(crate) const RECORD_PAGES_MAX: u64 = 2;
/// The size of a scan's requests: as `cat` and `cp` do, or a little more.
pub(crate) const SCAN_BYTES: u64 = 256 << 10;

/// The observations of an actor.
#[derive(Default)]
pub(super) struct Beside {
    pub(super) read: Option<Read>,
    pub(super) logged: Option<Logged>,
    pub(super) scanned: Option<Scanned>,
}

impl Beside {
    pub(super) fn merge(&mut self, other: Beside) {
        match (&mut self.read, other.read) {
            (Some(own), Some(other)) => own.merge(&other),
            (own, other) => *own = own.take().or(other),
        }
        self.logged = self.logged.take().or(other.logged);
        self.scanned = self.scanned.take().or(other.scanned);
    }

    /// When the last of what counts ended.
    pub(super) fn last_end(&self) -> Duration {
        let ends = [
            self.read.as_ref().map(|r| r.last_end),
            self.logged.as_ref().map(|l| l.last_end),
            self.scanned.as_ref().map(|s| s.last_end),
        ];
        ends.into_iter().flatten().max().unwrap_or_default()
    }
}

impl Actor {
    /// Its number of threads.
    pub(super) fn threads(self) -> u32 {
        match self {
            Actor::Readers(count, _) => count,
            Actor::CachedReader | Actor::Log | Actor::Checkpoints | Actor::Scan => 1,
        }
    }
}

impl Run<'_> {
    /// The work of the actor's thread `n`, until the end.
    pub(super) fn act(&self, actor: Actor, n: u32) -> Result<Beside> {
        let mut beside = Beside::default();
        match actor {
            Actor::Readers(_, think) => beside.read = Some(self.read(n, think, 0)?),
            Actor::CachedReader => {
                let hot = hot_pages(self.work.read_file_bytes / PAGE as u64, self.memory);
                beside.read = Some(self.read(n, Duration::ZERO, hot)?);
            }
            Actor::Log => beside.logged = Some(self.log()?),
            Actor::Checkpoints => beside.logged = Some(self.checkpoint()?),
            Actor::Scan => beside.scanned = Some(self.scan()?),
        }
        Ok(beside)
    }

    /// Whether to end at `at`: not before something has been done that counts, however slow the device is.
    fn is_over(&self, at: Duration, done: Duration) -> bool {
        let has_ended = at.as_nanos() as u64 >= self.ended_ns.load(Ordering::Acquire);
        has_ended && (!done.is_zero() || self.is_stopped())
    }

    fn did(&self, latency: Duration) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.slowest_ns
            .fetch_max(latency.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Reads pages anywhere in the file; with `hot` pages that are read often, mostly those.
    fn read(&self, n: u32, think: Duration, hot: u64) -> Result<Read> {
        let path = Axboe2016::read_file(self.dir);
        let failed = |e: io::Error| LabError::path("reading", &path, e);
        let access = if hot > 0 { Access::Cached } else { Access::Random };
        let file = self.storage.open(&path, access).map_err(failed)?;
        let pages = self.work.read_file_bytes / PAGE as u64;
        let mut random = fastrand::Rng::with_seed(self.work.seed.wrapping_add(u64::from(n) << 32));
        let mut buf = AlignedBuf::new(PAGE);
        for page in 0..hot {
            if self.is_stopped() {
                break;
            }
            self.read_page(&*file, &path, page, &mut buf)?;
        }
        self.ready.fetch_add(1, Ordering::Release);
        let mut read = Read::default();
        loop {
            let from = self.started.elapsed();
            if self.is_over(from, read.last_end) {
                return Ok(read);
            }
            let is_hot = hot > 0 && random.u64(..CACHED_READS) > 0;
            let page = random.u64(..if is_hot { hot } else { pages });
            let served = self.read_page(&*file, &path, page, &mut buf)?;
            let to = self.started.elapsed();
            let latency = to - from;
            if let Some(to) = self.since_begin(to) {
                let from = self.since_begin(from);
                read.add(from.unwrap_or_default(), to, latency, served);
                if served != Served::Memory {
                    self.recent.add(latency);
                }
                self.did(latency);
            }
            if !think.is_zero() {
                thread::park_timeout(think);
            }
        }
    }

    fn read_page(&self, file: &dyn StorageFile, path: &Path, page: u64, buf: &mut [u8]) -> Result<Served> {
        let failed = |e: io::Error| LabError::path("reading", path, e);
        let served = file.read_at(page * PAGE as u64, buf).map_err(failed)?;
        if !is_stamped(READ_FILE, page, buf) {
            return Err(failed(io::Error::other(format!(
                "page {page} came back with something else in it"
            ))));
        }
        Ok(served)
    }

    fn log(&self) -> Result<Logged> {
        let path = Axboe2016::log_file(self.dir);
        let failed = |e: io::Error| LabError::path("writing", &path, e);
        let file = self.storage.create(&path, LOG_BYTES).map_err(failed)?;
        let mut content = Content::new(self.work.seed);
        let mut random = fastrand::Rng::with_seed(self.work.seed);
        let mut logged = Logged::default();
        let mut offset = 0;
        self.ready.fetch_add(1, Ordering::Release);
        loop {
            let from = self.started.elapsed();
            if self.is_over(from, logged.last_end) {
                return Ok(logged);
            }
            let len = random.u64(1..=RECORD_PAGES_MAX) * PAGE as u64;
            if offset + len > LOG_BYTES {
                offset = 0;
            }
            let record = content.slice(LOG_FILE, offset, len as usize);
            file.write_at(offset, record).map_err(failed)?;
            let appended = self.started.elapsed();
            file.sync().map_err(failed)?;
            let to = self.started.elapsed();
            offset += len;
            if let Some(end) = self.since_begin(to) {
                let begin = self.since_begin(appended).unwrap_or_default();
                logged.add(begin, end, appended - from, to - appended);
                self.did(to - from);
            }
        }
    }

    /// Fills a file; then syncs a record of a log, changes pages anywhere in the file and syncs them, over and over.
    fn checkpoint(&self) -> Result<Logged> {
        let path = Axboe2016::checkpoint_file(self.dir);
        let failed = |e: io::Error| LabError::path("writing", &path, e);
        let file = self
            .storage
            .create(&path, CHECKPOINT_FILE_BYTES)
            .map_err(failed)?;
        let mut content = Content::new(self.work.seed);
        for offset in (0..CHECKPOINT_FILE_BYTES).step_by(WRITE_MAX) {
            let data = content.slice(CHECKPOINT_FILE, offset, WRITE_MAX);
            file.write_at(offset, data).map_err(failed)?;
        }
        file.sync().map_err(failed)?;
        let log_path = Axboe2016::log_file(self.dir);
        let log_failed = |e: io::Error| LabError::path("writing", &log_path, e);
        let log = self.storage.create(&log_path, LOG_BYTES).map_err(log_failed)?;
        let mut logged = 0;
        let mut random = fastrand::Rng::with_seed(self.work.seed);
        let mut synced = Logged::default();
        self.ready.fetch_add(1, Ordering::Release);
        loop {
            let from = self.started.elapsed();
            if self.is_over(from, synced.last_end) {
                return Ok(synced);
            }
            let record = content.slice(LOG_FILE, logged, PAGE);
            log.write_at(logged, record).map_err(log_failed)?;
            log.sync().map_err(log_failed)?;
            logged = (logged + PAGE as u64) % LOG_BYTES;
            for _ in 0..CHECKPOINT_PAGES {
                let offset = random.u64(..CHECKPOINT_FILE_BYTES / PAGE as u64) * PAGE as u64;
                let page = content.slice(CHECKPOINT_FILE, offset, PAGE);
                file.write_at(offset, page).map_err(failed)?;
            }
            let written = self.started.elapsed();
            file.sync().map_err(failed)?;
            let to = self.started.elapsed();
            if let Some(end) = self.since_begin(to) {
                let begin = self.since_begin(written).unwrap_or_default();
                synced.add(begin, end, written - from, to - written);
                self.did(to - from);
            }
        }
    }

    fn scan(&self) -> Result<Scanned> {
        let path = Axboe2016::read_file(self.dir);
        let failed = |e: io::Error| LabError::path("reading", &path, e);
        let file = self.storage.open(&path, Access::Sequential).map_err(failed)?;
        let mut buf = AlignedBuf::new(SCAN_BYTES.min(self.work.read_file_bytes) as usize);
        let mut scanned = Scanned::default();
        let mut offset = 0;
        self.ready.fetch_add(1, Ordering::Release);
        loop {
            let from = self.started.elapsed();
            if self.is_over(from, scanned.last_end) {
                return Ok(scanned);
            }
            if offset + buf.len() as u64 > self.work.read_file_bytes {
                offset = 0;
            }
            file.read_at(offset, &mut buf).map_err(failed)?;
            let to = self.started.elapsed();
            let page = offset / PAGE as u64;
            if !is_stamped(READ_FILE, page, &buf) {
                return Err(failed(io::Error::other(format!(
                    "page {page} came back with something else in it"
                ))));
            }
            offset += buf.len() as u64;
            if let Some(end) = self.since_begin(to) {
                scanned.add(end, to - from, buf.len() as u64);
                self.did(to - from);
            }
        }
    }
}
