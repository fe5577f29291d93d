//! Loads beside something that competes for their memory or their disk.

use super::Mapped;
use super::access::{Access, Writer};
use super::loads::{Draws, touch};
use super::timed::{self, Run, Seen};
use crate::error::{LabError, Result};
use crate::measure::process;
use crate::outcome::Outcome;
use crate::setup::Setup;
use crate::watch::Proceed;
use crate::workload::Progress;
use crate::workload::data::{PAGE, WRITE_MAX};
use millpond_sim::draw::Draw;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// Pages of the hot set that are touched at a time, and then as many of the scan.
const BATCH: u64 = 256;
/// Writers, each of a file as large as memory, over and over again.
const WRITERS: u32 = 2;

/// The hot set is touched twice, then as often as the scan has pages: so each of its pages is touched once while half a memory
/// of others passes, and other pages of the hot set.
pub(super) fn hot_set(
    work: &Mapped,
    access: &impl Access,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let run = Run::default();
    let hot = (setup.memory.0 / 2 / PAGE as u64).clamp(1, work.pages() / 2);
    for page in (0..hot).chain(0..hot) {
        touch(access, page)?;
        if page.is_multiple_of(4096) {
            run.tell("warming up", 0.0, progress)?;
        }
    }
    let mut draw = Draw(work.seed);
    let (mut seen, mut misses) = (Seen::default(), 0);
    // those of the last quarter, when it is known what is hot
    let (mut late, mut late_misses, late_from) = (0, 0, work.pages() - work.pages() / 4);
    let cpu = process::processor_seconds();
    let began = Instant::now();
    for first in (hot..work.pages()).step_by(BATCH as usize) {
        let all: Vec<u64> = (0..BATCH).map(|_| draw.below(hot) * PAGE as u64).collect();
        let missed = access.count_misses(&all, |at| {
            let began = Instant::now();
            touch(access, at / PAGE as u64)?;
            seen.record(began.elapsed(), 1);
            Ok(())
        })?;
        misses += missed;
        if first >= late_from {
            (late, late_misses) = (late + BATCH, late_misses + missed);
        }
        for page in first..(first + BATCH).min(work.pages()) {
            touch(access, page)?;
        }
        run.beat();
        if (first / BATCH).is_multiple_of(64) {
            run.tell("scanning", first as f64 / work.pages() as f64, progress)?;
        }
    }
    let took = began.elapsed();
    let of = |(user, system)| user + system;
    let cpu = process::processor_seconds().map_or(0.0, of) - cpu.map_or(0.0, of);
    let mut outcome = Outcome::default();
    seen.push(&mut outcome, took, cpu);
    let percent = |misses: u64, of: u64| 100.0 - 100.0 * misses as f64 / of.max(1) as f64;
    outcome.push("hot_hits_percent", "%", percent(misses, seen.accesses()));
    outcome.push("hot_hits_late_percent", "%", percent(late_misses, late));
    Ok(outcome)
}

pub(super) fn writers(
    work: &Mapped,
    access: &impl Access,
    setup: &Setup,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let folder = Mapped::written(&setup.dir);
    fs::create_dir(&folder).map_err(|e| LabError::path("cannot create", &folder, e))?;
    let draws = Draws::new(work, setup.memory.0);
    let (run, written) = (Run::default(), AtomicU64::new(0));
    let files = (0..WRITERS).map(|n| access.create(&folder.join(n.to_string())));
    let files = files.collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let (draws, run, written, folder) = (&draws, &run, &written, folder.as_path());
        let bytes = setup.memory.0;
        let writing = files.into_iter();
        let writing = writing.map(|file| scope.spawn(move || write(file, folder, bytes, run, written)));
        let writing: Vec<_> = writing.collect();
        let reading = vec![scope.spawn(move || timed::touch(draws, run, 0, true, access))];
        let conducted = timed::conduct(run, work, &reading, progress);
        run.end();
        let seen = timed::join(reading.into_iter().chain(writing).collect())?;
        let (took, cpu) = conducted?;
        let mut outcome = Outcome::default();
        seen.push(&mut outcome, took, cpu);
        let per_s = written.load(Relaxed) as f64 / took.as_secs_f64().max(1e-9);
        outcome.push("writers_mb_per_s", "MB/s", per_s / 1e6);
        Ok(outcome)
    })
}

/// Writes a file over and over again until the run is over; counts what it writes while the run is measured.
fn write(file: Box<dyn Writer>, path: &Path, bytes: u64, run: &Run, written: &AtomicU64) -> Result<Seen> {
    let block = vec![0x5a; WRITE_MAX];
    loop {
        for at in (0..bytes).step_by(block.len()) {
            if run.is_over() {
                return Ok(Seen::default());
            }
            let most = block.len().min((bytes - at) as usize);
            let failed = |e| LabError::path("cannot write in", path, e);
            file.write_at(&block[..most], at).map_err(failed)?;
            if run.is_measured() {
                written.fetch_add(most as u64, Relaxed);
            }
        }
    }
}
