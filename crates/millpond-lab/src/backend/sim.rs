//! The simulator: the same policy on a modelled disk in virtual time. Deterministic, and much faster than the disk.

use super::{Backend, Driver, GoalVariant, RowRequest, Rows, millpond_rows, reasons, sim_hills};
use crate::error::{LabError, Result};
use crate::measure::steps::{Sampled, steps_in};
use crate::outcome::{Outcome, Setting};
use crate::setup::{Device, Setup};
use crate::storage::Served;
use crate::watch::Proceed;
use crate::workload::axboe2016::Axboe2016;
use crate::workload::axboe2016::actors::{LOG_BYTES, RECORD_PAGES_MAX, SCAN_BYTES};
use crate::workload::axboe2016::phase::{
    Actor, CACHED_READS, CHECKPOINT_FILE_BYTES, CHECKPOINT_PAGES, hot_pages,
};
use crate::workload::axboe2016::record::{Logged, PER_STEP_TO_MB_PER_S, Read, Scanned, Written};
use crate::workload::{Progress, Workload};
use millpond::internal::quantity;
use millpond_core::admission::Form;
use millpond_core::io::Reason;
use millpond_core::units::{Bytes, FileId, Instant, Nanos, PageCount, PageSize};
use millpond_sim::scripts::axboe2016::{Checkpoints, Log, Reader, Scan, Shared, Writer};
use millpond_sim::{Costs, Faults, World, WorldOptions};
use std::io;
use std::time::Duration;

/// This kind of target.
pub const KIND: Backend = Backend {
    name: "sim",
    about: "the same policy on a modelled disk in virtual time; the post's own kind of disk unless --device says otherwise",
    rows,
    driver: Driver::InProcess(run),
};

/// Pages of a write call: 256 KiB, about the mean of what the real targets' writers use.
const WRITE_PAGES: u32 = 64;
/// What a cached reader of the simulator does with a page: a reader that only copies would ask two million times a
/// second, and the run would be about it.
const CACHED_THINK: Nanos = Nanos::from_micros(50);
/// Virtual time between two reports of progress.
const SLICE: Nanos = Nanos::from_millis(500);

fn rows(request: &RowRequest) -> Result<Rows> {
    // The post's disk is a rotating one.
    let disk = request.device.model_or_hdd();
    // A goal given for a real disk says nothing about a modelled one.
    let read_latency_goal = match request.device {
        Device::Real => None,
        _ => request.read_latency_goal,
    };
    let request = RowRequest {
        device: Device::Modelled(disk),
        read_latency_goal,
        ..*request
    };
    let mut rows = millpond_rows::rows(&request, "sim", &["off", "v3-10", "bytes", "goal"], true)?;
    for row in &mut rows.rows {
        let is_goal = row.setup.variant.parse::<GoalVariant>().is_ok();
        if is_goal && row.setup.read_latency_goal.is_none() && disk.is_rotational() {
            // What the engine derives from calibrating such a disk.
            row.setup.read_latency_goal = Some(Nanos::from_millis(60));
        }
    }
    Ok(rows)
}

fn run(setup: &Setup, workload: &Workload, progress: &mut dyn FnMut(Progress) -> Proceed) -> Result<Outcome> {
    let work = match workload {
        Workload::Axboe2016(work) => work,
        Workload::Hills2015(work) => return sim_hills::run(setup, work, progress),
        Workload::Gorman2011(_) | Workload::Dillon2000(_) | Workload::Kim2020(_) | Workload::Mapped(_) => {
            return Err(LabError::Unavailable {
                target: setup.target.clone(),
                why: "this experiment simulates the post's own machine".into(),
            });
        }
    };
    let failed = |e: &dyn std::fmt::Display| {
        LabError::path("cannot simulate for", &setup.dir, io::Error::other(e.to_string()))
    };
    let options = millpond_rows::options(setup)?;
    let options = WorldOptions {
        frames: setup.memory.to_pages(options.page_size),
        options,
        alternatives: Vec::new(),
        model: setup.device.model_or_hdd().model()?,
        costs: Costs::default(),
        faults: Faults::default(),
        seed: work.seed,
        validate_every: 0,
    };
    match millpond_rows::wbt(setup) {
        Some(wbt) => {
            let world = World::with_admission(options, wbt).map_err(|e| failed(&e))?;
            simulate(setup, work, world, progress)
        }
        None => {
            let world = World::new(options).map_err(|e| failed(&e))?;
            simulate(setup, work, world, progress)
        }
    }
}

fn simulate<A: Form>(
    setup: &Setup,
    work: &Axboe2016,
    mut world: World<A>,
    progress: &mut dyn FnMut(Progress) -> Proceed,
) -> Result<Outcome> {
    let seen = Shared::default();
    let pages = |bytes: u64| PageCount(bytes.div_ceil(PageSize::KIB_4.bytes()));
    let read_file = world.add_file(pages(work.read_file_bytes));
    let until = if work.phase.writes() {
        let files: Vec<FileId> = (0..work.files)
            .map(|_| world.add_file(pages(work.file_bytes)))
            .collect();
        for n in 0..work.writers.min(work.files) {
            let own = files
                .iter()
                .copied()
                .skip(n as usize)
                .step_by(work.writers as usize)
                .collect();
            world.add_process(Box::new(Writer::new(
                own,
                pages(work.file_bytes).0,
                WRITE_PAGES,
                seen.clone(),
            )));
        }
        Instant::NEVER
    } else {
        Instant(0) + Nanos::from_millis(work.reader_alone_ms)
    };
    let read_pages = pages(work.read_file_bytes).0;
    let reader = |n: u32| {
        let seed = work.seed.wrapping_add(u64::from(n) << 32);
        Reader::new(read_file, read_pages, seed, until, seen.clone())
    };
    match work.phase.actor() {
        None => {}
        Some(Actor::Readers(count, think)) => {
            let think = Nanos(think.as_nanos() as u64);
            for n in 0..count {
                world.add_process(Box::new(reader(n).thinking(think)));
            }
        }
        Some(Actor::CachedReader) => {
            let hot = hot_pages(read_pages, setup.memory.0);
            let reader = reader(0).thinking(CACHED_THINK).caching(hot, CACHED_READS);
            world.add_process(Box::new(reader));
        }
        Some(Actor::Log) => {
            let log = (world.add_file(pages(LOG_BYTES)), pages(LOG_BYTES).0);
            world.add_process(Box::new(Log::new(
                log,
                RECORD_PAGES_MAX,
                work.seed,
                until,
                seen.clone(),
            )));
        }
        Some(Actor::Checkpoints) => {
            let file = pages(CHECKPOINT_FILE_BYTES);
            let file = (world.add_file(file), file.0);
            let log = (world.add_file(pages(LOG_BYTES)), pages(LOG_BYTES).0);
            world.add_process(Box::new(Checkpoints::new(
                file,
                log,
                CHECKPOINT_PAGES,
                work.seed,
                until,
                seen.clone(),
            )));
        }
        Some(Actor::Scan) => {
            let step = pages(SCAN_BYTES).0;
            world.add_process(Box::new(Scan::new(
                read_file,
                read_pages,
                step,
                until,
                seen.clone(),
            )));
        }
    }
    let mut transfers = (Sampled::default(), Sampled::default());
    let sample = |world: &World<A>, transfers: &mut (Sampled, Sampled)| {
        let bytes = world.manager().stats().io_bytes;
        let sum = |reads| {
            let reasons = Reason::ALL.into_iter().filter(|r| r.is_read() == reads);
            reasons.map(|r| bytes[r as usize]).sum()
        };
        let now = Duration::from_nanos(world.now().0);
        transfers.0.sample(now, sum(true));
        transfers.1.sample(now, sum(false));
    };
    sample(&world, &mut transfers);
    while !world.is_over() {
        world.run(world.now() + SLICE);
        sample(&world, &mut transfers);
        let seen = seen.borrow();
        let written: u64 = seen
            .writes
            .iter()
            .map(|&(_, pages)| u64::from(pages) * 4096)
            .sum();
        let now = world.now();
        let report = Progress {
            doing: "simulating".into(),
            share: if work.phase.writes() {
                (0.95 * written as f64 / work.written_bytes() as f64).min(1.0)
            } else {
                (now.0 as f64 / until.0 as f64).min(1.0)
            },
            detail: format!(
                "{:.0} s of virtual time, {} written",
                now.0 as f64 / 1e9,
                quantity::size(Bytes(written))
            ),
            beat: now.0,
            live: None,
        };
        if progress(report) == Proceed::Stop {
            return Err(LabError::Interrupted);
        }
    }
    Ok(outcome(work, &world, &seen, &transfers))
}

fn outcome<A: Form>(
    work: &Axboe2016,
    world: &World<A>,
    seen: &Shared,
    transfers: &(Sampled, Sampled),
) -> Outcome {
    let seen = seen.borrow();
    let time = |at: Instant| Duration::from_nanos(at.0);
    let length = time(world.now());
    let steps = steps_in(length);
    let mut outcome = Outcome::default();
    if work.phase.reads() {
        let mut read = Read::default();
        for &(ended, latency) in &seen.missed {
            let latency = Duration::from_nanos(latency.0);
            read.add(time(ended) - latency, time(ended), latency, Served::Device);
        }
        let hit = Duration::from_nanos(Costs::default().copy.0);
        for &ended in &seen.hits {
            read.add(time(ended), time(ended), hit, Served::Memory);
        }
        read.report(length, steps, &mut outcome);
    }
    if !seen.synced_records.is_empty() {
        let mut logged = Logged::default();
        for &(ended, sync, append) in &seen.synced_records {
            let (to, sync) = (time(ended), Duration::from_nanos(sync.0));
            logged.add(to.saturating_sub(sync), to, Duration::from_nanos(append.0), sync);
        }
        logged.report(length, steps, &mut outcome);
    }
    if !seen.scanned.is_empty() {
        let mut scanned = Scanned::default();
        for &(ended, took, pages) in &seen.scanned {
            let bytes = u64::from(pages) * PageSize::KIB_4.bytes();
            scanned.add(time(ended), Duration::from_nanos(took.0), bytes);
        }
        scanned.report(length, steps, &mut outcome);
    }
    if work.phase.writes() {
        let mut written = Written {
            write_seconds: time(seen.written).as_secs_f64(),
            seconds: time(seen.synced).as_secs_f64(),
            ..Written::default()
        };
        for &(ended, pages) in &seen.writes {
            written
                .bytes
                .add(time(ended), u64::from(pages) * PageSize::KIB_4.bytes());
        }
        written.report(work, steps, &mut outcome);
    }
    let stats = world.manager().stats();
    outcome.push("file_pages_written_by_reclaim", "1", stats.nr_vmscan_write as f64);
    outcome.measures.extend(reasons::measures(stats));
    for (sampled, name) in [
        (&transfers.0, "device_read_mb_per_s"),
        (&transfers.1, "device_written_mb_per_s"),
    ] {
        let series = sampled.sums().series(name, "MB/s", steps, PER_STEP_TO_MB_PER_S);
        outcome.series.push(series);
    }
    let disk = world.model().statistics(world.now());
    outcome.push("device_queue_depth_mean", "1", disk.queue_depth_mean);
    outcome.push("device_seeks", "1", disk.seeks as f64);
    outcome.settings = vec![
        Setting::new("disk", world.model().name()),
        Setting::new("memory frames", world.manager().derived().frames.0),
    ];
    outcome
}
