//! Hills 2015: a large file is written while the limits on dirty pages are what they are, or are touched.
//!
//! ```text
//!   writers   ── 1 MiB ── 1 MiB ── 1 MiB ── … ──┬── sync ──┐     MB/s up to here; how long each write took
//!   tuner     ·· limits ·· limits ·· limits ·· ··          └ the last limits once more: are they as if set at once?
//! ```

use super::Progress;
use super::data::Content;
use crate::error::{LabError, Result};
use crate::measure::latency::Latencies;
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::storage::{DirtyLimits, Storage};
use crate::watch::Proceed;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The workload. Sizes are in bytes and whole MiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hills2015 {
    /// The hard limit on dirty pages, the background limit being half of it; `None`: the storage's own.
    pub hard: Option<u64>,
    /// Whether limits are touched all the time, and the interval between touches in microseconds.
    pub storm_us: Option<u64>,
    /// Threads that write.
    pub writers: u32,
    /// The bytes that all of them write together.
    pub bytes: u64,
    /// The seed of contents and of limits.
    pub seed: u64,
}

/// One write.
pub const WRITE: u64 = 1 << 20;
/// Between two reports.
const STEP: Duration = Duration::from_millis(100);

impl Hills2015 {
    /// A file that is written, in a storage's directory.
    pub fn file(dir: &Path, n: u32) -> PathBuf {
        dir.join(format!("dd-{n}"))
    }

    /// The numbers of a run.
    pub(crate) fn report(
        &self,
        outcome: &mut Outcome,
        seconds: f64,
        writes: &Latencies,
        storm: Option<(u64, Option<bool>)>,
    ) {
        outcome.push("writers_mb_per_s", "MB/s", self.bytes as f64 / 1e6 / seconds);
        outcome.push("writers_seconds", "s", seconds);
        for (share, name) in [(0.5, "p50"), (0.99, "p99")] {
            if let Some(us) = writes.percentile_us(share) {
                outcome.push(&format!("write_latency_{name}_us"), "us", us);
            }
        }
        if let Some(us) = writes.max_us() {
            outcome.push("write_latency_max_us", "us", us);
        }
        if let Some((touched, is_fresh)) = storm {
            outcome.push("settings_touched", "1", touched as f64);
            if let Some(is_fresh) = is_fresh {
                outcome.push("limits_left_behind", "1", f64::from(u8::from(!is_fresh)));
            }
        }
    }
}

/// Performs it on real files, which are removed afterwards.
///
/// # Errors
/// The first error of the storage; limits that can't be set; [`LabError::Interrupted`].
pub fn perform(
    work: &Hills2015,
    storage: &dyn Storage,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let failed = |what: &str, e: io::Error| LabError::path(what, &setup.dir, e);
    if let Some(hard) = work.hard {
        let set = storage.set_dirty_limits(DirtyLimits::of_hard(hard));
        set.map_err(|e| failed("setting limits for", e))?;
    }
    let (stopped, written, touched) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let over = &AtomicBool::new(false);
    let began = Instant::now();
    let (writes, storm) = thread::scope(|scope| {
        let threads: Vec<_> = (0..work.writers)
            .map(|n| {
                scope.spawn({
                    let (stopped, written) = (&stopped, &written);
                    move || write(work, storage, setup, n, stopped, written)
                })
            })
            .collect();
        let tuner = work.storm_us.map(|us| {
            let (touched, every) = (&touched, Duration::from_micros(us));
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let n = touched.fetch_add(1, Ordering::Relaxed);
                    storage.set_dirty_limits(DirtyLimits::any(work.seed, n))?;
                    thread::park_timeout(every);
                }
                storage.set_dirty_limits(DirtyLimits::LAST)
            })
        });
        while !threads.iter().all(|thread| thread.is_finished()) {
            thread::park_timeout(STEP.min(Duration::from_millis(20)));
            let bytes = written.load(Ordering::Relaxed);
            let report = Progress {
                doing: if bytes < work.bytes {
                    "writing".into()
                } else {
                    "syncing".into()
                },
                share: (0.95 * bytes as f64 / work.bytes as f64).min(1.0),
                detail: format!("{} of {} MB written", bytes / 1_000_000, work.bytes / 1_000_000),
                // A sync moves nothing that could be counted; it is alive for as long as its thread is.
                beat: began.elapsed().as_millis() as u64,
                live: None,
            };
            if progress(report) == Proceed::Stop {
                stopped.store(true, Ordering::Relaxed);
            }
        }
        let mut all = Latencies::new();
        let mut first_error = None;
        for thread in threads {
            match thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p)) {
                Ok(own) => all.merge(&own),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let seconds = began.elapsed();
        over.store(true, Ordering::Relaxed);
        let tuned = tuner.map(|tuner| {
            tuner.thread().unpark();
            tuner.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
        });
        match first_error {
            Some(error) => Err(error),
            None => Ok(((all, seconds), tuned)),
        }
    })?;
    if stopped.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    storm.transpose().map_err(|e| failed("touching limits for", e))?;
    let storm = work
        .storm_us
        .map(|_| (touched.load(Ordering::Relaxed), storage.dirty_limits_are_fresh()));
    for n in 0..work.writers {
        let path = Hills2015::file(&setup.dir, n);
        std::fs::remove_file(&path).map_err(|e| LabError::path("removing", &path, e))?;
    }
    let mut outcome = Outcome::default();
    work.report(&mut outcome, writes.1.as_secs_f64(), &writes.0, storm);
    outcome.measures.extend(storage.measures());
    outcome.settings = storage.settings();
    outcome.warnings = storage.warnings();
    outcome.explanations = storage.explanations();
    Ok(outcome)
}

fn write(
    work: &Hills2015,
    storage: &dyn Storage,
    setup: &Setup,
    n: u32,
    stopped: &AtomicBool,
    written: &AtomicU64,
) -> Result<Latencies> {
    let path = Hills2015::file(&setup.dir, n);
    let failed = |e: io::Error| LabError::path("writing", &path, e);
    let bytes = work.bytes / u64::from(work.writers) / WRITE * WRITE;
    let mut content = Content::new(work.seed);
    let mut writes = Latencies::new();
    let file = storage.create(&path, bytes).map_err(failed)?;
    for offset in (0..bytes).step_by(WRITE as usize) {
        if stopped.load(Ordering::Relaxed) {
            return Ok(writes);
        }
        let data = content.slice(u64::from(n), offset, WRITE as usize);
        let began = Instant::now();
        file.write_at(offset, data).map_err(failed)?;
        writes.record(began.elapsed());
        written.fetch_add(WRITE, Ordering::Relaxed);
    }
    file.sync().map_err(failed)?;
    Ok(writes)
}
