//! Loads that are measured for a time.

use super::Mapped;
use super::access::Access;
use super::loads::Draws;
use crate::error::{LabError, Result};
use crate::measure::latency::Latencies;
use crate::measure::process;
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::watch::Proceed;
use crate::workload::Progress;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The number of threads that warm up random loads.
const WARM_THREADS: u32 = 8;
/// Between two reports of progress.
const TELL: Duration = Duration::from_millis(50);

/// A run's phases; before them it warms.
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// The state shared by the threads and the one that waits for them.
#[derive(Default)]
pub(super) struct Run {
    phase: AtomicU8,
    beat: AtomicU64,
    /// Threads that have had an access measured.
    seeing: AtomicU64,
}

/// The measurements of a thread.
#[derive(Default)]
pub(super) struct Seen {
    latencies: Latencies,
    accesses: u64,
}

impl Run {
    pub(super) fn is_over(&self) -> bool {
        self.phase.load(Relaxed) == OVER
    }

    pub(super) fn is_measured(&self) -> bool {
        self.phase.load(Relaxed) == MEASURED
    }

    pub(super) fn end(&self) {
        self.phase.store(OVER, Relaxed);
    }

    pub(super) fn beat(&self) {
        self.beat.fetch_add(1, Relaxed);
    }

    /// Warms for as long as it then measures; answers how long that was, and what it took the processor.
    pub(super) fn conduct(
        &self,
        measured: Duration,
        is_alive: impl Fn() -> bool,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<(Duration, f64)> {
        self.wait(measured, ("warming up", 0.0), &|| true, &is_alive, progress)?;
        let cpu = process::processor_seconds();
        self.phase.store(MEASURED, Relaxed);
        let began = Instant::now();
        // or longer, where one access takes longer
        let sees = || self.seeing.load(Relaxed) > 0;
        self.wait(measured, ("measuring", 0.5), &sees, &is_alive, progress)?;
        let took = began.elapsed();
        self.end();
        let of = |(user, system)| user + system;
        let cpu = process::processor_seconds().map_or(0.0, of) - cpu.map_or(0.0, of);
        Ok((took, cpu))
    }

    /// Waits this long, and until there is enough, while all threads are alive.
    fn wait(
        &self,
        span: Duration,
        (doing, share): (&str, f64),
        is_enough: &impl Fn() -> bool,
        is_alive: &impl Fn() -> bool,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<()> {
        let began = Instant::now();
        while (began.elapsed() < span || !is_enough()) && is_alive() {
            let left = span.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
            thread::sleep(TELL.min(left));
            let share = share + 0.5 * began.elapsed().as_secs_f64() / span.as_secs_f64();
            self.tell(doing, share.min(1.0), progress)
                .inspect_err(|_| self.end())?;
        }
        Ok(())
    }

    pub(super) fn tell(
        &self,
        doing: &str,
        share: f64,
        progress: &mut dyn FnMut(Progress) -> Proceed,
    ) -> Result<()> {
        let beat = self.beat.load(Relaxed);
        let now = Progress {
            doing: doing.into(),
            share,
            detail: format!("{beat} accesses"),
            beat,
            live: None,
        };
        match progress(now) {
            Proceed::Yes => Ok(()),
            Proceed::Stop => Err(LabError::Interrupted),
        }
    }
}

impl Seen {
    pub(super) fn record(&mut self, took: Duration, accesses: u64) {
        self.latencies.record(took / accesses as u32);
        self.accesses += accesses;
    }

    pub(super) fn accesses(&self) -> u64 {
        self.accesses
    }

    fn merge(&mut self, other: &Seen) {
        self.latencies.merge(&other.latencies);
        self.accesses += other.accesses;
    }

    /// Their metrics for a run of this duration, and this processor time.
    pub(super) fn push(&self, outcome: &mut Outcome, took: Duration, cpu_seconds: f64) {
        let per_s = self.accesses as f64 / took.as_secs_f64().max(1e-9);
        outcome.push("accesses_per_s", "1/s", per_s);
        let of = &self.latencies;
        for (metric, us) in [
            ("access_p50_us", of.percentile_us(0.5)),
            ("access_p99_us", of.percentile_us(0.99)),
            ("access_p999_us", of.percentile_us(0.999)),
            ("access_max_us", of.max_us()),
        ] {
            if let Some(us) = us {
                outcome.push(metric, "us", us);
            }
        }
        if self.accesses > 0 {
            let us = cpu_seconds * 1e6 / self.accesses as f64;
            outcome.push("processor_per_access_us", "us", us);
        }
        outcome.latency_curve = of.curve();
    }
}

pub(super) fn perform(
    work: &Mapped,
    access: &impl Access,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let draws = Draws::new(work, setup.memory.0);
    draws.bring_part(access)?;
    let run = Run::default();
    let threads = work.load.threads();
    let all = match work.load.is_random() {
        true => threads.max(WARM_THREADS),
        false => threads,
    };
    thread::scope(|scope| {
        let (draws, run) = (&draws, &run);
        let touching = (0..all).map(|n| scope.spawn(move || touch(draws, run, n, n < threads, access)));
        let touching: Vec<_> = touching.collect();
        let conducted = conduct(run, work, &touching[..threads as usize], progress);
        let seen = join(touching)?;
        let (took, cpu) = conducted?;
        let mut outcome = Outcome::default();
        seen.push(&mut outcome, took, cpu);
        Ok(outcome)
    })
}

/// Until the time is up or one of the threads has failed.
pub(super) fn conduct<T>(
    run: &Run,
    work: &Mapped,
    threads: &[ScopedJoinHandle<'_, T>],
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<(Duration, f64)> {
    let is_alive = || threads.iter().all(|thread| !thread.is_finished());
    run.conduct(Duration::from_millis(work.measured_ms), is_alive, progress)
}

/// All threads' measurements, or the first error.
pub(super) fn join(threads: Vec<ScopedJoinHandle<'_, Result<Seen>>>) -> Result<Seen> {
    let mut all = Seen::default();
    let mut failed = None;
    for thread in threads {
        let panicked = || {
            Err(LabError::io(
                "touching",
                io::Error::other("a thread has panicked"),
            ))
        };
        match thread.join().unwrap_or_else(|_| panicked()) {
            Ok(seen) => all.merge(&seen),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(all), Err)
}

/// A thread's accesses. One that only warms ends when the others are measured.
pub(super) fn touch(
    draws: &Draws,
    run: &Run,
    thread: u32,
    is_measured: bool,
    access: &impl Access,
) -> Result<Seen> {
    let mut touches = draws.of(thread);
    let mut seen = Seen::default();
    while !run.is_over() && (is_measured || !run.is_measured()) {
        let counts = run.is_measured();
        let (took, accesses) = touches.perform(access)?;
        if counts {
            if seen.accesses == 0 {
                run.seeing.fetch_add(1, Relaxed);
            }
            seen.record(took, accesses);
        }
        run.beat();
    }
    Ok(seen)
}
