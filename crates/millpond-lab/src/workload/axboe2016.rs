//! Axboe 2016: large files are written and synced while another file is read.
//!
//! ```text
//!   writers   ──── file 0 ── file 3 ── … ──┐ last write    ┌ everything synced
//!             ──── file 1 ── file 2 ── … ──┴─── sync ──────┘
//!   reader  ····┊ r r r r     r        r     r     r  r  r ┊      one 4 KiB read at a time, anywhere in its file;
//!               └ begun                                    └ ended: what was under way in between counts;
//!                                                            or others in its place (`phase.rs`)
//! ```
//!
//! The post's reader ran under fio with a job file that it does not show; its 40 us say that most of its reads
//! came out of read-ahead. This one reads at random, so that every miss is a request to the device and waits
//! for what the writers have queued there.
//!
//! A read counts with its whole length if any of it lies between the beginning and the end: otherwise the
//! slowest one, which began before or comes back after, would be the one that is left out.

pub(crate) mod actors;
pub mod phase;
pub(crate) mod record;

use super::data::{self, Content, PAGE, WRITE_MAX};
use super::{Live, Progress};
use crate::error::{LabError, Result};
use crate::measure::disk::{DiskBytes, DiskCounters};
use crate::measure::heat::Recent;
use crate::measure::process;
use crate::measure::steps::{STEP, steps_in};
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::storage::{Storage, StorageFile};
use crate::watch::Proceed;
use actors::Beside;
use millpond::internal::quantity;
use millpond_core::units::Bytes;
pub use phase::Phase;
use record::{Watched, Written};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The workload. Sizes are in bytes and whole pages of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axboe2016 {
    /// The participants.
    pub phase: Phase,
    /// How many files are written. The post: 50.
    pub files: u32,
    /// The size of each file. The post: 100 MB.
    pub file_bytes: u64,
    /// The number of threads that write them, each one file after the other.
    pub writers: u32,
    /// The size of the file that is read.
    pub read_file_bytes: u64,
    /// How long the reader reads when it is alone, in milliseconds.
    pub reader_alone_ms: u64,
    /// The seed of offsets, sizes of writes and contents. The same for all targets.
    pub seed: u64,
}

/// Writes have this size or a multiple of it, up to [`WRITE_MAX`].
pub const WRITE_UNIT: usize = 64 << 10;
/// The number that the read file's pages carry; the written files count from 0.
pub const READ_FILE: u64 = u32::MAX as u64;
/// The reader is at work when the writers begin: it reads this long before anything counts.
const LEAD_IN: Duration = Duration::from_millis(300);
/// How often to check whether the writers' company is ready: a cached reader fills memory first.
const READY_POLL: Duration = Duration::from_millis(5);

impl Axboe2016 {
    /// Bytes that all writers write together.
    pub fn written_bytes(&self) -> u64 {
        u64::from(self.files) * self.file_bytes
    }

    /// The file that is read, in a storage's directory.
    pub fn read_file(dir: &Path) -> PathBuf {
        dir.join("read-file")
    }

    /// The log, in a storage's directory.
    pub fn log_file(dir: &Path) -> PathBuf {
        dir.join("log")
    }

    /// The database's file, in a storage's directory.
    pub fn checkpoint_file(dir: &Path) -> PathBuf {
        dir.join("database")
    }

    /// A file that is written, in a storage's directory.
    pub fn written_file(dir: &Path, n: u32) -> PathBuf {
        dir.join(format!("written-{n:04}"))
    }
}

/// Performs one phase on real files; the read file must exist. Takes a thread for each writer and two more.
///
/// # Errors
/// The first error of the storage, a page with a wrong stamp, [`LabError::Interrupted`].
pub fn perform(
    work: &Axboe2016,
    storage: &dyn Storage,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let run = &Run::new(work, storage, setup);
    let cache_before = process::page_cache_mib();
    let processor_before = process::processor_seconds();
    let (others, written, watched) = thread::scope(|scope| {
        let actor = work.phase.actor();
        let threads = actor.map_or(0, |actor| actor.threads());
        let beside: Vec<_> = actor
            .into_iter()
            .flat_map(|actor| (0..threads).map(move |n| (actor, n)))
            .map(|(actor, n)| scope.spawn(move || run.guard(|| run.act(actor, n))))
            .collect();
        while run.ready.load(Ordering::Acquire) < threads && !run.is_stopped() {
            thread::park_timeout(READY_POLL);
        }
        if actor.is_some() {
            thread::park_timeout(LEAD_IN);
        }
        run.begin();
        let watcher = thread::current();
        let writing = work.phase.writes().then(|| {
            scope.spawn(move || {
                let written = run.guard(|| run.write_and_sync());
                watcher.unpark();
                written
            })
        });
        let until = Duration::from_millis(work.reader_alone_ms);
        let done = || match &writing {
            Some(writing) => writing.is_finished(),
            // and at least one read, however slow the device is
            None => run.is_stopped() || run.now() >= until && run.reads.load(Ordering::Relaxed) > 0,
        };
        let watched = run.watch(done, progress);
        run.end();
        let beside: Vec<_> = beside
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect();
        let written = writing.map(|thread| thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        (beside, written, watched)
    });
    // an interruption makes the others fail too: it goes first
    let mut watched = watched?;
    // the read that was under way at the end has come back since
    watched.end_step(run);
    let written = written.transpose()?;
    let mut beside = Beside::default();
    for other in others {
        beside.merge(other?);
    }

    let mut outcome = Outcome::default();
    let length = beside.last_end().max(run.ended());
    let steps = steps_in(length);
    if let Some(read) = &beside.read {
        read.report(length, steps, &mut outcome);
    }
    if let Some(logged) = &beside.logged {
        logged.report(length, steps, &mut outcome);
    }
    if let Some(scanned) = &beside.scanned {
        scanned.report(length, steps, &mut outcome);
    }
    if let Some(written) = &written {
        written.report(work, steps, &mut outcome);
    }
    watched.report(steps, cache_before, &mut outcome);
    if let (Some(before), Some(after)) = (processor_before, process::processor_seconds()) {
        outcome.push("cpu_user_seconds", "s", after.0 - before.0);
        outcome.push("cpu_system_seconds", "s", after.1 - before.1);
    }
    if let Some(mib) = process::resident_peak_mib() {
        outcome.push("resident_peak_mib", "MiB", mib);
    }
    outcome.measures.extend(storage.measures());
    outcome.settings = storage.settings();
    outcome.warnings = storage.warnings();
    outcome.explanations = storage.explanations();
    Ok(outcome)
}

/// The state shared by a run's threads.
struct Run<'a> {
    work: &'a Axboe2016,
    storage: &'a dyn Storage,
    dir: &'a Path,
    /// Bytes of memory that the storage may use.
    memory: u64,
    disk: Option<DiskCounters>,
    /// The number of other threads that are ready.
    ready: AtomicU32,
    started: Instant,
    /// When it began and ended, in nanoseconds since `started`; `u64::MAX` until then.
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
    stopped: AtomicBool,
    /// Progress, for the eye only.
    bytes_written: AtomicU64,
    reads: AtomicU64,
    slowest_ns: AtomicU64,
    /// Reads that missed since the last step.
    recent: Recent,
    syncing: AtomicBool,
}

impl<'a> Run<'a> {
    fn new(work: &'a Axboe2016, storage: &'a dyn Storage, setup: &'a Setup) -> Run<'a> {
        let whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(PAGE as u64);
        assert!(
            whole(work.read_file_bytes) && whole(work.file_bytes) && work.writers > 0,
            "not checked before: {work:?}"
        );
        Run {
            work,
            storage,
            dir: &setup.dir,
            memory: setup.memory.0,
            ready: AtomicU32::new(0),
            disk: DiskCounters::of(&setup.dir),
            started: Instant::now(),
            begun_ns: AtomicU64::new(u64::MAX),
            ended_ns: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
            bytes_written: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            slowest_ns: AtomicU64::new(0),
            recent: Recent::new(),
            syncing: AtomicBool::new(false),
        }
    }

    fn begin(&self) {
        let ns = self.started.elapsed().as_nanos() as u64;
        self.begun_ns.store(ns, Ordering::Release);
    }

    /// Sets the end, unless it is set.
    fn end(&self) {
        let ns = self.started.elapsed().as_nanos() as u64;
        let _ = self
            .ended_ns
            .compare_exchange(u64::MAX, ns, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Time since the beginning; zero before it.
    fn now(&self) -> Duration {
        self.since_begin(self.started.elapsed()).unwrap_or_default()
    }

    fn since_begin(&self, elapsed: Duration) -> Option<Duration> {
        let begun = self.begun_ns.load(Ordering::Acquire);
        elapsed.checked_sub(Duration::from_nanos(begun))
    }

    fn ended(&self) -> Duration {
        let ended = Duration::from_nanos(self.ended_ns.load(Ordering::Acquire));
        self.since_begin(ended).unwrap_or_default()
    }

    /// Runs a thread's work; if it fails, all threads stop.
    fn guard<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = work();
        if result.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
            self.end();
        }
        result
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn write_and_sync(&self) -> Result<Written> {
        let next = AtomicUsize::new(0);
        let open: Mutex<Vec<Box<dyn StorageFile>>> = Mutex::default();
        let mut written = Written::default();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.work.writers)
                .map(|_| scope.spawn(|| self.guard(|| self.write_files(&next, &open))))
                .collect();
            for thread in threads {
                let part = thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?;
                written.merge(&part);
            }
            Ok::<(), LabError>(())
        })?;
        written.write_seconds = self.now().as_secs_f64();
        if self.is_stopped() {
            return Ok(written);
        }
        self.syncing.store(true, Ordering::Relaxed);
        self.storage
            .sync_all()
            .map_err(|e| LabError::path("syncing", self.dir, e))?;
        self.end();
        written.seconds = self.ended().as_secs_f64();
        Ok(written)
    }

    fn write_files(&self, next: &AtomicUsize, open: &Mutex<Vec<Box<dyn StorageFile>>>) -> Result<Written> {
        let mut content = Content::new(self.work.seed);
        let mut written = Written::default();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed) as u32;
            if n >= self.work.files || self.is_stopped() {
                return Ok(written);
            }
            let path = Axboe2016::written_file(self.dir, n);
            let failed = |e: io::Error| LabError::path("writing", &path, e);
            let bytes = self.work.file_bytes;
            let file = self.storage.create(&path, bytes).map_err(failed)?;
            // the sizes belong to the file, whichever thread writes it
            let mut random =
                fastrand::Rng::with_seed(self.work.seed ^ u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut offset = 0;
            while offset < bytes && !self.is_stopped() {
                let size = WRITE_UNIT * random.usize(1..=WRITE_MAX / WRITE_UNIT);
                let size = (size as u64).min(bytes - offset);
                let data = content.slice(u64::from(n), offset, size as usize);
                let from = self.now();
                file.write_at(offset, data).map_err(failed)?;
                let to = self.now();
                written.calls.record(to - from);
                written.bytes.add(to, size);
                self.bytes_written.fetch_add(size, Ordering::Relaxed);
                offset += size;
            }
            // kept open until everything is synced, so that a write error still has a file to arrive at
            open.lock().unwrap_or_else(|p| p.into_inner()).push(file);
        }
    }

    /// Samples other counters, and reports to the user, until it is done.
    fn watch(
        &self,
        done: impl Fn() -> bool,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<Watched> {
        let mut watched = Watched::default();
        let mut tick = 0;
        watched.sample(self);
        while !done() {
            tick += 1;
            let next = STEP * tick;
            while self.now() < next && !done() {
                thread::park_timeout(next.saturating_sub(self.now()));
            }
            watched.sample(self);
            watched.end_step(self);
            // five times a second is live enough, and a pipe's work that no reader's latency notices
            if tick % 2 == 0 && progress(self.progress(&mut watched)) == Proceed::Stop {
                self.stopped.store(true, Ordering::Relaxed);
                self.end();
                return Err(LabError::Interrupted);
            }
        }
        watched.sample(self);
        Ok(watched)
    }

    fn progress(&self, watched: &mut Watched) -> Progress {
        let written = self.bytes_written.load(Ordering::Relaxed);
        let reads = self.reads.load(Ordering::Relaxed);
        let total = self.work.written_bytes();
        let mut detail = String::new();
        if self.work.phase.writes() {
            detail = format!(
                "{} of {} written",
                quantity::size(Bytes(written)),
                quantity::size(Bytes(total))
            );
        }
        if let Some(actor) = self.work.phase.actor() {
            if !detail.is_empty() {
                detail += ", ";
            }
            let slowest = self.slowest_ns.load(Ordering::Relaxed) as f64 / 1e3;
            let what = match actor {
                phase::Actor::Log | phase::Actor::Checkpoints => "syncs",
                _ => "reads",
            };
            detail += &format!("{reads} {what}, slowest {}", quantity::micros(slowest));
        }
        let syncing = self.syncing.load(Ordering::Relaxed);
        let share = if self.work.phase.writes() {
            // how long the sync will take is not known; a tenth is left for it
            0.9 * written as f64 / total as f64
        } else {
            self.now().as_millis() as f64 / self.work.reader_alone_ms.max(1) as f64
        };
        Progress {
            doing: match (self.work.phase.writes(), syncing) {
                (true, true) => "syncing",
                (true, false) => "writing",
                (false, _) if self.work.phase == Phase::LogWriterAlone => "logging",
                (false, _) => "reading",
            }
            .into(),
            share: share.min(1.0),
            detail,
            // a reader that goes on beside stuck writers is not a sign of life
            beat: match (self.work.phase.writes(), syncing) {
                (true, true) => watched.device_written_bytes,
                (true, false) => written,
                (false, _) => reads,
            },
            live: Some(self.live(watched)),
        }
    }

    fn live(&self, watched: &mut Watched) -> Live {
        let (number, reads) = watched.tell();
        Live {
            number,
            reads,
            slowest_us: self.slowest_ns.load(Ordering::Relaxed) as f64 / 1e3,
            written: self.bytes_written.load(Ordering::Relaxed),
            total: self.work.written_bytes(),
            in_transit: self.storage.in_transit_bytes(),
        }
    }

    fn device(&self) -> Option<DiskBytes> {
        self.storage
            .device_bytes()
            .or_else(|| self.disk.as_ref().and_then(DiskCounters::read))
    }
}

#[cfg(test)]
mod tests;
