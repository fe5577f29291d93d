//! Gorman 2011 on real files: fs_mark and micro, as the post ran them.
//!
//! ```text
//!   fs_mark   round 1: file, file, … ┊ round 2: file, … ┊ …  ┊ sync      files of 10 MiB in writes of 16 KiB, no sync
//!             └── files/s ──────────┘                             before the end; a folder is full after 150 files
//!   micro     page, page, page, … ┊ sync                         one new mapping, each page written once from the start
//! ```
//!
//! The post's command is `fs_mark -D 100 -N 150 -n 150 -L 25 -t 1 -S0 -s 10485760`. Every page has a stamp, so that what
//! came to the disk can be checked. fs_mark's overhead is the time of a round outside of the calls for its files. The
//! final sync is not the post's: without it, a cache that keeps more in memory would seem faster.

use super::Progress;
use super::data::{Content, PAGE};
use crate::error::{LabError, Result};
use crate::measure::latency::Latencies;
use crate::measure::process;
use crate::measure::reclaim::{self, Scans, spread};
use crate::outcome::{Measure, Outcome};
use crate::setup::Setup;
use crate::storage::{Storage, StorageFile};
use crate::watch::Proceed;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The workload. Sizes are in bytes and whole pages of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gorman2011 {
    /// The data to write.
    pub load: Load,
    /// The seed of contents.
    pub seed: u64,
}

/// The data to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Files, round by round.
    FsMark {
        /// The post: 25 (`-L`).
        rounds: u32,
        /// Files of a round. The post: 150 (`-n`).
        files: u32,
        /// The size of each file. The post: 10 MiB (`-s`).
        file_bytes: u64,
        /// Threads that write them. The post: 1 (`-t`).
        threads: u32,
    },
    /// One mapping.
    Micro {
        /// Its size. The post: 4.76 GiB.
        bytes: u64,
    },
}

/// fs_mark's own size of a write (`-w`).
const WRITE: u64 = 16 << 10;
/// Files in a folder (`-N`), and folders before the first is used again (`-D`).
const FILES_A_FOLDER: u32 = 150;
const FOLDERS: u32 = 100;
/// Between two reports of progress.
const STEP: Duration = Duration::from_millis(100);

impl Gorman2011 {
    /// Everything that is written.
    pub fn bytes(&self) -> u64 {
        match self.load {
            Load::FsMark {
                rounds,
                files,
                file_bytes,
                ..
            } => u64::from(rounds) * u64::from(files) * file_bytes,
            Load::Micro { bytes } => bytes,
        }
    }

    /// The folder of everything that is written, in a storage's directory.
    pub fn folder(dir: &Path) -> PathBuf {
        dir.join("written")
    }

    /// Each file that is written with its size: fs_mark's in their order, or micro's only one.
    pub fn files(&self, dir: &Path) -> Vec<(PathBuf, u64)> {
        let folder = Gorman2011::folder(dir);
        match self.load {
            Load::FsMark {
                rounds,
                files,
                file_bytes,
                ..
            } => {
                let path = |n: u32| folder.join(format!("{:02}/{n:06}", n / FILES_A_FOLDER % FOLDERS));
                (0..rounds * files).map(|n| (path(n), file_bytes)).collect()
            }
            Load::Micro { bytes } => vec![(folder.join("mapping"), bytes)],
        }
    }
}

/// The measurements of a load.
#[derive(Default)]
struct Seen {
    /// For each round: its duration, and the part outside the calls for its files.
    rounds: Vec<(Duration, Duration)>,
    /// For each write, or first touch of a page.
    calls: Latencies,
}

/// The state shared by a run's threads.
struct Run<'a> {
    work: &'a Gorman2011,
    storage: &'a dyn Storage,
    files: Vec<(PathBuf, u64)>,
    /// Files that stay open, the oldest first.
    open: Mutex<VecDeque<Box<dyn StorageFile>>>,
    stopped: AtomicBool,
    written: AtomicU64,
}

/// Performs it on real files, which stay to be checked.
///
/// # Errors
/// The first error of the storage; [`LabError::Interrupted`].
pub fn perform(
    work: &Gorman2011,
    storage: &dyn Storage,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let run = Run {
        work,
        storage,
        files: work.files(&setup.dir),
        open: Mutex::default(),
        stopped: AtomicBool::new(false),
        written: AtomicU64::new(0),
    };
    for path in run.files.iter().filter_map(|(path, _)| path.parent()) {
        fs::create_dir_all(path).map_err(|e| LabError::path("cannot create", path, e))?;
    }
    let before = storage.reclaim();
    let processor_before = process::processor_seconds();
    let began = Instant::now();
    let (seen, write_seconds) = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let seen = run.write()?;
            let write_seconds = began.elapsed().as_secs_f64();
            if !run.is_stopped() {
                run.sync(&setup.dir)?;
            }
            Ok::<_, LabError>((seen, write_seconds))
        });
        while !writing.is_finished() {
            thread::park_timeout(STEP.min(Duration::from_millis(20)));
            if progress(run.progress(began)) == Proceed::Stop {
                run.stopped.store(true, Ordering::Relaxed);
            }
        }
        writing.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    if run.is_stopped() {
        return Err(LabError::Interrupted);
    }
    let processor = processor_before.zip(process::processor_seconds());
    let grown = reclaim::grown(&before, &storage.reclaim());
    // closes what is open
    drop(run);
    let mut outcome = work.outcome(&seen, (write_seconds, seconds), processor, grown);
    for measure in storage.measures() {
        // what reclaim has said already
        if outcome.value(&measure.metric).is_none() {
            outcome.measures.push(measure);
        }
    }
    outcome.settings = storage.settings();
    outcome.warnings = storage.warnings();
    outcome.explanations = storage.explanations();
    Ok(outcome)
}

type Processor = ((f64, f64), (f64, f64));

impl Gorman2011 {
    fn outcome(
        &self,
        seen: &Seen,
        (write_seconds, seconds): (f64, f64),
        processor: Option<Processor>,
        grown: Vec<Measure>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Load::FsMark { files, .. } = self.load {
            let rate = |&(took, _): &(Duration, Duration)| f64::from(files) / took.as_secs_f64();
            let rates: Vec<f64> = seen.rounds.iter().map(rate).collect();
            spread(&mut outcome, "files_per_s", "1/s", &rates);
            let us = |&(_, overhead): &(Duration, Duration)| overhead.as_secs_f64() * 1e6;
            let overheads: Vec<f64> = seen.rounds.iter().map(us).collect();
            spread(&mut outcome, "overhead_us", "us", &overheads);
            let all = f64::from(files) * seen.rounds.len() as f64;
            outcome.push("files_synced_per_s", "1/s", all / seconds);
        }
        outcome.push("mb_per_s", "MB/s", self.bytes() as f64 / 1e6 / seconds);
        outcome.push("elapsed_seconds", "s", seconds);
        outcome.push("write_seconds", "s", write_seconds);
        let (p99, max) = match self.load {
            Load::FsMark { .. } => ("write_p99_us", "write_max_us"),
            Load::Micro { .. } => ("touch_p99_us", "touch_max_us"),
        };
        for (name, us) in [(p99, seen.calls.percentile_us(0.99)), (max, seen.calls.max_us())] {
            if let Some(us) = us {
                outcome.push(name, "us", us);
            }
        }
        if let Some((before, after)) = processor {
            outcome.push("user_sys_seconds", "s", after.0 + after.1 - before.0 - before.1);
        }
        let has = |metric: &str| grown.iter().any(|m| m.metric == metric);
        if has("pgscan_direct") && has("pgscan_kswapd") {
            Scans::of(&grown).report(seconds, &mut outcome);
        }
        let of = |outcome: &Outcome, metric: &str| outcome.value(metric);
        for measure in grown {
            // what the scans have said already
            if of(&outcome, &measure.metric).is_none() {
                outcome.measures.push(measure);
            }
        }
        if let (Some(written), Some(scanned)) = (
            of(&outcome, "file_pages_written_by_reclaim"),
            of(&outcome, "pgscan"),
        ) {
            let percent = 100.0 * written / scanned.max(1.0);
            outcome.push("file_written_percent", "%", percent);
        }
        if let Some(awake) = of(&outcome, "kswapd_awake_seconds") {
            outcome.push("kswapd_awake_percent", "%", 100.0 * awake / seconds);
        }
        if let (Some(stall), Some(busy)) = (
            of(&outcome, "direct_stall_seconds"),
            of(&outcome, "user_sys_seconds"),
        ) {
            let percent = 100.0 * stall / (stall + busy).max(1e-9);
            outcome.push("direct_time_percent", "%", percent);
        }
        outcome
    }
}

impl Run<'_> {
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn progress(&self, began: Instant) -> Progress {
        let (written, all) = (self.written.load(Ordering::Relaxed), self.work.bytes());
        Progress {
            doing: if written < all {
                "writing".into()
            } else {
                "syncing".into()
            },
            share: (0.95 * written as f64 / all as f64).min(1.0),
            detail: format!("{} of {} MB written", written / 1_000_000, all / 1_000_000),
            // A sync moves nothing that could be counted; it is alive for as long as its thread is.
            beat: began.elapsed().as_millis() as u64,
            live: None,
        }
    }

    fn write(&self) -> Result<Seen> {
        match self.work.load {
            Load::FsMark {
                rounds,
                files,
                file_bytes,
                threads,
            } => {
                let kept = self.storage.files_kept_open(file_bytes);
                let mut seen = Seen::default();
                for round in 0..rounds {
                    let (began, next) = (Instant::now(), AtomicU32::new(0));
                    let first = round * files;
                    let own = thread::scope(|scope| {
                        let threads: Vec<_> = (0..threads)
                            .map(|_| scope.spawn(|| self.write_files(first, files, &next, kept)))
                            .collect();
                        let joined = threads
                            .into_iter()
                            .map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
                        joined.collect::<Result<Vec<_>>>()
                    })?;
                    let took = began.elapsed();
                    let in_calls: Duration = own.iter().map(|(_, in_calls)| *in_calls).sum();
                    own.iter().for_each(|(calls, _)| seen.calls.merge(calls));
                    seen.rounds
                        .push((took, (took * threads).saturating_sub(in_calls)));
                    if self.is_stopped() {
                        break;
                    }
                }
                Ok(seen)
            }
            Load::Micro { .. } => self.write_in_place(),
        }
    }

    /// Writes files of a round until there are none left: how long each write took, and the time in calls for files.
    fn write_files(
        &self,
        first: u32,
        files: u32,
        next: &AtomicU32,
        kept: usize,
    ) -> Result<(Latencies, Duration)> {
        let mut content = Content::new(self.work.seed);
        let (mut calls, mut in_calls) = (Latencies::new(), Duration::ZERO);
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= files || self.is_stopped() {
                return Ok((calls, in_calls));
            }
            let n = first + n;
            let (path, bytes) = &self.files[n as usize];
            let failed = |e: io::Error| LabError::path("writing", path, e);
            let began = Instant::now();
            let file = self.storage.create(path, *bytes).map_err(failed)?;
            in_calls += began.elapsed();
            for offset in (0..*bytes).step_by(WRITE as usize) {
                let len = WRITE.min(bytes - offset);
                let data = content.slice(u64::from(n), offset, len as usize);
                let began = Instant::now();
                file.write_at(offset, data).map_err(failed)?;
                let took = began.elapsed();
                calls.record(took);
                in_calls += took;
                self.written.fetch_add(len, Ordering::Relaxed);
            }
            let began = Instant::now();
            self.close(file, kept);
            in_calls += began.elapsed();
        }
    }

    /// Closes the file, or the one that has been open for longest if some stay open.
    fn close(&self, file: Box<dyn StorageFile>, kept: usize) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(file);
        let closed = (open.len() > kept).then(|| open.pop_front());
        drop(open);
        drop(closed);
    }

    fn write_in_place(&self) -> Result<Seen> {
        let (path, bytes) = &self.files[0];
        let failed = |e: io::Error| LabError::path("writing", path, e);
        let mut content = Content::new(self.work.seed);
        let mut seen = Seen::default();
        let file = self.storage.create_in_place(path, *bytes).map_err(failed)?;
        for offset in (0..*bytes).step_by(PAGE) {
            if self.is_stopped() {
                break;
            }
            let data = content.slice(0, offset, PAGE);
            let began = Instant::now();
            file.write_at(offset, data).map_err(failed)?;
            seen.calls.record(began.elapsed());
            self.written.fetch_add(PAGE as u64, Ordering::Relaxed);
        }
        file.sync().map_err(failed)?;
        self.close(file, 1);
        Ok(seen)
    }

    fn sync(&self, dir: &Path) -> Result<()> {
        self.storage
            .sync_all()
            .map_err(|e| LabError::path("syncing", dir, e))
    }
}

#[cfg(test)]
mod tests;
